//! Helpers of the layers' tests: values, blocks with borders, one rank's environment, finite differences.

use crate::{Env, Groups, Layer};
use shardmark_comm::Comm;
use shardmark_host::SOLO;
use shardmark_partition::{AxisSet, Dim, Region, Shape, Span, block};
use shardmark_tensor::{Block, rng};
use std::cell::Cell;

/// This rank alone.
pub(crate) struct Alone;

impl Groups for Alone {
    fn group(&self, _axes: AxisSet) -> Option<&dyn Comm> {
        None
    }
}

/// A training environment of one rank.
pub(crate) fn alone() -> Env<'static> {
    Env { groups: &Alone, seed: 11, step: 3, layer: 5, training: true, team: &SOLO, communication_s: Cell::new(0.0) }
}

/// Small integers, different for every `stream`.
pub(crate) fn integers(len: usize, stream: u64) -> Vec<f64> {
    (0..len as u64).map(|i| rng::small_int(7, stream, i, 5)).collect()
}

/// Normal random numbers, different for every `stream`.
pub(crate) fn normals(len: usize, stream: u64) -> Vec<f64> {
    (0..len as u64).map(|i| rng::normal(7, stream, i)).collect()
}

/// The values of a whole tensor over `region`, `border` outside the tensor.
pub(crate) fn cut<T: crate::Float>(shape: Shape, values: &[f64], region: Region, border: T) -> Block<T> {
    Block::from_fn(region, |at| {
        let inside = at.iter().zip(shape).all(|(&i, extent)| 0 <= i && i < extent as i64);
        let flat = at.iter().zip(shape).fold(0, |flat, (&i, extent)| flat * extent as i64 + i);
        if inside { T::from_f64(values[flat as usize]) } else { border }
    })
}

/// Elements of a block in f64.
pub(crate) fn widen<T: crate::Float>(values: &[T]) -> Vec<f64> {
    values.iter().map(|v| v.to_f64()).collect()
}

/// `shape` cut into `parts` blocks along each dimension; some are empty when there are more parts than indices.
pub(crate) fn blocks(shape: Shape, parts: Shape) -> Vec<Region> {
    let mut regions = vec![Region::full(shape)];
    for i in 0..5 {
        let cut = |region: &Region, index| {
            let mut region = *region;
            region.0[i] = block(shape[i], parts[i], index);
            region
        };
        regions = regions.iter().flat_map(|r| (0..parts[i]).map(move |index| cut(r, index))).collect();
    }
    regions
}

/// Boxes of `part` over all channels, as an executor calls a layer with windows: the interior, then the sides.
pub(crate) fn interior_and_sides(part: &Region) -> Vec<Region> {
    let inner = Region(part.0.map(|s| if s.len() > 2 { Span::new(s.lo + 1, s.hi - 1) } else { s }));
    let inner = inner.with(Dim::C, part.span(Dim::C));
    let mut boxes = vec![inner];
    boxes.extend(part.minus(&inner));
    boxes
}

/// Largest `|a - b|`; infinite when lengths differ or a value is NaN.
pub(crate) fn distance(a: &[f64], b: &[f64]) -> f64 {
    if a.len() != b.len() {
        return f64::INFINITY;
    }
    a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, |m, d| {
        if d <= m {
            m
        } else if d.is_nan() {
            f64::INFINITY
        } else {
            d
        }
    })
}

/// Gradient of `loss` at `x` by central differences.
pub(crate) fn differences(x: &[f64], mut loss: impl FnMut(&[f64]) -> f64) -> Vec<f64> {
    let step = 1e-5;
    let mut moved = x.to_vec();
    let mut slope = |i: usize| {
        moved[i] = x[i] + step;
        let above = loss(&moved);
        moved[i] = x[i] - step;
        let below = loss(&moved);
        moved[i] = x[i];
        (above - below) / (2.0 * step)
    };
    (0..x.len()).map(&mut slope).collect()
}

/// Checks the input gradient of a layer on one rank without margins against finite differences of `sum y * dy`.
pub(crate) fn check_input_gradient(layer: &mut dyn Layer<f64>, env: &Env, shape: Shape, x: &[f64], out: Shape) {
    let (all, out_all) = (Region::full(shape), Region::full(out));
    let dy = Block::from_vec(out_all, normals(out_all.len(), 99));
    let mut y = Block::zeros(out_all);
    let numeric = differences(x, |x| {
        layer.forward(env, &Block::from_vec(all, x.to_vec()), &mut y, &out_all).unwrap();
        y.data().iter().zip(dy.data()).map(|(y, dy)| y * dy).sum()
    });
    let x = Block::from_vec(all, x.to_vec());
    layer.forward(env, &x, &mut y, &out_all).unwrap();
    let mut dx = Block::zeros(all);
    layer.backward_data(env, &x, &y, &dy, &mut dx, &all).unwrap();
    let error = distance(dx.data(), &numeric);
    assert!(error < 1e-7, "input gradient differs by {error:e}");
}

/// Checks the gradient of every parameter of a layer likewise.
pub(crate) fn check_param_gradients(layer: &mut dyn Layer<f64>, env: &Env, shape: Shape, x: &[f64], out: Shape) {
    let (all, out_all) = (Region::full(shape), Region::full(out));
    let dy = Block::from_vec(out_all, normals(out_all.len(), 98));
    let (x, mut y, mut dx) = (Block::from_vec(all, x.to_vec()), Block::zeros(out_all), Block::zeros(all));
    for i in 0..layer.params().len() {
        let start = layer.params()[i].value.clone();
        let numeric = differences(&start, |value| {
            layer.params_mut()[i].value.copy_from_slice(value);
            layer.forward(env, &x, &mut y, &out_all).unwrap();
            y.data().iter().zip(dy.data()).map(|(y, dy)| y * dy).sum()
        });
        layer.params_mut()[i].value.copy_from_slice(&start);
        layer.forward(env, &x, &mut y, &out_all).unwrap();
        layer.backward_data(env, &x, &y, &dy, &mut dx, &all).unwrap();
        layer.backward_params(env, &x, &dy, &out_all).unwrap();
        let error = distance(&layer.params()[i].grad, &numeric);
        assert!(error < 1e-7, "gradient of parameter {i} differs by {error:e}");
    }
}
