//! Activations against the reference, with margins around input and output, and finite differences.

use super::{LeakyRelu, LeakyReluLayer, Tanh, TanhLayer, reference};
use crate::Layer;
use crate::testing::{alone, check_input_gradient, cut, distance, normals, widen};
use shardmark_partition::{Dim, Region, Shape, Span};
use shardmark_tensor::Block;

const SHAPE: Shape = [2, 3, 4, 5, 7];

fn values(stream: u64) -> Vec<f64> {
    normals(Region::full(SHAPE).len(), stream).iter().map(|&v| f64::from(v as f32)).collect()
}

/// Runs a layer in f32 on one part of the tensor, with margins of different widths on all blocks.
fn run(layer: &mut dyn Layer<f32>, x: &[f64], dy: &[f64]) -> (Vec<f64>, Vec<f64>) {
    let part = Region::full(SHAPE).with(Dim::H, Span::new(1, 3)).with(Dim::W, Span::new(0, 4));
    let wide = part.with(Dim::H, Span::new(0, 5)).with(Dim::W, Span::new(-1, 6));
    let (x, dy) = (cut(SHAPE, x, wide, 0.0f32), cut(SHAPE, dy, part, 0.0f32));
    let mut y = Block::zeros(part.with(Dim::D, Span::new(-2, 3)));
    layer.forward(&alone(), &x, &mut y, &part).unwrap();
    let mut dx = Block::zeros(wide);
    layer.backward_data(&alone(), &x, &y, &dy, &mut dx, &part).unwrap();
    let outside = |b: &Block<f32>| b.data().iter().filter(|&&v| v != 0.0).count() <= part.len();
    assert!(outside(&y) && outside(&dx), "margins stay untouched");
    (widen(&y.pack(&part)), widen(&dx.pack(&part)))
}

fn part_of(values: &[f64]) -> Vec<f64> {
    let part = Region::full(SHAPE).with(Dim::H, Span::new(1, 3)).with(Dim::W, Span::new(0, 4));
    Block::from_vec(Region::full(SHAPE), values.to_vec()).pack(&part)
}

#[test]
fn leaky_relu_equals_the_reference() {
    let (x, dy) = (values(1), values(2));
    let (y, dx) = run(&mut LeakyReluLayer::new(LeakyRelu { slope: 0.25 }), &x, &dy);
    assert_eq!(y, part_of(&reference::leaky_relu(0.25, &x)));
    assert_eq!(dx, part_of(&reference::leaky_relu_gradient(0.25, &x, &dy)));
}

#[test]
fn leaky_relu_scales_zero_and_keeps_nan() {
    let all = Region::full([1, 1, 1, 1, 3]);
    let (x, dy) = (Block::from_vec(all, vec![0.0f32, f32::NAN, -2.0]), Block::from_vec(all, vec![1.0f32; 3]));
    let (mut y, mut dx) = (Block::zeros(all), Block::zeros(all));
    let mut layer = LeakyReluLayer::new(LeakyRelu { slope: 0.5 });
    layer.forward(&alone(), &x, &mut y, &all).unwrap();
    layer.backward_data(&alone(), &x, &y, &dy, &mut dx, &all).unwrap();
    assert!(y.data()[0] == 0.0 && y.data()[1].is_nan() && y.data()[2] == -1.0);
    assert_eq!(dx.data(), [0.5; 3]);
}

#[test]
fn tanh_agrees_with_the_reference() {
    let (x, dy) = (values(3), values(4));
    let (y, dx) = run(&mut TanhLayer::new(Tanh { scale: 1.2 }), &x, &dy);
    let eps = f64::from(f32::EPSILON);
    // y: a libm tanh within one unit, and one product. dx: cancellation in scale - y^2/scale, times |dy| below 5.
    assert!(distance(&y, &part_of(&reference::tanh(1.2, &x))) <= 2.0 * eps);
    assert!(distance(&dx, &part_of(&reference::tanh_gradient(1.2, &x, &dy))) <= 5.0 * 4.0 * eps);
}

#[test]
fn gradients_agree_with_finite_differences() {
    let shape = [2, 1, 3, 2, 4];
    let x = normals(Region::full(shape).len(), 5);
    check_input_gradient(&mut LeakyReluLayer::new(LeakyRelu { slope: 0.01 }), &alone(), shape, &x, shape);
    check_input_gradient(&mut TanhLayer::new(Tanh { scale: 1.2 }), &alone(), shape, &x, shape);
}

#[test]
fn a_rank_without_part_does_nothing() {
    let (run, empty) = (alone(), Region::default());
    let (x, mut y) = (Block::<f32>::zeros(empty), Block::zeros(empty));
    LeakyReluLayer::new(LeakyRelu { slope: 0.1 }).forward(&run, &x, &mut y, &empty).unwrap();
    TanhLayer::new(Tanh { scale: 1.0 }).forward(&run, &x, &mut y, &empty).unwrap();
}
