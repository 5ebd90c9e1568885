//! A divided layer on ranks that are threads against the whole layer, with small integers.

use super::*;
use crate::conv::{Algorithm, Conv};
use crate::dense::Dense;
use crate::testing::{alone, cut, integers};
use crate::{Groups, Layer};
use shardmark_comm::{Comm, threads};
use shardmark_host::SOLO;
use shardmark_partition::{AxisSet, Dim, SPATIAL, Window, block};
use std::cell::Cell;

struct World<'c>(&'c dyn Comm);

impl Groups for World<'_> {
    fn group(&self, _axes: AxisSet) -> Option<&dyn Comm> {
        (self.0.size() > 1).then_some(self.0)
    }
}

/// The tensors of a layer: parameters, x, dy, and what comes of them.
struct Problem {
    op: Op,
    x: Shape,
    y: Shape,
    params: Vec<Vec<f64>>,
    tensors: [Vec<f64>; 2],
}

/// y, dx and the parameter gradients, whole.
type Answer<T> = (Vec<T>, Vec<T>, Vec<Vec<T>>);

impl Problem {
    fn new(op: &Op, x: Shape) -> Self {
        let y = op.out_shape(x).unwrap();
        let params = op.params().iter().zip(3..).map(|(spec, stream)| integers(spec.len(), stream)).collect();
        let tensors = [integers(x.iter().product(), 1), integers(y.iter().product(), 2)];
        Problem { op: op.clone(), x, y, params, tensors }
    }

    fn blocks<T: Float>(&self, outputs: Region, dx: Region) -> [Block<T>; 2] {
        let (mut read, mut reach) = (dx, outputs);
        for (window, dim) in self.op.windows().iter().zip(SPATIAL) {
            read = read.with(dim, read.span(dim).hull(window.inputs(outputs.span(dim))));
            reach = reach.with(dim, reach.span(dim).hull(window.outputs(dx.span(dim))));
        }
        [cut(self.x, &self.tensors[0], read, T::ZERO), cut(self.y, &self.tensors[1], reach, T::ZERO)]
    }

    fn whole<T: Float>(&self) -> Answer<T> {
        let (inputs, outputs) = (Region::full(self.x), Region::full(self.y));
        let [x, dy] = self.blocks::<T>(outputs, inputs);
        let mut layer = self.op.build::<T>(self.x);
        for (param, values) in layer.params_mut().iter_mut().zip(&self.params) {
            param.value = values.iter().map(|&v| T::from_f64(v)).collect();
        }
        let (mut y, mut dx) = (Block::zeros(outputs), Block::zeros(inputs));
        layer.forward(&alone(), &x, &mut y, &outputs).unwrap();
        layer.backward_data(&alone(), &x, &y, &dy, &mut dx, &inputs).unwrap();
        layer.backward_params(&alone(), &x, &dy, &outputs).unwrap();
        (y.into_vec(), dx.into_vec(), layer.params().iter().map(|p| p.grad.clone()).collect())
    }

    /// This rank's own y, dx and parameter gradients; samples are owned as `counts` says.
    fn divided<T: Float>(&self, comm: &dyn Comm, counts: &[usize], data_gradient: bool) -> Answer<T> {
        let (rank, first) = (comm.rank(), counts[..comm.rank()].iter().sum::<usize>() as i64);
        let own = |shape: Shape| {
            let n = shardmark_partition::Span::new(first, first + counts[rank] as i64);
            if n.is_empty() { Region::default() } else { Region::full(shape).with(Dim::N, n) }
        };
        let (inputs, outputs) = (own(self.x), own(self.y));
        let [x, dy] = self.blocks::<T>(outputs, inputs);
        let mut layer = self.op.build_share::<T>(self.x, Samples::new(rank, counts.to_vec())).unwrap();
        for (i, (param, values)) in layer.params_mut().iter_mut().zip(&self.params).enumerate() {
            let own = self.op.share(i, rank, comm.size());
            param.value = values[own].iter().map(|&v| T::from_f64(v)).collect();
        }
        let env = Env { groups: &World(comm), team: &SOLO, communication_s: Cell::new(0.0), ..alone() };
        let (mut y, mut dx) = (Block::zeros(outputs), Block::zeros(inputs));
        // Once more: what is kept from call to call does not matter.
        for _ in 0..2 {
            y.data_mut().fill(T::from_f64(9.0));
            dx.data_mut().fill(T::from_f64(9.0));
            layer.params_mut().iter_mut().for_each(|p| p.grad.fill(T::from_f64(9.0)));
            layer.forward(&env, &x, &mut y, &outputs).unwrap();
            if data_gradient {
                layer.backward_data(&env, &x, &y, &dy, &mut dx, &inputs).unwrap();
            }
            layer.backward_params(&env, &x, &dy, &outputs).unwrap();
        }
        (y.into_vec(), dx.into_vec(), layer.params().iter().map(|p| p.grad.clone()).collect())
    }
}

fn shares_are_exact<T: Float>(op: &Op, x: Shape, ranks: usize) {
    let problem = Problem::new(op, x);
    let (y, dx, grads) = problem.whole::<T>();
    let counts: Vec<usize> = (0..ranks).map(|rank| block(x[0], ranks, rank).len()).collect();
    for data_gradient in [true, false] {
        let run = |comm: &dyn Comm| Ok::<_, crate::LayerError>(problem.divided::<T>(comm, &counts, data_gradient));
        let parts = threads::run(ranks, &threads::Options::default(), run).unwrap();
        let join = |part: fn(&Answer<T>) -> &Vec<T>| parts.iter().flat_map(part).copied().collect::<Vec<T>>();
        assert!(join(|part| &part.0) == y, "{op:?} on {x:?}: outputs of {ranks} ranks");
        assert!(!data_gradient || join(|part| &part.1) == dx, "{op:?} on {x:?}: data gradient of {ranks} ranks");
        for (i, expected) in grads.iter().enumerate() {
            let got: Vec<T> = parts.iter().flat_map(|part| part.2[i].iter().copied()).collect();
            assert!(got == *expected, "{op:?} on {x:?}: gradient {i} of {ranks} ranks");
        }
    }
}

#[test]
fn shares_give_the_whole_layer() {
    let window = |kernel, stride, pad, pad_after| Window { kernel, stride, pad, pad_after };
    let same = window(2, 1, 0, 1);
    let uneven = [window(3, 2, 1, 1), window(1, 1, 0, 0), window(2, 1, 0, 1)];
    let cases = [
        (Op::Dense(Dense { c: 33, k: 9, bias: true, bias_init: 0.0 }), [3, 1, 1, 1, 33]),
        (Op::Dense(Dense { c: 20, k: 300, bias: false, bias_init: 0.0 }), [1, 1, 1, 1, 20]),
        (Op::Dense(Dense { c: 70, k: 35, bias: true, bias_init: 0.0 }), [37, 1, 1, 1, 70]),
        (Op::Conv(Conv::cube(5, 7, 3, 1, 1, false)), [1, 2, 2, 2, 5]),
        (Op::Conv(Conv::cube(16, 33, 3, 1, 1, true)), [2, 1, 3, 2, 16]),
        (Op::Conv(Conv::cube(3, 4, 3, 2, 1, true)), [2, 5, 4, 3, 3]),
        (Op::Conv(Conv { c: 4, k: 3, windows: [same; 3], bias: true, algorithm: Algorithm::Auto }), [3, 3, 2, 1, 4]),
        (Op::Conv(Conv { c: 2, k: 18, windows: uneven, bias: true, algorithm: Algorithm::Auto }), [1, 4, 3, 2, 2]),
    ];
    for (op, x) in &cases {
        for ranks in [1, 2, 3, 5, 11] {
            shares_are_exact::<f32>(op, *x, ranks);
            shares_are_exact::<f64>(op, *x, ranks);
        }
    }
}

#[test]
fn shares_cover_every_parameter_once_in_whole_rows() {
    let dense = Op::Dense(Dense { c: 6, k: 9, bias: true, bias_init: 0.0 });
    let conv = Op::Conv(Conv::cube(5, 7, 3, 1, 1, true));
    for (op, width) in [(&dense, 6), (&conv, 7)] {
        for ranks in [1, 2, 3, 8, 200] {
            for (i, spec) in op.params().iter().enumerate() {
                let shares: Vec<Range<usize>> = (0..ranks).map(|rank| op.share(i, rank, ranks)).collect();
                assert_eq!(shares.iter().cloned().flatten().collect::<Vec<_>>(), (0..spec.len()).collect::<Vec<_>>());
                assert!(i > 0 || shares.iter().all(|share| share.start % width == 0));
            }
            let total = |rank| (0..op.params().len()).map(|i| op.share(i, rank, ranks).len()).sum::<usize>();
            assert_eq!(op.largest_share(ranks), (0..ranks).map(total).max().unwrap(), "{op:?} over {ranks}");
        }
    }
}

#[test]
fn layers_without_weights_do_not_divide() {
    let op = Op::LeakyRelu(crate::activation::LeakyRelu { slope: 0.1 });
    assert!(!op.divides() && op.build_share::<f32>([1; 5], Samples::new(0, vec![1])).is_none());
}
