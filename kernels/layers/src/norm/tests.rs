//! Batch norm against the reference, on one rank and with statistics of groups of unequal ranks; finite differences.

use super::{BatchNorm, NormLayer, moments, reference};
use crate::activation::{LeakyRelu, LeakyReluLayer};
use crate::testing::{alone, blocks, check_input_gradient, check_param_gradients, cut, distance, normals, widen};
use crate::{Env, Float, Groups, Layer, LayerError};
use shardmark_comm::{Collective, Comm, Counted, ReduceOp, threads};
use shardmark_host::SOLO;
use shardmark_partition::step::{CollectiveKind, Pass};
use shardmark_partition::{AxisSet, Dim, Region, Shape, Span};
use shardmark_tensor::Block;

fn spec(channels: usize, group: AxisSet) -> BatchNorm {
    BatchNorm { channels, eps: 1e-5, momentum: 0.1, group }
}

fn layer<T: Float>(spec: BatchNorm, weight: &[f64], bias: &[f64]) -> NormLayer<T> {
    let mut layer = NormLayer::new(spec);
    for (param, values) in layer.params_mut().iter_mut().zip([weight, bias]) {
        param.value = values.iter().map(|&v| T::from_f64(v)).collect();
    }
    layer
}

/// Output, gradients and running statistics of the whole tensor or of one rank's part.
#[derive(Clone, Debug)]
struct Outcome {
    y: Vec<f64>,
    dx: Vec<f64>,
    dweight: Vec<f64>,
    dbias: Vec<f64>,
    running: Vec<Vec<f64>>,
}

/// Forward and backward of what `own` holds, with margins that must not count.
fn train<T: Float>(env: &Env, spec: BatchNorm, shape: Shape, own: Region, at: f64) -> Result<Outcome, LayerError> {
    let (c, len) = (shape[4], Region::full(shape).len());
    let x: Vec<f64> = normals(len, 1).iter().map(|x| x + at).collect();
    let wide = own.with(Dim::H, Span::new(own.span(Dim::H).lo - 1, own.span(Dim::H).hi + 2));
    let (x, dy) = (cut(shape, &x, wide, T::from_f64(1e3)), cut(shape, &normals(len, 2), own, T::ZERO));
    let (mut y, mut dx) = (Block::zeros(own), Block::zeros(wide));
    let mut layer = layer::<T>(spec, &normals(c, 3), &normals(c, 4));
    layer.forward(env, &x, &mut y, &own)?;
    layer.backward_data(env, &x, &y, &dy, &mut dx, &own)?;
    layer.backward_params(env, &x, &dy, &own)?;
    Ok(Outcome {
        y: widen(y.data()),
        dx: widen(&dx.pack(&own)),
        dweight: widen(&layer.params()[0].grad),
        dbias: widen(&layer.params()[1].grad),
        running: layer.buffers().iter().map(|(_, values)| widen(values)).collect(),
    })
}

/// The reference on the whole tensor.
fn expected(shape: Shape, at: f64, narrow: impl Fn(f64) -> f64) -> Outcome {
    let (c, len) = (shape[4], Region::full(shape).len());
    let x: Vec<f64> = normals(len, 1).iter().map(|x| narrow(x + at)).collect();
    let dy: Vec<f64> = normals(len, 2).into_iter().map(&narrow).collect();
    let [weight, bias] = [3, 4].map(|s| normals(c, s).into_iter().map(&narrow).collect::<Vec<f64>>());
    let (dx, dweight, dbias) = reference::backward(c, 1e-5, &weight, &x, &dy);
    let (mean, var) = reference::statistics(c, &x);
    let m = (len / c) as f64;
    let running_mean = mean.iter().map(|mean| 0.1 * mean).collect();
    let running_var = var.iter().map(|var| 0.9 + 0.1 * var * m / (m - 1.0)).collect();
    let y = reference::forward(c, 1e-5, &weight, &bias, &x);
    Outcome { y, dx, dweight, dbias, running: vec![running_mean, running_var] }
}

fn assert_close(got: &Outcome, expected: &Outcome, tolerance: f64, what: &str) {
    let pairs = [
        ("y", &got.y, &expected.y),
        ("dx", &got.dx, &expected.dx),
        ("dweight", &got.dweight, &expected.dweight),
        ("dbias", &got.dbias, &expected.dbias),
        ("running_mean", &got.running[0], &expected.running[0]),
        ("running_var", &got.running[1], &expected.running[1]),
    ];
    for (name, got, expected) in pairs {
        let error = distance(got, expected);
        assert!(error <= tolerance, "{what}: {name} differs by {error:e}, tolerance {tolerance:e}");
    }
}

/// Periods of many positions and of one, of one block and of two, whole and not; lines of less than a period.
const SHAPES: [Shape; 9] = [
    [2, 3, 4, 5, 3],
    [1, 4, 5, 3, 16],
    [3, 1, 1, 7, 19],
    [2, 2, 1, 1, 33],
    [2, 1, 3, 150, 1],
    [1, 2, 3, 70, 20],
    [1, 1, 2, 37, 64],
    [2, 1, 2, 3, 600],
    [1, 1, 40, 40, 8],
];

#[test]
fn one_rank_agrees_with_the_reference() {
    for shape in SHAPES {
        let own = Region::full(shape);
        let wide = train::<f64>(&alone(), spec(shape[4], AxisSet::NONE), shape, own, 0.5).unwrap();
        assert_close(&wide, &expected(shape, 0.5, |x| x), 1e-12, &format!("f64 {shape:?}"));
        let narrow = train::<f32>(&alone(), spec(shape[4], AxisSet::NONE), shape, own, 0.5).unwrap();
        // Values up to about 10, sums up to about 100 (rounded once from f64), few operations each.
        let tolerance = 64.0 * f64::from(f32::EPSILON);
        assert_close(&narrow, &expected(shape, 0.5, |x| f64::from(x as f32)), tolerance, &format!("f32 {shape:?}"));
    }
}

#[test]
fn a_large_mean_does_not_spoil_the_variance() {
    let shape = [2, 4, 8, 8, 4];
    let own = Region::full(shape);
    let narrow = train::<f32>(&alone(), spec(4, AxisSet::NONE), shape, own, 1e4).unwrap();
    let expected = expected(shape, 1e4, |x| f64::from(x as f32));
    // The inputs are exact; the mean is rounded to f32 before it is subtracted: half a unit at 1e4, about 5e-4.
    assert!(distance(&narrow.y, &expected.y) < 2e-3);
    assert!(distance(&narrow.running[1], &expected.running[1]) < 1e-6, "squares of distances from a mean lose nothing");
}

#[test]
fn moments_bear_lines_far_apart_and_rows_far_from_their_line() {
    let (c, shape) = (17, [2, 3, 4, 21, 17]);
    let region = Region::full(shape);
    let noise = normals(region.len(), 9);
    let far_lines = |line: usize, _| 1e3 * (line % 5) as f64;
    let far_rows = |_, row: usize| if row == 0 { 1e3 } else { 1.0 };
    for at in [&far_lines as &dyn Fn(usize, usize) -> f64, &far_rows] {
        let value = |i: usize| (noise[i] + at(i / (21 * c), i / c % 21)) as f32;
        let x: Vec<f64> = (0..region.len()).map(|i| f64::from(value(i))).collect();
        let (mut scratch, mut all) = (Default::default(), Vec::new());
        moments::moments::<f32>(&SOLO, &cut(shape, &x, region, 0.0), &region, c, &mut scratch, &mut all);
        let (means, vars) = reference::statistics(c, &x);
        let scale = vars.iter().map(|var| var.sqrt()).fold(0.0, f64::max);
        for i in 0..c {
            assert!((all[1 + i] - means[i]).abs() < 1e-6 * scale, "mean {} for {}", all[1 + i], means[i]);
            let var = all[1 + c + i] / all[0];
            assert!((var - vars[i]).abs() < 1e-5 * vars[i], "variance {var} for {}", vars[i]);
        }
    }
}

#[test]
fn gradients_agree_with_finite_differences() {
    let shape = [2, 2, 1, 3, 4];
    let mut layer = layer::<f64>(spec(4, AxisSet::NONE), &normals(4, 3), &normals(4, 4));
    let x = normals(Region::full(shape).len(), 1);
    check_input_gradient(&mut layer, &alone(), shape, &x, shape);
    check_param_gradients(&mut layer, &alone(), shape, &x, shape);
    let evaluation = Env { training: false, ..alone() };
    check_input_gradient(&mut layer, &evaluation, shape, &x, shape);
    check_param_gradients(&mut layer, &evaluation, shape, &x, shape);
}

#[test]
fn evaluation_uses_running_statistics() {
    let all = Region::full([1, 1, 1, 2, 2]);
    let mut layer = layer::<f64>(spec(2, AxisSet::ALL), &[2.0, 1.0], &[0.0, -1.0]);
    for ((_, values), new) in layer.buffers_mut().into_iter().zip([[1.0, 2.0], [4.0 - 1e-5, 9.0 - 1e-5]]) {
        values.copy_from_slice(&new);
    }
    let mut y = Block::zeros(all);
    let x = Block::from_vec(all, vec![1.0, 2.0, 5.0, 8.0]);
    layer.forward(&Env { training: false, ..alone() }, &x, &mut y, &all).unwrap();
    assert!(distance(y.data(), &[0.0, -1.0, 4.0, 1.0]) < 1e-14);
}

#[test]
fn merging_moments_in_pieces_equals_all_at_once() {
    let shape = [1, 1, 9, 5, 3];
    let x = cut(shape, &normals(135, 1), Region::full(shape), 0.0f64);
    let record = |part: &Region| {
        let mut record = Vec::new();
        moments::moments(&SOLO, &x, part, 3, &mut Default::default(), &mut record);
        record
    };
    let all = record(&Region::full(shape));
    let mut merged = vec![0.0; 7];
    for part in blocks(shape, [1, 1, 4, 1, 1]).into_iter().chain([Region::default()]) {
        moments::merge(&mut merged, &record(&part));
    }
    assert_eq!(merged[0], 45.0);
    assert!(distance(&all, &merged) < 1e-13);
}

/// All ranks of a job form the one group, whatever the axes.
struct Job<'a>(&'a dyn Comm);

impl Groups for Job<'_> {
    fn group(&self, axes: AxisSet) -> Option<&dyn Comm> {
        (self.0.size() > 1 && axes != AxisSet::NONE).then_some(self.0)
    }
}

#[test]
fn groups_of_unequal_ranks_give_the_result_of_one_rank() {
    let shape = [2, 5, 4, 3, 5];
    let expected = expected(shape, 0.5, |x| x);
    // Uneven blocks, and more ranks than planes along a dimension: some own nothing.
    for parts in [[1, 2, 1, 1, 1], [1, 3, 1, 1, 1], [3, 1, 2, 1, 1], [1, 7, 1, 1, 1], [1, 1, 1, 8, 1]] {
        let owned = blocks(shape, parts);
        let outcomes = threads::run(owned.len(), &threads::Options::default(), |comm| {
            let env = Env { groups: &Job(comm), ..alone() };
            train::<f64>(&env, spec(5, AxisSet::ALL), shape, owned[comm.rank()], 0.5)
        })
        .unwrap();
        let mut sum = outcomes[0].clone();
        let (mut y, mut dx) = (Block::zeros(Region::full(shape)), Block::zeros(Region::full(shape)));
        (sum.dweight, sum.dbias) = (vec![0.0; 5], vec![0.0; 5]);
        for (own, outcome) in owned.iter().zip(outcomes) {
            y.unpack(own, &outcome.y);
            dx.unpack(own, &outcome.dx);
            sum.dweight.iter_mut().zip(outcome.dweight).for_each(|(sum, g)| *sum += g);
            sum.dbias.iter_mut().zip(outcome.dbias).for_each(|(sum, g)| *sum += g);
            assert_eq!(sum.running, outcome.running, "running statistics are equal to the bit");
        }
        (sum.y, sum.dx) = (y.data().to_vec(), dx.data().to_vec());
        assert_close(&sum, &expected, 1e-12, &format!("{parts:?}"));
    }
}

#[test]
fn the_gradient_through_group_statistics_agrees_with_finite_differences() {
    let shape = [1, 3, 1, 2, 2];
    let owned = blocks(shape, [1, 2, 1, 1, 1]);
    let dy = normals(12, 2);
    threads::run(2, &threads::Options::default(), |comm| {
        let env = Env { groups: &Job(comm), ..alone() };
        let own = owned[comm.rank()];
        let mut layer = layer::<f64>(spec(2, AxisSet::SPATIAL), &[1.5, -0.5], &[0.1, 0.2]);
        let mut loss = |x: &[f64]| {
            let (x, dy) = (cut(shape, x, own, 0.0), cut(shape, &dy, own, 0.0));
            let (mut y, mut dx) = (Block::zeros(own), Block::zeros(own));
            layer.forward(&env, &x, &mut y, &own).unwrap();
            layer.backward_data(&env, &x, &y, &dy, &mut dx, &own).unwrap();
            let sum = y.data().iter().zip(dy.data()).map(|(y, dy)| y * dy).sum();
            (shardmark_comm::CommExt::allreduce_value(comm, sum, ReduceOp::Sum).unwrap(), dx.data().to_vec())
        };
        let x = normals(12, 1);
        let numeric = crate::testing::differences(&x, |x| loss(x).0);
        let numeric = Block::from_vec(Region::full(shape), numeric).pack(&own);
        assert!(distance(&loss(&x).1, &numeric) < 1e-7);
        Ok::<_, LayerError>(())
    })
    .unwrap();
}

#[test]
fn collectives_are_exactly_those_that_are_counted() {
    let (shape, spec) = ([1, 4, 2, 2, 6], spec(6, AxisSet::SPATIAL));
    let owned = blocks(shape, [1, 3, 1, 1, 1]);
    let counts = threads::run(3, &threads::Options::default(), |comm| {
        let counted = Counted::new(comm);
        let env = Env { groups: &Job(&counted), ..alone() };
        train::<f32>(&env, spec.clone(), shape, owned[comm.rank()], 0.0)?;
        Ok::<_, LayerError>(counted.counts())
    })
    .unwrap();
    for counts in counts {
        for (pass, kind, called) in [
            (Pass::Forward, CollectiveKind::TreeAllReduce, Collective::TreeAllreduce),
            (Pass::Backward, CollectiveKind::AllReduce, Collective::Allreduce),
        ] {
            let [planned] = spec.collectives(pass)[..] else { panic!("one collective in {pass:?}") };
            assert_eq!((planned.group, planned.kind), (AxisSet::SPATIAL, kind));
            let tally = counts.calls(called);
            assert_eq!((tally.count, tally.bytes), (1, planned.bytes));
        }
        assert_eq!(counts.collectives.len(), 2);
    }
}

#[test]
fn with_its_activation_it_has_the_bits_of_two_layers() {
    let (shape, slope) = ([2, 3, 4, 5, 19], 0.25f32);
    let all = Region::full(shape);
    let new = || layer::<f32>(spec(19, AxisSet::NONE), &normals(19, 3), &normals(19, 4));
    let (mut fused, mut norm) = (new(), new());
    let mut activation = LeakyReluLayer::new(LeakyRelu { slope: f64::from(slope) });
    assert!(fused.fuse_activation(slope) && fused.fuse_output_derivative(slope));
    let (x, dy) = (cut(shape, &normals(all.len(), 1), all, 0.0), cut(shape, &normals(all.len(), 2), all, 0.0));
    let (mut y, mut expected) = (Block::zeros(all), Block::zeros(all));
    fused.forward(&alone(), &x, &mut y, &all).unwrap();
    norm.forward(&alone(), &x, &mut expected, &all).unwrap();
    activation.forward_in_place(&alone(), &mut expected, &all).unwrap();
    assert_eq!(y, expected);
    let (mut dx, mut dx_expected) = (dy.clone(), dy);
    fused.backward_in_place(&alone(), &x, &Block::default(), &mut dx, &all).unwrap();
    activation.backward_in_place(&alone(), &Block::default(), &expected, &mut dx_expected, &all).unwrap();
    norm.backward_in_place(&alone(), &x, &Block::default(), &mut dx_expected, &all).unwrap();
    assert_eq!(dx, dx_expected);
    assert!(fused.params().iter().zip(norm.params()).all(|(a, b)| a.grad == b.grad));
}
