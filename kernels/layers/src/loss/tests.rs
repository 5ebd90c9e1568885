//! Losses against the reference, added up over ranks; finite differences.

use super::{Loss, reference};
use crate::testing::{blocks, cut, differences, distance, normals, widen};
use shardmark_partition::{Region, Shape};
use shardmark_tensor::Block;

const SHAPE: Shape = [5, 1, 1, 1, 4];

fn expected(loss: Loss, pred: &[f64], target: &[f64]) -> (f64, Vec<f64>) {
    match loss {
        Loss::Mse => reference::mse(pred, target),
        Loss::Mae => reference::mae(pred, target),
    }
}

#[test]
fn sums_over_ranks_give_the_mean_and_its_gradient() {
    let (pred, mut target) = (normals(20, 1), normals(20, 2));
    target[3] = pred[3];
    for loss in [Loss::Mse, Loss::Mae] {
        let (value, gradient) = expected(loss, &pred, &target);
        for parts in [1, 2, 7] {
            let mut dpred = Block::<f64>::zeros(Region::full(SHAPE));
            let mut sum = 0.0;
            for own in blocks(SHAPE, [parts, 1, 1, 1, 1]) {
                let (p, t) = (cut(SHAPE, &pred, own, 0.0), cut(SHAPE, &target, own, 0.0));
                let mut dp = Block::zeros(own);
                sum += loss.sum_and_gradient(&p, &t, &mut dp, &own, 20);
                dpred.copy_from(&dp, &own);
            }
            assert!((sum / 20.0 - value).abs() < 1e-14, "{} over {parts}", loss.name());
            assert!(distance(dpred.data(), &gradient) < 1e-15);
            assert!(loss == Loss::Mse || dpred.data()[3] == 0.0, "the sign of 0 is 0");
        }
    }
}

#[test]
fn f32_terms_are_summed_in_f64() {
    let all = Region::full(SHAPE);
    let (pred, target) = (normals(20, 3), normals(20, 4));
    let (p, t) = (cut(SHAPE, &pred, all, 0.0f32), cut(SHAPE, &target, all, 0.0f32));
    for loss in [Loss::Mse, Loss::Mae] {
        let (value, gradient) = expected(loss, &widen(p.data()), &widen(t.data()));
        let mut dp = Block::zeros(all);
        assert!((loss.sum_and_gradient(&p, &t, &mut dp, &all, 20) / 20.0 - value).abs() < 1e-14);
        assert!(distance(&widen(dp.data()), &gradient) < f64::from(f32::EPSILON));
    }
}

#[test]
fn gradients_agree_with_finite_differences() {
    let (pred, target) = (normals(20, 5), normals(20, 6));
    for loss in [Loss::Mse, Loss::Mae] {
        let numeric = differences(&pred, |pred| expected(loss, pred, &target).0);
        assert!(distance(&numeric, &expected(loss, &pred, &target).1) < 1e-9);
    }
}
