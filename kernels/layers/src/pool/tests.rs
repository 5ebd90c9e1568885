//! Pools against the reference, exactly, however outputs are split over ranks and into boxes; finite differences.

use super::{Pool, PoolLayer, PoolMode, reference};
use crate::activation::{LeakyRelu, LeakyReluLayer};
use crate::testing::{alone, blocks, cut, differences, distance, integers, interior_and_sides, normals, widen};
use crate::{Float, Layer};
use shardmark_partition::{Dim, Region, Shape, Window};
use shardmark_tensor::Block;

const BOTH: [PoolMode; 2] = [PoolMode::Average, PoolMode::Max];

/// Even, odd, overlapping, sparse, and padded on one side only.
fn windows() -> Vec<[Window; 3]> {
    let one_sided = Window { kernel: 3, stride: 2, pad: 0, pad_after: 1 };
    let same = Window { kernel: 2, stride: 1, pad: 0, pad_after: 1 };
    vec![
        [Window::new(2, 2, 0); 3],
        [Window::new(1, 1, 0), Window::new(2, 2, 0), Window::new(2, 2, 1)],
        [Window::new(3, 2, 1); 3],
        [Window::new(3, 1, 1); 3],
        [one_sided, same, Window { kernel: 3, stride: 1, pad: 2, pad_after: 0 }],
        [Window::new(1, 2, 0), Window::new(2, 3, 1), Window::new(3, 2, 1)],
    ]
}

/// Channels that fill strips of every width, and some besides.
const SHAPES: [Shape; 6] =
    [[1, 4, 5, 6, 112], [2, 5, 6, 7, 3], [1, 2, 4, 3, 17], [1, 4, 3, 9, 16], [2, 2, 2, 2, 33], [1, 2, 3, 4, 115]];

fn out_shape(pool: &Pool, x: Shape) -> Shape {
    let out = |i: usize| pool.windows[i - 1].out_extent(x[i]).unwrap();
    [x[0], out(1), out(2), out(3), x[4]]
}

/// What the windows of `outs` read, or (`reversed`) the outputs that read the inputs `outs`.
fn reach(pool: &Pool, region: &Region, reversed: bool) -> Region {
    let mut reach = *region;
    if region.is_empty() {
        return Region::default();
    }
    for (window, dim) in pool.windows.iter().zip([Dim::D, Dim::H, Dim::W]) {
        let span = region.span(dim);
        reach = reach.with(dim, if reversed { window.outputs(span) } else { window.inputs(span) });
    }
    reach
}

fn for_each_case(mut visit: impl FnMut(&Pool, Shape, Shape, Shape)) {
    for mode in BOTH {
        for windows in windows() {
            let pool = Pool { mode, windows };
            for shape in SHAPES {
                // One rank, a split of everything, and more ranks than planes.
                for parts in [[1; 5], [2, 2, 3, 2, 1], [3, 1, 5, 1, 1]] {
                    visit(&pool, shape, out_shape(&pool, shape), parts);
                }
            }
        }
    }
}

fn forward_is_exact<T: Float>() {
    for_each_case(|pool, shape, out, parts| {
        let x = integers(Region::full(shape).len(), 1);
        let expected = reference::forward(pool, shape, &x);
        let mut y = Block::<T>::zeros(Region::full(out));
        for own in blocks(out, parts) {
            let x = cut(shape, &x, reach(pool, &own, false), pool.border::<T>());
            let mut block = Block::zeros(own);
            let mut layer = PoolLayer::new(pool.clone());
            for part in interior_and_sides(&own) {
                layer.forward(&alone(), &x, &mut block, &part).unwrap();
            }
            y.copy_from(&block, &own);
        }
        let expected: Vec<f64> = expected.iter().map(|&y| T::from_f64(y).to_f64()).collect();
        assert_eq!(widen(y.data()), expected, "{pool:?} {shape:?} over {parts:?}");
    });
}

fn backward_is_exact<T: Float>() {
    for_each_case(|pool, shape, out, parts| {
        let x = integers(Region::full(shape).len(), 1);
        let dy: Vec<f64> = integers(Region::full(out).len(), 2).iter().map(|dy| dy * pool.taps() as f64).collect();
        let expected = reference::backward(pool, shape, &x, &dy);
        let mut dx = Block::<T>::zeros(Region::full(shape));
        let mut layer = PoolLayer::new(pool.clone());
        match pool.mode {
            PoolMode::Average => {
                for own in blocks(shape, parts) {
                    let dy = cut(out, &dy, reach(pool, &own, true), T::ZERO);
                    let mut block = Block::zeros(own);
                    for part in interior_and_sides(&own) {
                        layer.backward_data(&alone(), &dy, &dy, &dy, &mut block, &part).unwrap();
                    }
                    dx.copy_from(&block, &own);
                }
            }
            PoolMode::Max => {
                for own in blocks(out, parts) {
                    let region = reach(pool, &own, false);
                    let (x, dy) = (cut(shape, &x, region, pool.border::<T>()), cut(out, &dy, own, T::ZERO));
                    let mut block = Block::from_fn(region, |_| T::from_f64(7.0));
                    layer.backward_data(&alone(), &x, &dy, &dy, &mut block, &own).unwrap();
                    let inside = region.intersect(&Region::full(shape));
                    dx.add(&inside, &block.pack(&inside));
                    let padding = block.region().minus(&inside);
                    assert!(padding.iter().all(|side| block.pack(side).iter().all(|&g| g == T::ZERO)));
                }
            }
        }
        assert_eq!(widen(dx.data()), expected, "{pool:?} {shape:?} over {parts:?}");
    });
}

#[test]
fn forward_equals_the_reference() {
    forward_is_exact::<f32>();
    forward_is_exact::<f64>();
}

#[test]
fn backward_equals_the_reference() {
    backward_is_exact::<f32>();
    backward_is_exact::<f64>();
}

#[test]
fn the_reference_agrees_with_finite_differences() {
    let shape = [1, 4, 3, 5, 2];
    for (mode, windows) in BOTH.into_iter().flat_map(|mode| windows().into_iter().map(move |w| (mode, w))) {
        let pool = Pool { mode, windows };
        let out = Region::full(out_shape(&pool, shape));
        let (x, dy) = (normals(Region::full(shape).len(), 3), normals(out.len(), 4));
        let numeric =
            differences(&x, |x| reference::forward(&pool, shape, x).iter().zip(&dy).map(|(y, dy)| y * dy).sum());
        assert!(distance(&reference::backward(&pool, shape, &x, &dy), &numeric) < 1e-7, "{pool:?}");
    }
}

#[test]
fn the_first_maximum_takes_the_gradient_and_padding_none() {
    let pool = Pool { mode: PoolMode::Max, windows: [Window::POINT, Window::new(2, 2, 0), Window::new(3, 3, 1)] };
    // Two windows of 2 x 3, of which the first column of the first is padding.
    let x = Block::from_vec(
        Region::full([1, 1, 2, 6, 1]).with(Dim::W, shardmark_partition::Span::new(-1, 5)),
        vec![f32::NEG_INFINITY, -3.0, -3.0, 1.0, 2.0, 2.0, f32::NEG_INFINITY, -4.0, -3.0, 2.0, 2.0, 0.0],
    );
    let own = Region::full([1, 1, 1, 2, 1]);
    let dy = Block::from_vec(own, vec![10.0, 20.0]);
    let mut dx = Block::zeros(*x.region());
    PoolLayer::new(pool).backward_data(&alone(), &x, &dy, &dy, &mut dx, &own).unwrap();
    assert_eq!(dx.data(), [0.0, 10.0, 0.0, 0.0, 20.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]);
}

#[test]
fn max_keeps_nan() {
    let pool = Pool { mode: PoolMode::Max, windows: [Window::new(2, 2, 0); 3] };
    for at in 0..8 {
        let all = Region::full([1, 2, 2, 2, 1]);
        let mut x = Block::from_fn(all, |_| 1.0f32);
        x.data_mut()[at] = f32::NAN;
        let mut y = Block::zeros(Region::full([1; 5]));
        PoolLayer::new(pool.clone()).forward(&alone(), &x, &mut y, &Region::full([1; 5])).unwrap();
        assert!(y.data()[0].is_nan());
    }
}

#[test]
fn a_rank_without_part_does_nothing() {
    let mut layer = PoolLayer::new(Pool { mode: PoolMode::Average, windows: [Window::new(3, 2, 1); 3] });
    let empty = Region::default();
    let x = Block::<f32>::zeros(empty);
    layer.forward(&alone(), &x, &mut Block::zeros(empty), &empty).unwrap();
    layer.backward_data(&alone(), &x, &x, &x, &mut Block::zeros(empty), &empty).unwrap();
}

#[test]
fn a_gradient_through_the_activation_below_has_the_bits_of_two_passes() {
    let (shape, slope) = ([2, 9, 7, 8, 17], 0.25f32);
    for mode in BOTH {
        for windows in windows() {
            let pool = Pool { mode, windows };
            let all = Region::full(shape);
            let mut y = cut(
                shape,
                &normals(all.len(), 1),
                reach(&pool, &Region::full(out_shape(&pool, shape)), false).hull(&all),
                0.0f32,
            );
            y.fill_outside(&all, pool.border());
            let out = Region::full(out_shape(&pool, shape));
            let dy = cut(out.shape(), &normals(out.len(), 2), reach(&pool, &all, true).hull(&out), 0.0f32);
            let part = if mode == PoolMode::Max { out } else { all };
            let gradient = |fused: bool| {
                let mut layer = PoolLayer::new(pool.clone());
                let fused = fused && layer.fuse_input_derivative(slope);
                let mut dx = Block::zeros(*y.region());
                layer.backward_data(&alone(), &y, &dy, &dy, &mut dx, &part).unwrap();
                if !fused {
                    LeakyReluLayer::new(LeakyRelu { slope: f64::from(slope) })
                        .backward_in_place(&alone(), &y, &y, &mut dx, &all)
                        .unwrap();
                }
                (dx.pack(&all), fused)
            };
            let ((one, fused), (two, _)) = (gradient(true), gradient(false));
            assert_eq!(one, two, "{pool:?}");
            assert_eq!(fused, mode == PoolMode::Average || windows.iter().all(|w| w.kernel <= w.stride));
        }
    }
}
