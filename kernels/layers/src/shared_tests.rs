//! What holds for several layers alike: any team gives the same bits, and working in place changes none.

use crate::activation::{LeakyRelu, Tanh};
use crate::conv::Conv;
use crate::dropout::Dropout;
use crate::norm::BatchNorm;
use crate::optim::{OptimSpec, Optimizer};
use crate::pool::{Pool, PoolMode};
use crate::testing::{alone, normals};
use crate::{Env, Op};
use shardmark_host::Team;
use shardmark_partition::{AxisSet, Dim, Region, Shape, Span, Window};
use shardmark_tensor::Block;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Too large for one part of a job, with a batch and with channels beside whole vectors.
const SHAPES: [Shape; 2] = [[1, 13, 22, 19, 17], [3, 9, 8, 21, 16]];

fn pointwise() -> Vec<Op> {
    vec![
        Op::LeakyRelu(LeakyRelu { slope: 0.125 }),
        Op::LeakyRelu(LeakyRelu { slope: 0.0 }),
        Op::LeakyRelu(LeakyRelu { slope: -0.5 }),
        Op::Tanh(Tanh { scale: 1.2 }),
        Op::Dropout(Dropout { keep: 0.7 }),
    ]
}

fn norm(shape: Shape) -> Op {
    Op::Norm(BatchNorm { channels: shape[4], eps: 1e-5, momentum: 0.1, group: AxisSet::NONE })
}

fn pools() -> Vec<Op> {
    let windows = [[Window::new(3, 2, 1); 3], [Window::new(2, 2, 0); 3], [Window::new(3, 1, 1); 3]];
    let pool = |mode| windows.map(|windows| Op::Pool(Pool { mode, windows }));
    [pool(PoolMode::Average), pool(PoolMode::Max)].concat()
}

/// A block of normal random numbers.
fn random(region: Region, stream: u64) -> Block<f32> {
    Block::from_vec(region, normals(region.len(), stream).into_iter().map(|v| v as f32).collect())
}

/// What a region reads through windows along D, H, W (or, `reversed`, reaches).
fn reach(op: &Op, mut region: Region, reversed: bool) -> Region {
    for (window, dim) in op.windows().iter().zip([Dim::D, Dim::H, Dim::W]) {
        let span = region.span(dim);
        region = region.with(dim, if reversed { window.outputs(span) } else { window.inputs(span) });
    }
    region
}

/// Output, input gradient and parameter gradients of a layer.
fn run(op: &Op, shape: Shape, env: &Env) -> Vec<Vec<f32>> {
    let mut layer = op.build::<f32>(shape);
    let (all, out) = (Region::full(shape), Region::full(op.out_shape(shape).unwrap()));
    let scatters = op.gradient_halo() == crate::GradientHalo::Scatter;
    let read = reach(op, out, false).hull(&all);
    let (mut x, mut dy) = (random(read, 1), random(reach(op, all, true).hull(&out), 2));
    x.fill_outside(&all, op.border());
    dy.fill_outside(&out, 0.0);
    let (mut y, mut dx) = (Block::zeros(out), Block::zeros(if scatters { read } else { all }));
    layer.forward(env, &x, &mut y, &out).unwrap();
    layer.backward_data(env, &x, &y, &dy, &mut dx, if scatters { &out } else { &all }).unwrap();
    let grads = layer.params().iter().map(|p| p.grad.clone());
    [y.into_vec(), dx.into_vec()].into_iter().chain(grads).collect()
}

#[test]
fn any_team_gives_the_same_bits() {
    for shape in SHAPES {
        for op in pointwise().into_iter().chain(pools()).chain([norm(shape)]) {
            let one = run(&op, shape, &alone());
            for threads in 2..=4 {
                let team = Team::new(threads).unwrap();
                let many = run(&op, shape, &Env { team: &team, ..alone() });
                assert!(one == many, "{op:?} on {shape:?} with {threads} threads");
            }
        }
    }
}

#[test]
fn working_in_place_changes_no_bit() {
    let shape = SHAPES[0];
    let part = Region::full(shape);
    let wide = part.with(Dim::D, Span::new(-1, 14)).with(Dim::W, Span::new(0, 23));
    for op in pointwise().into_iter().chain([norm(shape)]) {
        let (mut layer, mut other) = (op.build::<f32>(shape), op.build::<f32>(shape));
        let (x, dy) = (random(wide, 1), random(wide, 2));
        let (mut y, mut dx) = (Block::zeros(part), Block::zeros(part));
        layer.forward(&alone(), &x, &mut y, &part).unwrap();
        layer.backward_data(&alone(), &x, &y, &dy, &mut dx, &part).unwrap();
        let mut over = x.clone();
        if op.in_place() {
            other.forward_in_place(&alone(), &mut over, &part).unwrap();
        } else {
            other.forward(&alone(), &x, &mut over, &part).unwrap();
        }
        let mut over_dy = dy.clone();
        let gone = if op.in_place() { Block::default() } else { x.clone() };
        other.backward_in_place(&alone(), &gone, &over, &mut over_dy, &part).unwrap();
        assert!(over.pack(&part) == y.data() && over_dy.pack(&part) == dx.data(), "{op:?}");
        for (got, margins) in [(&over, &x), (&over_dy, &dy)] {
            assert!(wide.minus(&part).iter().all(|side| got.pack(side) == margins.pack(side)), "{op:?}");
        }
        let grads = |layer: &dyn crate::Layer<f32>| layer.params().iter().map(|p| p.grad.clone()).collect::<Vec<_>>();
        assert_eq!(grads(&*layer), grads(&*other));
    }
}

#[test]
fn any_team_updates_to_the_same_bits() {
    let len = 100_003;
    let start = random(Region::full([1, 1, 1, 1, len]), 3).into_vec();
    for spec in [
        OptimSpec::Sgd { lr: 0.1, momentum: 0.0, weight_decay: 0.01 },
        OptimSpec::Sgd { lr: 0.1, momentum: 0.9, weight_decay: 0.0 },
        OptimSpec::Adam { lr: 1e-3, beta1: 0.9, beta2: 0.99, eps: 1e-8, weight_decay: 0.0 },
    ] {
        let update = |threads| {
            let (team, mut optimizer) = (Team::new(threads).unwrap(), Optimizer::new(spec, &[len]));
            let mut value = start.clone();
            for stream in 4..7 {
                optimizer.begin_step();
                optimizer.step(&team, 0, &mut value, random(Region::full([1, 1, 1, 1, len]), stream).data());
            }
            value
        };
        let one = update(1);
        assert!((2..=4).all(|threads| update(threads) == one), "{spec:?}");
    }
}

#[test]
fn a_part_that_blocks_do_not_hold_is_refused_before_anything_is_accessed() {
    let shape = [1, 1, 24, 20, 16];
    let (all, team) = (Region::full(shape), Team::new(2).unwrap());
    let env = Env { team: &team, ..alone() };
    let lower = all.with(Dim::H, Span::new(2, 24));
    let wide = all.with(Dim::H, Span::new(-1, 25)).with(Dim::W, Span::new(-1, 21));
    let windows = [Window::POINT, Window::new(3, 1, 1), Window::new(3, 1, 1)];
    let pool = |mode| Op::Pool(Pool { mode, windows });
    let conv = |kernel, pad| Op::Conv(Conv::image(16, 16, kernel, 1, pad, false));
    for op in
        [conv(1, 0), conv(3, 1), pool(PoolMode::Average), pool(PoolMode::Max), norm(shape), pointwise()[0].clone()]
    {
        // Forward and backward on blocks over these regions: none, the outputs' and the inputs' alone too small.
        let runs = |inputs: Region, outputs: Region| {
            let zeros = |region| Block::<f32>::zeros(region);
            let mut layer = op.build::<f32>(shape);
            let forward = || layer.forward(&env, &zeros(inputs), &mut zeros(outputs), &all).is_ok();
            let forward = catch_unwind(AssertUnwindSafe(forward)).is_ok();
            let mut layer = op.build::<f32>(shape);
            let [x, mut y, dy] = [wide, wide, inputs].map(zeros);
            layer.forward(&env, &x, &mut y, &all).unwrap();
            let backward = || layer.backward_data(&env, &x, &y, &dy, &mut zeros(outputs), &all).is_ok();
            [forward, catch_unwind(AssertUnwindSafe(backward)).is_ok()]
        };
        assert_eq!(runs(wide, wide), [true; 2], "{op:?}");
        assert_eq!(runs(wide, lower), [false; 2], "{op:?}");
        assert_eq!(runs(lower, wide), [false; 2], "{op:?}");
    }
}
