//! Dropout's mask depends on seed, layer, step and global index only.

use super::{Dropout, DropoutLayer, reference};
use crate::testing::{alone, blocks, check_input_gradient, cut, distance, normals};
use crate::{Env, Layer};
use shardmark_partition::{Dim, Region, Shape, Span};
use shardmark_tensor::Block;

const SHAPE: Shape = [3, 4, 3, 5, 6];
const SPEC: Dropout = Dropout { keep: 0.8 };

fn whole(env: &Env, x: &[f64]) -> Vec<f64> {
    let all = Region::full(SHAPE);
    let mut y = Block::zeros(all);
    DropoutLayer::new(SPEC, SHAPE).forward(env, &Block::from_vec(all, x.to_vec()), &mut y, &all).unwrap();
    y.data().to_vec()
}

#[test]
fn equals_the_reference_on_every_split() {
    let (env, x) = (alone(), normals(Region::full(SHAPE).len(), 1));
    let expected = reference::forward(env.seed, env.layer, env.step, SPEC.keep, &x);
    assert!(distance(&whole(&env, &x), &expected) < 1e-15 * 8.0);
    for parts in [[1, 2, 2, 2, 1], [3, 1, 1, 5, 1], [5, 7, 1, 1, 1]] {
        let mut y = Block::zeros(Region::full(SHAPE));
        for own in blocks(SHAPE, parts) {
            let margins = own.with(Dim::W, Span::new(own.span(Dim::W).lo - 1, own.span(Dim::W).hi + 2));
            let x = cut(SHAPE, &x, margins, 0.0);
            let mut block = Block::zeros(own);
            DropoutLayer::new(SPEC, SHAPE).forward(&env, &x, &mut block, &own).unwrap();
            y.copy_from(&block, &own);
        }
        assert_eq!(y.data(), whole(&env, &x));
    }
}

#[test]
fn keeps_the_given_share_and_changes_with_seed_layer_and_step() {
    let ones = vec![1.0; Region::full(SHAPE).len()];
    let masks: Vec<Vec<f64>> = [(11, 5, 3), (12, 5, 3), (11, 6, 3), (11, 5, 4)]
        .map(|(seed, layer, step)| whole(&Env { seed, layer, step, ..alone() }, &ones))
        .to_vec();
    for (i, mask) in masks.iter().enumerate() {
        let kept = mask.iter().filter(|&&y| y != 0.0).count() as f64 / ones.len() as f64;
        assert!((kept - SPEC.keep).abs() < 0.04, "{kept}");
        assert!(mask.iter().all(|&y| y == 0.0 || y == 1.25));
        assert!(masks[..i].iter().all(|other| other != mask));
    }
}

#[test]
fn is_the_identity_in_evaluation_and_when_all_is_kept() {
    let x = normals(Region::full(SHAPE).len(), 2);
    assert_eq!(whole(&Env { training: false, ..alone() }, &x), x);
    let all = Region::full(SHAPE);
    let mut y = Block::zeros(all);
    let block = Block::from_vec(all, x.clone());
    DropoutLayer::new(Dropout { keep: 1.0 }, SHAPE).forward(&alone(), &block, &mut y, &all).unwrap();
    assert_eq!(y.data(), x);
}

#[test]
fn the_gradient_passes_where_values_passed() {
    let shape = [2, 1, 1, 1, 40];
    let x = normals(80, 3);
    check_input_gradient(&mut DropoutLayer::new(Dropout { keep: 0.5 }, shape), &alone(), shape, &x, shape);
}
