//! A training step allocates nothing after the first: all of its memory is planned or kept.

use shardmark_comm::solo;
use shardmark_host::SOLO;
use shardmark_layers::loss::Loss;
use shardmark_layers::optim::OptimSpec;
use shardmark_networks::{Cosmoflow, InitScheme, NetPlan, Trainer, Variant};
use shardmark_partition::{AxisSet, Grid};
use shardmark_tensor::Block;
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Counts what is asked of the system's allocator.
struct Counting;

static COUNT: AtomicUsize = AtomicUsize::new(0);

// SAFETY: all memory is the system allocator's.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        COUNT.fetch_add(1, Ordering::Relaxed);
        // SAFETY: by the contract of this function.
        unsafe { System.alloc(layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        COUNT.fetch_add(1, Ordering::Relaxed);
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
fn the_third_step_allocates_nothing() {
    let adam = OptimSpec::Adam { lr: 1e-4, beta1: 0.9, beta2: 0.999, eps: 1e-8, weight_decay: 0.0 };
    let mut counts = Vec::new();
    for (variant, norm) in
        [(Variant::Paper2020, None), (Variant::Paper2020, Some(AxisSet::ALL)), (Variant::MlPerf, None)]
    {
        let net = Cosmoflow { variant, batch: 2, volume: [32; 3], channels: 4, norm, dropout: Some(0.5), tail: None };
        let plan = NetPlan::new(net.graph().expect("valid"), Grid::single());
        let comm = solo();
        let mut trainer = Trainer::<f32>::new(&comm, &SOLO, plan, Loss::Mse, adam, InitScheme::He, 7).expect("valid");
        let target = Block::zeros(trainer.target_region());
        let mut before = 0;
        for _ in 0..3 {
            before = COUNT.load(Ordering::Relaxed);
            trainer.clock.reset();
            let mut input = trainer.input_block();
            input.data_mut().fill(0.5);
            trainer.train_step(input, &target).expect("trains");
        }
        let count = COUNT.load(Ordering::Relaxed) - before;
        if count > 0 {
            counts.push(format!("{variant:?}, norm {norm:?}: {count}"));
        }
    }
    assert!(counts.is_empty(), "{counts:#?}");
}
