//! Exact small-integer cases against the reference on every instruction set, rounding bounds, finite differences, and
//! sub-boxes to the bit (`bits`), tiles against direct sums (`tiles`).

mod bits;
mod tiles;

use super::local::{BiasScratch, backward_bias};
use super::{Algorithm, Conv, ConvLayer, ConvTranspose, ISAS, Isa, Local, TransposedLocal, reference};
use crate::{Float, Layer, Op};
use shardmark_host::{SOLO, Team};
use shardmark_partition::{Region, SPATIAL, Shape, Span, Window};
use shardmark_tensor::{Block, Real, rng};

/// Whole arrays of one problem, in f64.
struct Problem {
    conv: Conv,
    x_shape: Shape,
    y_shape: Shape,
    x: Vec<f64>,
    dy: Vec<f64>,
    weight: Vec<f64>,
    bias: Vec<f64>,
}

impl Problem {
    fn new(conv: &Conv, n: usize, extents: [usize; 3], value: impl Fn(u64, u64) -> f64) -> Self {
        let x_shape = [n, extents[0], extents[1], extents[2], conv.c];
        let y_shape = reference::out_shape(conv, x_shape);
        let fill = |stream: u64, len: usize| (0..len as u64).map(|i| value(stream, i)).collect::<Vec<f64>>();
        Problem {
            conv: conv.clone(),
            x_shape,
            y_shape,
            x: fill(1, x_shape.iter().product()),
            dy: fill(2, y_shape.iter().product()),
            weight: fill(3, conv.k * conv.c * conv.taps()),
            bias: fill(4, conv.k),
        }
    }

    fn integers(conv: &Conv, n: usize, extents: [usize; 3]) -> Self {
        Self::new(conv, n, extents, |stream, i| rng::small_int(7, stream, i, 3))
    }

    /// A block that covers what the windows may read around `shape`, zero outside, with one more plane of NaN around
    /// to catch reads beyond the margins.
    fn padded<T: Real>(&self, values: &[f64], shape: Shape, reach: impl Fn(&Window, Span) -> Span) -> Block<T> {
        let inside = Region::full(shape);
        let mut needed = inside;
        for (window, dim) in self.conv.windows.iter().zip(SPATIAL) {
            needed = needed.with(dim, reach(window, needed.span(dim)).hull(needed.span(dim)));
        }
        let mut block = Block::from_fn(grown(needed), |_| T::from_f64(f64::NAN));
        block.unpack(&needed, &vec![T::ZERO; needed.len()]);
        block.unpack(&inside, &values.iter().map(|&v| T::from_f64(v)).collect::<Vec<T>>());
        block
    }

    fn x_block<T: Real>(&self) -> Block<T> {
        self.padded(&self.x, self.x_shape, |w, x| Span::new(x.lo - w.pad as i64, x.hi + w.pad_after as i64))
    }

    fn dy_block<T: Real>(&self) -> Block<T> {
        let x = self.x_shape;
        let mut i = 0;
        let spans: [Span; 3] = std::array::from_fn(|i| Span::full(x[i + 1]));
        let reach = std::cell::RefCell::new(&mut i);
        self.padded(&self.dy, self.y_shape, |w, _| {
            let mut i = reach.borrow_mut();
            **i += 1;
            w.outputs(spans[**i - 1])
        })
    }

    fn layer<T: Float>(&self, isa: Isa) -> ConvLayer<T> {
        let mut layer = ConvLayer::with_isa(self.conv.clone(), self.y_shape, isa);
        let narrow = |v: &[f64]| v.iter().map(|&v| T::from_f64(v)).collect::<Vec<T>>();
        let weight = Op::Conv(self.conv.clone()).layer_layout(0, &narrow(&self.weight));
        layer.params_mut()[0].value = weight;
        if self.conv.bias {
            layer.params_mut()[1].value = narrow(&self.bias);
        }
        layer
    }

    /// The convolution, its weights and its bias.
    fn local<T: Float>(&self, isa: Isa) -> (Local<T>, Vec<T>, Vec<T>) {
        let layer = self.layer::<T>(isa);
        let bias = layer.params().get(1).map_or(Vec::new(), |b| b.value.clone());
        (Local::new(self.conv.clone(), self.y_shape, isa), layer.params()[0].value.clone(), bias)
    }
}

/// Results of all passes as f64: y, dx, dw (PyTorch's order), db.
fn run<T: Float>(problem: &Problem, isa: Isa) -> [Vec<f64>; 4] {
    run_by::<T>(problem, isa, &SOLO)
}

/// The same by a team.
fn run_by<T: Float>(problem: &Problem, isa: Isa, team: &Team) -> [Vec<f64>; 4] {
    let (x, dy) = (problem.x_block::<T>(), problem.dy_block::<T>());
    let (mut local, weight, bias) = problem.local::<T>(isa);
    let (y_region, x_region) = (Region::full(problem.y_shape), Region::full(problem.x_shape));
    // One more plane around catches writes beyond the part.
    let mut y = Block::from_fn(grown(y_region), |_| T::from_f64(77.0));
    let mut dx = Block::from_fn(grown(x_region), |_| T::from_f64(77.0));
    local.forward(team, &weight, &bias, &x, &mut y, &y_region);
    local.backward_data(team, &weight, &dy, &mut dx, &x_region);
    let mut dw = vec![T::from_f64(5.0); problem.weight.len()];
    local.backward_weight(team, &x, &dy, &y_region, &mut dw);
    let dw = Op::Conv(problem.conv.clone()).torch_layout(0, &dw);
    let mut db = vec![T::from_f64(5.0); problem.conv.k];
    backward_bias(team, &dy, &y_region, &mut db, &mut BiasScratch::default());
    for (block, region) in [(&y, y_region), (&dx, x_region)] {
        let around = block.data().iter().filter(|v| v.to_f64() == 77.0).count();
        assert!(around >= block.data().len() - region.len(), "a kernel wrote outside its part: {:?}", problem.conv);
    }
    let wide = |v: &[T]| v.iter().map(|v| v.to_f64()).collect::<Vec<f64>>();
    [wide(&y.pack(&y_region)), wide(&dx.pack(&x_region)), wide(&dw), wide(&db)]
}

fn grown(region: Region) -> Region {
    SPATIAL.iter().fold(region, |r, &dim| r.with(dim, Span::new(r.span(dim).lo - 1, r.span(dim).hi + 1)))
}

fn expected(problem: &Problem) -> [Vec<f64>; 4] {
    let Problem { conv, x_shape, x, dy, weight, bias, .. } = problem;
    [
        reference::forward(conv, *x_shape, x, weight, bias),
        reference::backward_input(conv, *x_shape, dy, weight),
        reference::backward_weight(conv, *x_shape, x, dy),
        reference::backward_bias(conv, dy),
    ]
}

fn isas() -> impl Iterator<Item = Isa> {
    ISAS.into_iter().filter(|isa| isa.available())
}

/// Kernels, strides and paddings; channels with tails; extents of 1, odd and even.
fn cases() -> Vec<(Conv, usize, [usize; 3])> {
    let w = |kernel, stride, pad, pad_after| Window { kernel, stride, pad, pad_after };
    let conv = |c, k, windows, bias| Conv { c, k, windows, bias, algorithm: Algorithm::Auto };
    vec![
        (Conv::cube(1, 1, 1, 1, 0, false), 1, [1, 1, 1]),
        (Conv::cube(4, 16, 3, 1, 1, false), 1, [4, 5, 9]),
        (Conv::cube(1, 32, 3, 1, 1, true), 2, [3, 4, 7]),
        (Conv::cube(3, 18, 3, 1, 1, true), 1, [3, 1, 5]),
        (Conv::cube(16, 32, 3, 1, 1, false), 1, [4, 4, 8]),
        (Conv::cube(16, 48, 3, 1, 1, true), 1, [2, 3, 19]),
        (Conv::cube(18, 33, 3, 2, 1, false), 1, [5, 4, 7]),
        (Conv::cube(40, 70, 3, 1, 1, false), 1, [2, 2, 2]),
        (Conv::cube(5, 7, 2, 2, 0, true), 2, [4, 5, 6]),
        (Conv::cube(2, 3, 1, 2, 0, false), 1, [4, 5, 3]),
        (Conv::cube(33, 49, 1, 1, 0, true), 1, [3, 3, 5]),
        (conv(3, 4, [w(2, 1, 0, 1); 3], true), 1, [3, 4, 1]),
        (conv(4, 5, [w(1, 1, 0, 0), w(3, 3, 0, 2), w(5, 2, 3, 1)], true), 1, [2, 7, 9]),
        (conv(2, 20, [w(3, 1, 2, 2), w(1, 1, 0, 0), w(4, 3, 1, 2)], false), 1, [1, 2, 11]),
        (conv(17, 3, [w(1, 1, 0, 0), w(1, 2, 0, 0), w(3, 1, 1, 1)], false), 3, [1, 6, 1]),
        (Conv::image(3, 64, 7, 2, 3, false), 1, [1, 12, 13]),
        (Conv::image(18, 35, 5, 2, 2, true), 1, [1, 9, 8]),
        (Conv::image(8, 9, 3, 1, 1, true), 1, [1, 30, 2]),
        (Conv::image(6, 130, 3, 1, 1, true), 1, [1, 1, 230]),
        (Conv::image(130, 6, 3, 1, 1, true), 1, [1, 6, 5]),
        (Conv::cube(19, 250, 3, 1, 1, true), 1, [2, 2, 3]),
        (Conv::image(30, 260, 3, 2, 1, false), 2, [1, 4, 3]),
        // A gradient larger than a cache; outputs for several gradients; panels of inputs in several groups.
        (Conv::cube(90, 130, 3, 1, 1, false), 1, [2, 3, 2]),
        (Conv::image(3, 5, 3, 1, 1, true), 1, [1, 97, 95]),
        (Conv::image(30, 70, 1, 1, 0, true), 2, [1, 40, 61]),
        // Weight gradients by taps, with gradients in place and copied: one stream to many; lines just long enough, and cut;
        // three taps of two inputs each.
        (Conv::image(1, 16, 3, 1, 1, false), 1, [1, 3, 8]),
        (Conv::image(1, 32, 3, 1, 0, false), 2, [1, 6, 401]),
        (Conv::image(5, 17, 3, 1, 1, false), 1, [1, 4, 13]),
        (Conv::cube(7, 40, 3, 1, 1, false), 1, [2, 2, 10]),
        (conv(2, 16, [w(1, 1, 0, 0), w(2, 1, 0, 1), w(6, 2, 2, 2)], false), 1, [1, 5, 33]),
        // Few output channels, and few input channels of the data gradient: dot products of rows shorter and longer than a
        // vector, and of lines shorter and longer than a tile, along every dimension.
        (Conv::image(64, 3, 1, 1, 0, true), 2, [1, 5, 29]),
        (Conv::image(21, 2, 3, 1, 1, true), 1, [1, 3, 4]),
        (Conv::cube(7, 4, 3, 2, 1, true), 1, [5, 6, 14]),
        (Conv::cube(3, 40, 3, 1, 1, false), 1, [13, 2, 2]),
        (Conv::cube(2, 17, 5, 2, 2, false), 1, [4, 31, 3]),
        (Conv::cube(4, 33, 2, 2, 0, true), 1, [4, 4, 18]),
        // Sums over tiles: tails of channels on both sides; odd extents; no padding, and more than tiles need; all kinds of
        // windows along D; chunks of columns, of planes and of several samples; one wide block to several and a narrow one.
        (Conv::image(16, 16, 3, 1, 1, false), 1, [1, 32, 16]),
        (Conv::image(21, 50, 3, 1, 1, true), 3, [1, 13, 15]),
        (Conv::image(70, 33, 3, 1, 0, true), 2, [1, 17, 21]),
        (Conv::cube(17, 36, 3, 1, 1, false), 1, [19, 6, 7]),
        (Conv::cube(16, 16, 3, 1, 0, true), 1, [12, 10, 9]),
        (conv(20, 80, [w(2, 1, 0, 1), w(3, 1, 2, 1), w(3, 1, 0, 2)], true), 1, [5, 11, 12]),
        (conv(32, 16, [w(1, 1, 0, 0), w(3, 1, 1, 1), w(3, 1, 1, 1)], true), 1, [9, 8, 8]),
        (conv(18, 19, [w(5, 1, 2, 2), w(3, 1, 1, 1), w(3, 1, 1, 1)], false), 2, [3, 9, 10]),
        (Conv::image(272, 40, 3, 1, 1, false), 1, [1, 30, 31]),
        (Conv::cube(4, 16, 3, 1, 1, false), 1, [8, 9, 11]),
        (Conv::cube(4, 16, 3, 1, 1, false), 2, [32, 32, 32]),
        (conv(7, 41, [w(3, 1, 1, 1), w(3, 1, 1, 1), w(4, 1, 1, 2)], true), 1, [6, 10, 67]),
        (conv(5, 16, [w(3, 1, 0, 2), w(3, 1, 1, 1), w(1, 1, 0, 0)], true), 1, [9, 8, 150]),
    ]
}

#[test]
fn small_integers_are_exact_on_every_instruction_set() {
    for (conv, n, extents) in cases() {
        let problem = Problem::integers(&conv, n, extents);
        let expected = expected(&problem);
        for isa in isas() {
            assert_eq!(run::<f32>(&problem, isa), expected, "{isa}: {conv:?} over {n} x {extents:?}");
        }
        assert_eq!(run::<f64>(&problem, Isa::Portable), expected, "f64: {conv:?} over {n} x {extents:?}");
    }
}

#[test]
fn products_of_the_definition_can_be_asked_for() {
    for (conv, n, extents) in cases() {
        let direct = Problem::integers(&Conv { algorithm: Algorithm::Direct, ..conv.clone() }, n, extents);
        let expected = expected(&direct);
        assert_eq!(run::<f32>(&direct, Isa::selected()), expected, "{conv:?} over {n} x {extents:?}");
    }
    // Where both are possible they differ, by rounding alone.
    let conv = Conv::cube(16, 16, 3, 1, 1, false);
    let value = |stream, i| rng::uniform(5, stream, i) - 0.5;
    let tiles = run::<f32>(&Problem::new(&conv, 1, [8, 8, 8], value), Isa::selected());
    let conv = Conv { algorithm: Algorithm::Direct, ..conv };
    let direct = run::<f32>(&Problem::new(&conv, 1, [8, 8, 8], value), Isa::selected());
    for (tiles, direct) in tiles.iter().zip(&direct).take(3) {
        assert_ne!(tiles, direct);
        assert!(tiles.iter().zip(direct).all(|(a, b)| (a - b).abs() < 1e-4));
    }
}

#[test]
fn transposed_small_integers_are_exact() {
    let w = |kernel, stride, pad, pad_after| Window { kernel, stride, pad, pad_after };
    for (c, k, windows, n, extents) in [
        (20, 35, [w(2, 2, 0, 0); 3], 1, [2, 3, 4]),
        (3, 1, [w(3, 2, 1, 1); 3], 2, [3, 2, 5]),
        (16, 32, [w(1, 1, 0, 0), w(3, 1, 1, 1), w(4, 2, 1, 0)], 1, [1, 5, 9]),
        (5, 4, [w(1, 2, 0, 0), w(2, 3, 0, 0), w(1, 1, 0, 0)], 1, [3, 3, 1]),
    ] {
        let spec = ConvTranspose { c, k, windows };
        let x_shape = [n, extents[0], extents[1], extents[2], c];
        let y_shape = spec.out_shape(x_shape);
        // The adjoint's problem: its input is the output here.
        let problem = Problem::integers(&spec.adjoint(), n, [y_shape[1], y_shape[2], y_shape[3]]);
        assert_eq!(problem.y_shape, x_shape, "{spec:?}");
        let [dx, y, dw, _] = expected(&problem);
        for isa in isas() {
            let weight = problem.layer::<f32>(isa).params()[0].value.clone();
            let mut local = TransposedLocal::<f32>::new(&spec, x_shape, isa);
            let (x, dy) = (problem.dy_block::<f32>(), problem.x_block::<f32>());
            let (inputs, outputs) = (Region::full(x_shape), Region::full(y_shape));
            let (mut y_block, mut dx_block) = (Block::zeros(outputs), Block::zeros(inputs));
            local.forward(&SOLO, &weight, &x, &mut y_block, &outputs);
            local.backward_data(&SOLO, &weight, &dy, &mut dx_block, &inputs);
            let mut dw_own = vec![5.0; weight.len()];
            local.backward_weight(&SOLO, &x, &dy, &inputs, &mut dw_own);
            let dw_own = Op::Conv(problem.conv.clone()).torch_layout(0, &dw_own);
            let wide = |v: &[f32]| v.iter().map(|&v| f64::from(v)).collect::<Vec<f64>>();
            assert_eq!(wide(y_block.data()), y, "{isa}: forward of {spec:?}");
            assert_eq!(wide(dx_block.data()), dx, "{isa}: data gradient of {spec:?}");
            assert_eq!(wide(&dw_own), dw, "{isa}: weight gradient of {spec:?}");
        }
    }
}

#[test]
fn a_slope_multiplies_what_is_below_zero() {
    let conv = Conv::cube(70, 33, 3, 1, 1, true);
    let problem = Problem::integers(&conv, 1, [2, 5, 6]);
    let (x, all) = (problem.x_block(), Region::full(problem.y_shape));
    for isa in isas() {
        let (mut local, weight, bias) = problem.local::<f32>(isa);
        let (mut plain, mut sloped) = (Block::zeros(all), Block::zeros(all));
        local.forward(&SOLO, &weight, &bias, &x, &mut plain, &all);
        local.set_slope(0.01);
        local.forward(&SOLO, &weight, &bias, &x, &mut sloped, &all);
        assert!(plain.data().iter().any(|&v| v < 0.0) && plain.data().iter().any(|&v| v > 0.0));
        plain.data_mut().iter_mut().for_each(|v| *v = if *v > 0.0 { *v } else { *v * 0.01 });
        assert_eq!(plain, sloped, "{isa}");
    }
}

#[test]
fn rounding_stays_within_the_bound_of_a_sum() {
    for (conv, n, extents) in [
        (Conv::cube(64, 48, 3, 1, 1, true), 1, [5, 6, 7]),
        (Conv::cube(20, 33, 3, 2, 1, false), 2, [7, 6, 9]),
        (Conv::image(3, 16, 7, 2, 3, false), 1, [1, 40, 41]),
    ] {
        let problem = Problem::new(&conv, n, extents, |stream, i| rng::uniform(3, stream, i) - 0.5);
        let terms = [conv.c * conv.taps(), conv.k * conv.taps(), problem.dy.len() / conv.k, problem.dy.len() / conv.k];
        for isa in isas() {
            for ((got, expected), terms) in run::<f32>(&problem, isa).iter().zip(&expected(&problem)).zip(terms) {
                // A random walk of `terms` roundings of sums of products below 1/4, with a wide margin.
                let bound = 4.0 * f32::EPSILON as f64 * terms as f64 * 0.25;
                let error = got.iter().zip(expected).map(|(g, e)| (g - e).abs()).fold(0.0, f64::max);
                assert!(error <= bound, "{isa}: {conv:?}: error {error:e} above {bound:e}");
            }
        }
    }
}

#[test]
fn gradients_match_finite_differences() {
    let windows = [Window::new(2, 1, 1), Window::new(3, 2, 1), Window::new(3, 1, 0)];
    let conv = Conv { c: 2, k: 3, windows, bias: true, algorithm: Algorithm::Auto };
    let problem = Problem::new(&conv, 1, [3, 5, 4], |stream, i| rng::uniform(9, stream, i) - 0.5);
    // The loss is the sum of y * dy.
    let loss = |x: &[f64], weight: &[f64], bias: &[f64]| -> f64 {
        let y = reference::forward(&conv, problem.x_shape, x, weight, bias);
        y.iter().zip(&problem.dy).map(|(y, g)| y * g).sum()
    };
    let [_, dx, dw, db] = run::<f64>(&problem, Isa::Portable);
    let step = 1e-3;
    let moved = |values: &[f64], i: usize, by: f64| {
        let mut values = values.to_vec();
        values[i] += by;
        values
    };
    let Problem { x, weight, bias, .. } = &problem;
    let check = |name: &str, gradient: &[f64], loss: &dyn Fn(usize, f64) -> f64| {
        for i in 0..gradient.len() {
            let slope = (loss(i, step) - loss(i, -step)) / (2.0 * step);
            assert!((slope - gradient[i]).abs() < 1e-9, "{name} {i}: slope {slope}, gradient {}", gradient[i]);
        }
    };
    check("x", &dx, &|i, by| loss(&moved(x, i, by), weight, bias));
    check("weight", &dw, &|i, by| loss(x, &moved(weight, i, by), bias));
    check("bias", &db, &|i, by| loss(x, weight, &moved(bias, i, by)));
}

#[test]
fn empty_parts_have_zero_gradients_and_write_nothing() {
    let conv = Conv::cube(3, 5, 3, 1, 1, true);
    let problem = Problem::integers(&conv, 1, [3, 3, 3]);
    let (mut local, weight, bias) = problem.local::<f32>(Isa::selected());
    let empty = Region::full(problem.y_shape).with(SPATIAL[1], Span::new(2, 2));
    let (x, dy) = (problem.x_block(), problem.dy_block());
    let mut y = Block::from_fn(Region::full(problem.y_shape), |_| 1.0f32);
    local.forward(&SOLO, &weight, &bias, &x, &mut y, &empty);
    assert!(y.data().iter().all(|&v| v == 1.0));
    let mut dw = vec![1.0; problem.weight.len()];
    local.backward_weight(&SOLO, &x, &dy, &empty, &mut dw);
    let mut db = vec![1.0; 5];
    backward_bias(&SOLO, &dy, &empty, &mut db, &mut BiasScratch::default());
    assert!(dw.iter().chain(&db).all(|&v| v == 0.0));
}

#[test]
fn layers_convert_weights_and_notice_changes() {
    let conv = Conv::cube(3, 5, 2, 1, 0, false);
    let mut layer = ConvLayer::<f32>::new(conv.clone(), [1, 2, 2, 2, 5]);
    let torch: Vec<f32> = (0..layer.params()[0].value.len()).map(|i| i as f32).collect();
    let op = Op::Conv(conv.clone());
    let own = op.layer_layout(0, &torch);
    assert_eq!(op.torch_layout(0, &own), torch);
    // [KD, KH, KW, C, K]: the second element is output channel 1.
    assert_eq!(own[1], (3 * 8) as f32);
    assert_eq!(conv.params()[0].shape, [5, 3, 2, 2, 2]);
    layer.params_mut()[0].value = own;
    assert_eq!(layer.params()[0].grad.len(), torch.len());
}

#[test]
fn an_instruction_set_can_be_forced_and_a_wrong_one_is_explained() {
    assert_eq!(Isa::select(Some("portable")), (Isa::Portable, None));
    let (best, none) = Isa::select(None);
    assert!(best.available() && none.is_none());
    let (isa, complaint) = Isa::select(Some("neon"));
    assert_eq!(isa, best);
    assert!(complaint.is_some_and(|c| c.contains("got neon") && c.contains("portable")));
}
