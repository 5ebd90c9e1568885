//! A layer alone: every grid gives the serial tensors to the bit (small integers), and the messages of its Steps.

use crate::*;
use shardmark_comm::{Comm, Counted, Counts, solo, threads};
use shardmark_host::SOLO;
use shardmark_layers::Op;
use shardmark_layers::conv::{Algorithm, Conv};
use shardmark_layers::dense::Dense;
use shardmark_layers::loss::Loss;
use shardmark_layers::optim::OptimSpec;
use shardmark_layers::pool::{Pool, PoolMode};
use shardmark_partition::step::Work;
use shardmark_partition::{Grid, Region, Window};
use shardmark_tensor::{Block, rng};

const SGD: OptimSpec = OptimSpec::Sgd { lr: 0.0, momentum: 0.0, weight_decay: 0.0 };

/// What one rank has of the results.
struct Run {
    output: Block<f32>,
    dx: Block<f32>,
    grads: Vec<Vec<f32>>,
    counts: Counts,
}

/// A small integer that depends on the place in the tensor.
fn value(shape: [usize; 5], stream: u64, at: [i64; 5]) -> f32 {
    let index = (0..5).fold(0, |index, i| index * shape[i] as u64 + at[i] as u64);
    rng::small_int(1, stream, index, 2) as f32
}

/// A block that has values where the rank owns them, and NaN in the margins.
fn filled(region: Region, own: Region, shape: [usize; 5], stream: u64) -> Block<f32> {
    let mut block = Block::from_fn(region, |_| f32::NAN);
    block.copy_from(&Block::from_fn(own, |at| value(shape, stream, at)), &own);
    block
}

fn run(comm: &dyn Comm, graph: &Graph, grid: Grid) -> Result<Run, TrainError> {
    let counted = Counted::new(comm);
    let plan = NetPlan::new(graph.clone(), grid);
    let mut trainer = Trainer::<f32>::new(&counted, &SOLO, plan, Loss::Mse, SGD, InitScheme::He, 1)?;
    for (_, _, name, spec) in graph.params() {
        let weights: Vec<f64> = (0..spec.len()).map(|i| rng::small_int(1, 9, i as u64, 2)).collect();
        trainer.set_parameter(&name, &weights)?;
    }
    let (x, y) = (trainer.owned_input(), trainer.target_region());
    let input = filled(trainer.input_region(), x, graph.input(), 1);
    let dy = filled(*trainer.gradient_block().region(), y, graph.output(), 2);
    counted.reset();
    trainer.lone_forward(input)?;
    let cut = |block: &Block<f32>, own: Region| Block::from_vec(own, block.pack(&own));
    let output = trainer.lone_output().map(|block| cut(block, y)).unwrap_or_default();
    trainer.lone_backward(dy)?;
    let dx = trainer.lone_input_gradient();
    let dx = if dx.data().is_empty() { Block::default() } else { cut(dx, x) };
    let counts = counted.counts();
    let grads = trainer.parameters().map(|p| p.map(|p| p.grad)).collect::<Result<_, _>>()?;
    Ok(Run { output, dx, grads, counts })
}

fn assert_grids_agree(op: Op, shape: [usize; 5], input_gradient: bool) {
    let graph = Graph::layer(op, shape, input_gradient).expect("a layer");
    let serial = run(&solo(), &graph, Grid::single()).expect("serial");
    assert_eq!(serial.dx.data().is_empty(), !input_gradient);
    for grid in (1..=4).flat_map(Grid::factorisations) {
        let plan = NetPlan::new(graph.clone(), grid);
        let runs = threads::run(grid.size(), &threads::Options::default(), |comm| run(comm, &graph, grid))
            .unwrap_or_else(|error| panic!("{} on {grid}: {error}", graph.name));
        for (rank, got) in runs.iter().enumerate() {
            let place = format!("{} rank {rank} of {grid}", graph.name);
            let part = |whole: &Block<f32>, own: &Block<f32>| whole.pack(own.region());
            assert_eq!(got.output.data(), part(&serial.output, &got.output), "output of {place}");
            assert_eq!(got.dx.data(), part(&serial.dx, &got.dx), "dx of {place}");
            assert_eq!(got.grads, serial.grads, "gradients of {place}");
            let options = StepOptions { optimizer_state: 0, ..StepOptions::default() };
            assert_eq!(got.counts, plan.expected_counts(rank, options), "messages of {place}");
            let mut held = 0;
            for step in plan.steps(rank, options) {
                match step.work {
                    Work::Alloc { bytes } => held += bytes,
                    Work::Free { bytes } => held -= bytes,
                    _ => {}
                }
            }
            let input = plan.layer(0).x_block(&grid, &grid.coords(rank)).len() as u64 * 4;
            assert_eq!(held, graph.param_count() * 8 + input, "memory of {place}");
        }
    }
}

#[test]
fn every_grid_gives_the_serial_tensors_and_the_foreseen_messages() {
    let flat = |kernel, stride, pad| {
        let window = Window::new(kernel, stride, pad);
        [Window::POINT, window, window]
    };
    let conv = |c, k, windows| Op::Conv(Conv { c, k, windows, bias: false, algorithm: Algorithm::Auto });
    assert_grids_agree(conv(3, 5, flat(7, 2, 3)), [2, 1, 11, 9, 3], false);
    assert_grids_agree(conv(5, 4, flat(1, 1, 0)), [3, 1, 5, 6, 5], true);
    assert_grids_agree(conv(2, 3, [Window::new(3, 2, 1); 3]), [2, 7, 6, 5, 2], true);
    let pool = |mode| Op::Pool(Pool { mode, windows: [Window::new(2, 2, 0); 3] });
    assert_grids_agree(pool(PoolMode::Max), [2, 8, 7, 6, 3], true);
    assert_grids_agree(pool(PoolMode::Average), [1, 8, 8, 8, 2], true);
    assert_grids_agree(Op::Dense(Dense { c: 6, k: 4, bias: true, bias_init: 0.0 }), [5, 1, 1, 1, 6], true);
}
