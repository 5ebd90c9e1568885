//! Networks against the published costs; every grid against the serial run; Steps against counted messages.

mod tail;

use crate::*;
use shardmark_comm::{Comm, Counted, Counts, solo, threads};
use shardmark_host::SOLO;
use shardmark_layers::Op;
use shardmark_layers::activation::{LeakyRelu, Tanh};
use shardmark_layers::conv::{Algorithm, Conv};
use shardmark_layers::dense::{Dense, Flatten};
use shardmark_layers::dropout::Dropout;
use shardmark_layers::loss::Loss;
use shardmark_layers::norm::BatchNorm;
use shardmark_layers::optim::OptimSpec;
use shardmark_layers::pool::{Pool, PoolMode};
use shardmark_partition::step::Work;
use shardmark_partition::{AxisSet, Grid, Region, Window};
use shardmark_tensor::{Block, rng};

fn node(name: &str, op: Op) -> Node {
    Node { name: name.into(), op }
}

const SGD: OptimSpec = OptimSpec::Sgd { lr: 0.01, momentum: 0.9, weight_decay: 0.0 };

/// The published networks' layers with few channels, so that every grid of every rank count is affordable.
fn narrow(variant: Variant, volume: [usize; 3], batch: usize, norm: Option<AxisSet>, tail: Option<&str>) -> Graph {
    let same = Window { kernel: 2, stride: 1, pad: 0, pad_after: 1 };
    let mut nodes = Vec::new();
    for (i, (c, k)) in (1..).zip([(3, 5), (5, 6), (6, 24)]) {
        let (conv, pool) = match variant {
            Variant::Paper2020 => (
                Conv::cube(c, k, 3, if i == 2 { 2 } else { 1 }, 1, false),
                Pool { mode: PoolMode::Average, windows: [Window::new(3, 2, 1); 3] },
            ),
            Variant::MlPerf => (
                Conv { c, k, windows: [same; 3], bias: true, algorithm: Algorithm::Auto },
                Pool { mode: PoolMode::Max, windows: [Window::new(2, 2, 0); 3] },
            ),
        };
        nodes.push(node(&format!("conv{i}"), Op::Conv(conv)));
        if let Some(group) = norm {
            let norm = BatchNorm { channels: k, eps: 1e-5, momentum: 0.1, group };
            nodes.push(node(&format!("bn{i}"), Op::Norm(norm)));
        }
        nodes.push(node(&format!("act{i}"), Op::LeakyRelu(LeakyRelu { slope: 0.1 })));
        nodes.push(node(&format!("pool{i}"), Op::Pool(pool)));
    }
    nodes.push(node("flatten", Op::Flatten(Flatten)));
    let [d, h, w] = volume;
    let input = [batch, d, h, w, 3];
    let flat = Graph::chain("features", input, nodes.clone(), None).expect("fits").output()[4];
    nodes.push(node("drop1", Op::Dropout(Dropout { keep: 0.8 })));
    nodes.push(node("fc1", Op::Dense(Dense { c: flat, k: 64, bias: true, bias_init: 0.1 })));
    nodes.push(node("tanh", Op::Tanh(Tanh { scale: 1.2 })));
    nodes.push(node("fc2", Op::Dense(Dense { c: 64, k: 4, bias: true, bias_init: 0.1 })));
    Graph::chain(&format!("narrow {variant:?}"), input, nodes, tail).expect("fits")
}

fn network(variant: Variant) -> Cosmoflow {
    Cosmoflow { variant, batch: 1, volume: [32; 3], channels: 4, norm: None, dropout: None, tail: None }
}

fn cosmoflow(variant: Variant, volume: [usize; 3], batch: usize, norm: Option<AxisSet>) -> Graph {
    Cosmoflow { batch, volume, norm, ..network(variant) }.graph().expect("a valid network")
}

#[test]
fn the_2020_network_costs_what_its_paper_says() {
    for (width, flops, bytes, with_norm) in [
        (128, 55_547_265_024u64, 884_412_448u64, 1.152),
        (256, 443_783_577_600, 7_074_713_632, 9.219),
        (512, 3_550_268_620_800, 56_597_352_480, 73.75),
    ] {
        let cost = paper_accounting(&cosmoflow(Variant::Paper2020, [width; 3], 1, None));
        assert_eq!((cost.flops, cost.bytes, cost.params), (flops, bytes, 9_437_636));
        let cost = paper_accounting(&cosmoflow(Variant::Paper2020, [width; 3], 1, Some(AxisSet::ALL)));
        assert_eq!((cost.flops, cost.params), (flops, 9_439_652));
        let gib = cost.bytes as f64 / (1u64 << 30) as f64;
        assert!((gib - with_norm).abs() < 0.005, "{width}: {gib}");
    }
}

#[test]
fn executed_convolution_flops_leave_out_the_first_data_gradient() {
    let plan = NetPlan::new(cosmoflow(Variant::Paper2020, [128; 3], 1, None), Grid::single());
    let flops: u64 = plan
        .steps(0, StepOptions::default())
        .filter_map(|s| match s.work {
            Work::Compute { kernel: "conv", flops, .. } => Some(flops),
            _ => None,
        })
        .sum();
    assert_eq!(format!("{:.2}", flops as f64 / 1e9), "48.30");
}

struct Run {
    loss: f64,
    grads: Vec<(String, Vec<f32>)>,
    /// After an update by these gradients and a whole step.
    weights: Vec<(String, Vec<f32>)>,
    /// Of the gradients, and of the whole step.
    counts: [Counts; 2],
}

fn run_step(comm: &dyn Comm, graph: &Graph, grid: Grid) -> Result<Run, TrainError> {
    let counted = Counted::new(comm);
    let plan = NetPlan::new(graph.clone(), grid);
    let mut trainer = Trainer::<f32>::new(&counted, &SOLO, plan, Loss::Mse, SGD, InitScheme::He, 7)?;
    let shape = graph.input();
    let input = Block::from_fn(trainer.input_region(), |at| {
        let inside = (0..5).all(|i| (0..shape[i] as i64).contains(&at[i]));
        let index = (0..5).fold(0i64, |index, i| index * shape[i] as i64 + at[i]);
        if inside { rng::normal(3, 1, index as u64) as f32 } else { f32::NAN }
    });
    let target = Block::from_fn(trainer.target_region(), |[n, .., c]| rng::uniform(3, 2, (n * 4 + c) as u64) as f32);
    counted.reset();
    let loss = trainer.gradients(input.clone(), &target)?;
    let first = counted.counts();
    let grads = trainer.parameters().map(|p| p.map(|p| (p.name, p.grad))).collect::<Result<_, _>>()?;
    trainer.update()?;
    counted.reset();
    trainer.train_step(input, &target)?;
    let second = counted.counts();
    let weights = trainer.parameters().map(|p| p.map(|p| (p.name, p.value))).collect::<Result<_, _>>()?;
    Ok(Run { loss, grads, weights, counts: [first, second] })
}

fn assert_grids_agree(graph: &Graph, ranks: &[usize]) {
    let serial = run_step(&solo(), graph, Grid::single()).expect("serial");
    for grid in ranks.iter().flat_map(|&p| Grid::factorisations(p)) {
        let plan = NetPlan::new(graph.clone(), grid);
        let runs = threads::run(grid.size(), &threads::Options::default(), |comm| run_step(comm, graph, grid))
            .unwrap_or_else(|error| panic!("{} on {grid}: {error}", graph.name));
        for (rank, run) in runs.iter().enumerate() {
            let foreseen = plan.expected_counts(rank, StepOptions::default());
            assert_eq!(run.counts, [foreseen.clone(), foreseen], "{} rank {rank} of {grid}", graph.name);
            assert!((run.loss / serial.loss - 1.0).abs() < 1e-5, "{grid}: loss {} {}", run.loss, serial.loss);
            // The gradient of a bias before batch norm is zero but for rounding, so the network's scale counts too.
            let largest = serial.grads.iter().flat_map(|(_, g)| g).fold(0f32, |m, v| m.max(v.abs()));
            for ((name, got), (_, expected)) in run.grads.iter().zip(&serial.grads) {
                let scale = expected.iter().fold(1e-3 * largest, |m, v| m.max(v.abs()));
                let error = got.iter().zip(expected).fold(0f32, |m, (a, b)| m.max((a - b).abs()));
                assert!(error <= 1e-4 * scale, "{} {name} on {grid}: {error} of {scale}", graph.name);
            }
            for ((name, got), (_, expected)) in run.weights.iter().zip(&serial.weights) {
                let scale = expected.iter().fold(1e-3, |m, v| v.abs().max(m));
                let error = got.iter().zip(expected).fold(0f32, |m, (a, b)| m.max((a - b).abs()));
                assert!(error <= 1e-4 * scale, "{} {name} after updates on {grid}: {error} of {scale}", graph.name);
            }
            assert!(run.weights == runs[0].weights, "{} on {grid}: rank {rank} has weights of its own", graph.name);
        }
    }
}

#[test]
fn every_grid_gives_the_serial_gradients_and_the_foreseen_messages() {
    let ranks = [1, 2, 3, 4, 6, 8];
    for norm in [None, Some(AxisSet::ALL)] {
        assert_grids_agree(&narrow(Variant::Paper2020, [16, 18, 13], 3, norm, Some("pool3")), &ranks);
        assert_grids_agree(&narrow(Variant::MlPerf, [17, 11, 12], 2, norm, None), &ranks);
        assert_grids_agree(&narrow(Variant::Paper2020, [9, 10, 17], 2, norm, Some("conv1")), &[2, 4, 8]);
        assert_grids_agree(&narrow(Variant::Paper2020, [16, 18, 13], 2, norm, Some("conv3")), &[2, 3, 4, 6]);
    }
}

#[test]
fn spatial_splitting_may_last_until_the_flatten_layer() {
    assert_grids_agree(&narrow(Variant::Paper2020, [5, 20, 8], 2, None, None), &[2, 4, 8]);
}

/// Two convolutions with pointwise layers between them, of which not all are fused.
fn two_convolutions(tail: Option<&str>) -> Graph {
    let conv = |c, k, stride| Conv::cube(c, k, 3, stride, 1, true);
    let nodes = vec![
        node("conv1", Op::Conv(conv(3, 8, 2))),
        node("drop", Op::Dropout(Dropout { keep: 0.8 })),
        node("act", Op::LeakyRelu(LeakyRelu { slope: 0.1 })),
        node("tanh", Op::Tanh(Tanh { scale: 1.2 })),
        node("conv2", Op::Conv(conv(8, 4, 1))),
        node("flatten", Op::Flatten(Flatten)),
        node("fc", Op::Dense(Dense { c: 4 * 7 * 9 * 5, k: 4, bias: true, bias_init: 0.1 })),
    ];
    Graph::chain("two convolutions", [2, 13, 17, 10, 3], nodes, tail).expect("fits")
}

#[test]
fn a_gradient_in_slabs_is_the_whole_one() {
    // Where a layer's input is moved its gradient is whole.
    let pooled = |tail| narrow(Variant::Paper2020, [16, 18, 13], 3, None, Some(tail));
    for (graph, slabs, moved) in
        [(pooled("pool3"), 2, pooled("pool1")), (two_convolutions(None), 4, two_convolutions(Some("conv2")))]
    {
        let plan = |graph: &Graph| NetPlan::new(graph.clone(), Grid::single());
        let (in_slabs, whole) = (plan(&graph), plan(&moved));
        assert_eq!([in_slabs.slab_layer(), whole.slab_layer()], [Some(slabs), None]);
        let at = Grid::single().coords(0);
        let list = in_slabs.slabs(slabs, &at);
        assert!(list.len() > 4 && in_slabs.dx_block(slabs, &at).len() < whole.dx_block(slabs, &at).len() / 2);
        assert_eq!(list.iter().map(Region::len).sum::<usize>(), in_slabs.layer(slabs).x.iter().product::<usize>());
        let [got, expected] = [&graph, &moved].map(|graph| run_step(&solo(), graph, Grid::single()).expect("serial"));
        assert_eq!(got.loss, expected.loss);
        for ((name, got), (_, expected)) in got.grads.iter().zip(&expected.grads) {
            let scale = expected.iter().fold(0f32, |m, v| m.max(v.abs()));
            let error = got.iter().zip(expected).fold(0f32, |m, (a, b)| m.max((a - b).abs()));
            assert!(scale > 0.0 && error <= 1e-6 * scale, "{} {name}: {error} of {scale}", graph.name);
        }
        assert_grids_agree(&graph, &[2, 3, 4, 8]);
    }
}

#[test]
fn the_same_grid_gives_the_same_bits() {
    let graph = narrow(Variant::Paper2020, [16; 3], 2, Some(AxisSet::ALL), None);
    let grid: Grid = "1x2x2x1".parse().expect("valid");
    let run = || threads::run(4, &threads::Options::default(), |comm| run_step(comm, &graph, grid)).expect("runs");
    let (first, second) = (run(), run());
    assert_eq!(first[0].loss.to_bits(), second[0].loss.to_bits());
    assert!(first.iter().zip(&second).all(|(a, b)| a.grads == b.grads && a.weights == b.weights));
}

#[test]
fn every_send_has_its_receive_without_running_anything() {
    let graph = cosmoflow(Variant::Paper2020, [64; 3], 3, Some(AxisSet::SPATIAL));
    for grid in (1..=8).flat_map(Grid::factorisations) {
        let plan = NetPlan::new(graph.clone(), grid);
        let mut sends = std::collections::BTreeMap::new();
        for rank in 0..grid.size() {
            for step in plan.steps(rank, StepOptions::default()) {
                if let Work::Send { peer, key, bytes } = step.work {
                    assert!(sends.insert((rank, peer, key), bytes).is_none());
                }
                assert!(step.after.iter().all(|range| range.end <= step.id), "{grid}: {step:?}");
            }
        }
        for rank in 0..grid.size() {
            for step in plan.steps(rank, StepOptions::default()) {
                if let Work::Recv { peer, key, bytes } = step.work {
                    assert_eq!(sends.remove(&(peer, rank, key)), Some(bytes), "{grid} rank {rank}");
                }
            }
        }
        assert!(sends.is_empty(), "{grid}: {sends:?}");
    }
}

#[test]
fn what_a_step_allocates_it_frees_but_for_parameters_and_input() {
    for (variant, shape) in [(Variant::Paper2020, [32; 3]), (Variant::MlPerf, [36, 41, 33])] {
        let graph = cosmoflow(variant, shape, 2, Some(AxisSet::ALL));
        for grid in (1..=8).flat_map(Grid::factorisations) {
            let plan = NetPlan::new(graph.clone(), grid);
            for rank in 0..grid.size() {
                let mut held = 0;
                for step in plan.steps(rank, StepOptions::default()) {
                    match step.work {
                        Work::Alloc { bytes } => held += bytes,
                        Work::Free { bytes } => held -= bytes,
                        _ => {}
                    }
                }
                let input = plan.layer(0).x_block(&grid, &grid.coords(rank)).len() as u64 * 4;
                let layers = 0..graph.nodes.len();
                let shares: usize = layers.clone().map(|i| plan.largest_share(i)).sum();
                let here: usize =
                    layers.map(|i| if plan.divides(i) { plan.largest_share(i) } else { plan.param_len(i) }).sum();
                let kept = (here + shares) as u64 * 8;
                assert_eq!(held, kept + input, "{} on {grid}, rank {rank}", graph.name);
            }
        }
    }
}

/// Max pooling scatters its gradient into a block with margins, which the convolution then reads.
#[test]
fn a_scattered_gradient_is_not_copied() {
    let cube = |kernel, stride, pad| [Window::new(kernel, stride, pad); 3];
    let nodes = vec![
        node("conv", Op::Conv(Conv::cube(1, 1, 3, 1, 1, false))),
        node("pool", Op::Pool(Pool { mode: PoolMode::Max, windows: cube(3, 1, 1) })),
    ];
    let graph = Graph::chain("pooled", [1, 4, 4, 4, 1], nodes, None).expect("valid");
    let plan = NetPlan::new(graph, Grid::single());
    let element = StepOptions { element: 1, optimizer_state: 0, file_element: 0 };
    // Weight and gradient, input with border, pool input with border, output and its gradient; then the scattered
    // gradient with border.
    assert_eq!(plan.peak_bytes(0, element), 2 * 27 + 216 + 216 + 64 + 64 + 216);
}

#[test]
fn one_rank_of_65536_is_described_in_milliseconds() {
    let graph = cosmoflow(Variant::Paper2020, [512; 3], 16, Some(AxisSet::ALL));
    let plan = NetPlan::new(graph, "16x16x16x16".parse().expect("valid"));
    let start = std::time::Instant::now();
    let steps = plan.steps(0, StepOptions::default()).count();
    let seconds = start.elapsed().as_secs_f64();
    assert!(steps > 100, "{steps}");
    assert!(seconds < 0.5, "{steps} Steps took {seconds} s");
    let inner = plan.grid.rank(&[3, 7, 7, 7, 0]);
    let other = plan.grid.rank(&[5, 7, 7, 7, 0]);
    assert_eq!(plan.class(inner, StepOptions::default()), plan.class(other, StepOptions::default()));
    assert_ne!(plan.class(inner, StepOptions::default()), plan.class(0, StepOptions::default()));
}

#[test]
fn memory_falls_with_the_number_of_ranks_and_ends_at_the_parameters() {
    let graph = cosmoflow(Variant::Paper2020, [128; 3], 1, None);
    let options = StepOptions::default();
    let peak = |grid: &str| NetPlan::new(graph.clone(), grid.parse().expect("valid")).peak_bytes(0, options);
    let (one, four) = (peak("1x1x1x1"), peak("1x4x1x1"));
    assert!(four < one / 2, "{one} {four}");
    let params = graph.param_count() * 4 * 4;
    assert!(one > params + 250 * (1 << 20), "{one}");
}

#[test]
fn a_rank_holds_what_its_steps_allocate() {
    let drop = Cosmoflow { dropout: Some(0.5), ..network(Variant::MlPerf) };
    for graph in [
        narrow(Variant::Paper2020, [16, 18, 13], 2, Some(AxisSet::ALL), Some("pool3")),
        narrow(Variant::MlPerf, [17, 11, 12], 2, None, Some("act2")),
        network(Variant::Paper2020).graph().expect("valid"),
        drop.graph().expect("valid"),
    ] {
        let plan = NetPlan::new(graph.clone(), Grid::single());
        let options = StepOptions { optimizer_state: 1, ..StepOptions::default() };
        let expected = plan.peak_bytes(0, options) - graph.param_count() * 4 * 3;
        let comm = solo();
        let mut trainer = Trainer::<f32>::new(&comm, &SOLO, plan, Loss::Mse, SGD, InitScheme::He, 7).expect("valid");
        let target = Block::zeros(trainer.target_region());
        for _ in 0..2 {
            let mut input = trainer.input_block();
            input.data_mut().fill(1.0);
            trainer.train_step(input, &target).expect("trains");
        }
        assert_eq!(trainer.peak_block_bytes(), expected, "{}", graph.name);
    }
}
