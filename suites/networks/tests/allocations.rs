//! A training step allocates nothing after the first: all of its memory is planned or kept. Where ranks send each other
//! messages, these need small allocations each, but their buffers are used again.

use shardmark_comm::{Comm, solo, threads};
use shardmark_host::SOLO;
use shardmark_layers::loss::Loss;
use shardmark_layers::optim::OptimSpec;
use shardmark_networks::{Cosmoflow, Graph, InitScheme, NetPlan, TrainError, Trainer, Variant};
use shardmark_partition::{AxisSet, Grid};
use shardmark_tensor::Block;
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Counts what is asked of the system's allocator.
struct Counting;

static COUNT: AtomicUsize = AtomicUsize::new(0);

/// Bytes of allocations of at least [`LARGE`].
static LARGE_BYTES: AtomicUsize = AtomicUsize::new(0);

/// A page.
const LARGE: usize = 4096;

fn note(size: usize) {
    COUNT.fetch_add(1, Ordering::Relaxed);
    if size >= LARGE {
        LARGE_BYTES.fetch_add(size, Ordering::Relaxed);
    }
}

// SAFETY: all memory is the system allocator's.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note(layout.size());
        // SAFETY: by the contract of this function.
        unsafe { System.alloc(layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        note(size);
        // SAFETY: by the contract of this function.
        unsafe { System.realloc(block, layout, size) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: by the contract of this function.
        unsafe { System.dealloc(block, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

// The one test of this program: others would be counted.
#[test]
fn later_steps_allocate_nothing() {
    one_rank_allocates_nothing();
    two_ranks_use_their_buffers_again();
}

fn network(variant: Variant, norm: Option<AxisSet>) -> Graph {
    let net = Cosmoflow { variant, batch: 2, volume: [32; 3], channels: 4, norm, dropout: Some(0.5), tail: None };
    net.graph().expect("valid")
}

fn trainer<'c>(comm: &'c dyn Comm, graph: Graph, grid: Grid) -> Result<Trainer<'c, f32>, TrainError> {
    let adam = OptimSpec::Adam { lr: 1e-4, beta1: 0.9, beta2: 0.999, eps: 1e-8, weight_decay: 0.0 };
    Trainer::new(comm, &SOLO, NetPlan::new(graph, grid), Loss::Mse, adam, InitScheme::He, 7)
}

fn step(trainer: &mut Trainer<'_, f32>, target: &Block<f32>) -> Result<(), TrainError> {
    trainer.clock.reset();
    let mut input = trainer.input_block();
    input.data_mut().fill(0.5);
    trainer.train_step(input, target).map(|_| ())
}

fn one_rank_allocates_nothing() {
    let mut counts = Vec::new();
    for (variant, norm) in
        [(Variant::Paper2020, None), (Variant::Paper2020, Some(AxisSet::ALL)), (Variant::MlPerf, None)]
    {
        let comm = solo();
        let mut trainer = trainer(&comm, network(variant, norm), Grid::single()).expect("valid");
        let target = Block::zeros(trainer.target_region());
        let mut before = 0;
        for _ in 0..3 {
            before = COUNT.load(Ordering::Relaxed);
            step(&mut trainer, &target).expect("trains");
        }
        let count = COUNT.load(Ordering::Relaxed) - before;
        if count > 0 {
            counts.push(format!("{variant:?}, norm {norm:?}: {count}"));
        }
    }
    assert!(counts.is_empty(), "{counts:#?}");
}

/// How many buffers are on their way at once depends on who is ahead, so that a later step may need more than all before
/// it. Buffers that were not used again would be allocated in every series of steps.
fn two_ranks_use_their_buffers_again() {
    for grid in ["1x2x1x1", "1x1x1x2", "2x1x1x1"] {
        let parsed: Grid = grid.parse().expect("valid");
        let graph = network(Variant::Paper2020, Some(AxisSet::ALL));
        let run = |comm: &dyn Comm| {
            let mut trainer = trainer(comm, graph.clone(), parsed)?;
            let target = Block::zeros(trainer.target_region());
            let mut least = usize::MAX;
            for series in 0..=SERIES {
                comm.barrier()?;
                let before = LARGE_BYTES.load(Ordering::Relaxed);
                comm.barrier()?;
                for _ in 0..STEPS {
                    step(&mut trainer, &target)?;
                }
                comm.barrier()?;
                if series > 0 {
                    least = least.min(LARGE_BYTES.load(Ordering::Relaxed) - before);
                }
            }
            Ok::<_, TrainError>(least)
        };
        let bytes = threads::run(2, &threads::Options::default(), run).expect("trains")[0];
        assert!(bytes < FEW_BUFFERS, "{grid}: at least {bytes} bytes in {STEPS} steps");
    }
}

/// A fraction of what the ranks send each other in a series.
const FEW_BUFFERS: usize = 512 << 10;

/// Series of steps after the first, of which one allocates few buffers.
const SERIES: usize = 4;

/// Steps of a series.
const STEPS: usize = 8;
