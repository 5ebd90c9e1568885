//! Dense against the reference, exactly; flattening against its definition; finite differences.

use super::{Dense, DenseLayer, Flatten, FlattenLayer, reference};
use crate::testing::{alone, blocks, check_input_gradient, check_param_gradients, cut, integers, normals, widen};
use crate::{Env, Float, Layer, Op};
use shardmark_host::{SOLO, Team};
use shardmark_partition::{Dim, Region, Span};
use shardmark_tensor::Block;

fn layer<T: Float>(c: usize, k: usize, weight: &[f64], bias: Option<&[f64]>) -> DenseLayer<T> {
    let mut layer = DenseLayer::new(Dense { c, k, bias: bias.is_some(), bias_init: 0.1 });
    let start = [Some(weight), bias];
    for (param, values) in layer.params_mut().iter_mut().zip(start.into_iter().flatten()) {
        param.value = values.iter().map(|&v| T::from_f64(v)).collect();
    }
    layer
}

fn is_exact<T: Float>(n: usize, c: usize, k: usize) {
    let (x, weight, bias) = (integers(n * c, 1), integers(k * c, 2), integers(k, 3));
    let dy = integers(n * k, 4);
    let (y_expected, no_bias) = (reference::forward(n, c, k, &x, &weight, &bias), vec![0.0; k]);
    let (dx_expected, dw_expected, db_expected) = reference::backward(n, c, k, &x, &weight, &dy);
    let (rows_in, rows_out) = (Region::full([n, 1, 1, 1, c]), Region::full([n, 1, 1, 1, k]));
    let (x_block, dy_block) =
        (cut(rows_in.shape(), &x, rows_in, T::ZERO), cut(rows_out.shape(), &dy, rows_out, T::ZERO));
    let (mut y, mut dx) = (Block::zeros(rows_out), Block::zeros(rows_in));
    let mut with_bias = layer::<T>(c, k, &weight, Some(&bias));
    with_bias.forward(&alone(), &x_block, &mut y, &rows_out).unwrap();
    with_bias.backward_data(&alone(), &x_block, &y, &dy_block, &mut dx, &rows_in).unwrap();
    with_bias.backward_params(&alone(), &x_block, &dy_block, &rows_out).unwrap();
    assert_eq!(widen(y.data()), y_expected, "y of {n} x {c} -> {k}");
    assert_eq!(widen(dx.data()), dx_expected, "dx of {n} x {c} -> {k}");
    assert_eq!(widen(&with_bias.params()[0].grad), dw_expected, "dweight of {n} x {c} -> {k}");
    assert_eq!(widen(&with_bias.params()[1].grad), db_expected, "dbias of {n} x {c} -> {k}");
    let mut without = layer::<T>(c, k, &weight, None);
    without.forward(&alone(), &x_block, &mut y, &rows_out).unwrap();
    assert_eq!(without.params().len(), 1);
    assert_eq!(widen(y.data()), reference::forward(n, c, k, &x, &weight, &no_bias));
}

#[test]
fn equals_the_reference() {
    for (n, c, k) in [
        (1, 1, 1),
        (1, 16, 4),
        (3, 7, 5),
        (4, 33, 9),
        (5, 64, 3),
        (8, 100, 10),
        (9, 15, 13),
        (37, 70, 35),
        (400, 20, 300),
    ] {
        is_exact::<f32>(n, c, k);
        is_exact::<f64>(n, c, k);
    }
}

#[test]
fn any_team_gives_the_same_bits() {
    for (n, c, k) in [(3, 310, 430), (40, 310, 430)] {
        let (x, dy, weight) = (normals(n * c, 1), normals(n * k, 2), normals(k * c, 3));
        let (rows_in, rows_out) = (Region::full([n, 1, 1, 1, c]), Region::full([n, 1, 1, 1, k]));
        let (x, dy) = (cut(rows_in.shape(), &x, rows_in, 0.0), cut(rows_out.shape(), &dy, rows_out, 0.0));
        let run = |team: &Team| {
            let env = Env { team, ..alone() };
            let mut layer = layer::<f32>(c, k, &weight, None);
            let (mut y, mut dx) = (Block::zeros(rows_out), Block::zeros(rows_in));
            layer.forward(&env, &x, &mut y, &rows_out).unwrap();
            layer.backward_data(&env, &x, &y, &dy, &mut dx, &rows_in).unwrap();
            layer.backward_params(&env, &x, &dy, &rows_out).unwrap();
            (y, dx, layer.params()[0].grad.clone())
        };
        let expected = run(&SOLO);
        for threads in 2..=3 {
            assert!(run(&Team::new(threads).unwrap()) == expected, "{threads} threads, {n} rows");
        }
    }
}

#[test]
fn a_sample_gives_the_same_bits_with_any_neighbours() {
    let (n, c, k) = (7, 45, 6);
    let (x, weight, bias) = (normals(n * c, 1), normals(k * c, 2), normals(k, 3));
    let run = |own: Region| {
        let mut y = Block::<f32>::zeros(own.with(Dim::C, Span::full(k)));
        let part = *y.region();
        layer(c, k, &weight, Some(&bias))
            .forward(&alone(), &cut([n, 1, 1, 1, c], &x, own, 0.0), &mut y, &part)
            .unwrap();
        y
    };
    let together = run(Region::full([n, 1, 1, 1, c]));
    for own in blocks([n, 1, 1, 1, c], [5, 1, 1, 1, 1]) {
        let part = own.with(Dim::C, Span::full(k));
        assert_eq!(run(own).data(), together.pack(&part));
    }
}

#[test]
fn gradients_agree_with_finite_differences() {
    let (n, c, k) = (3, 5, 6);
    let mut layer = layer::<f64>(c, k, &normals(k * c, 2), Some(&normals(k, 3)));
    let x = normals(n * c, 1);
    check_input_gradient(&mut layer, &alone(), [n, 1, 1, 1, c], &x, [n, 1, 1, 1, k]);
    check_param_gradients(&mut layer, &alone(), [n, 1, 1, 1, c], &x, [n, 1, 1, 1, k]);
}

#[test]
fn a_rank_without_samples_has_zero_gradients() {
    let mut layer = layer::<f32>(4, 3, &[1.0; 12], Some(&[1.0; 3]));
    for param in layer.params_mut() {
        param.grad.fill(7.0);
    }
    let (rows_in, rows_out) = (Region::full([0, 1, 1, 1, 4]), Region::full([0, 1, 1, 1, 3]));
    let (x, mut y) = (Block::zeros(rows_in), Block::zeros(rows_out));
    layer.forward(&alone(), &x, &mut y, &rows_out).unwrap();
    layer.backward_data(&alone(), &x, &y, &y, &mut Block::zeros(rows_in), &rows_in).unwrap();
    layer.backward_params(&alone(), &x, &y, &rows_out).unwrap();
    assert!(layer.params().iter().all(|p| p.grad.iter().all(|&g| g == 0.0)));
}

#[test]
fn flatten_orders_channels_first_and_backward_undoes_it() {
    let shape = [3, 2, 3, 4, 5];
    let x = integers(Region::full(shape).len(), 1);
    let out = Op::Flatten(Flatten).out_shape(shape).unwrap();
    assert_eq!(out, [3, 1, 1, 1, 120]);
    let expected = Block::from_vec(Region::full(out), reference::flatten(shape, &x));
    for own in blocks(shape, [4, 1, 1, 1, 1]) {
        let mut layer = FlattenLayer::new(shape);
        let margins = own.with(Dim::D, Span::new(-1, 2)).with(Dim::W, Span::new(-1, 5));
        let x = cut(shape, &x, margins, 0.0);
        let part = own.with(Dim::D, Span::full(1)).with(Dim::H, Span::full(1)).with(Dim::W, Span::full(1));
        let part = part.with(Dim::C, Span::full(120));
        let mut y = Block::zeros(part);
        layer.forward(&alone(), &x, &mut y, &part).unwrap();
        assert_eq!(y.data(), expected.pack(&part));
        let mut dx = Block::zeros(margins);
        layer.backward_data(&alone(), &x, &y, &y, &mut dx, &own).unwrap();
        assert_eq!(dx, x);
    }
}
