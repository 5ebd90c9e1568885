//! Samples and targets of a step: synthetic ones, or a rank's own box of each file.

use crate::error::RankError;
use crate::samples::Samples;
use shardmark_comm::Comm;
use shardmark_networks::NetPlan;
use shardmark_partition::{Coords, Dim, Region, Shape};
use shardmark_plan::Case;
use shardmark_plan::value::Input;
use shardmark_tensor::{Block, rng};

/// Streams of random numbers that no layer uses.
const INPUT_STREAM: u64 = 1 << 40;
const TARGET_STREAM: u64 = INPUT_STREAM + 1;

/// Where a rank's samples come from.
pub enum Source {
    /// The same random batch in every step, made once: nothing but the training step is timed.
    Synthetic {
        /// Input with its halo.
        input: Block<f32>,
        /// Targets of the rank's samples at the end of the network.
        target: Block<f32>,
    },
    /// Files.
    Files(Box<Samples>),
}

impl Source {
    /// Opens the source of a case for one rank. Collective: ranks agree that all could open it.
    ///
    /// # Errors
    /// When the dataset cannot be read or does not fit the network.
    pub fn open(case: &Case, plan: &NetPlan, comm: &dyn Comm) -> Result<Source, RankError> {
        let at = plan.grid.coords(comm.rank());
        let (input, target) = regions(plan, &at);
        match &case.input {
            Input::Synthetic => Ok(Source::Synthetic {
                input: synthetic_input(plan, &input, case.seed),
                target: synthetic_target(plan, &target, case.seed),
            }),
            Input::Dataset(dir) => {
                let samples = Samples::open(case, plan, dir.as_ref(), &at);
                Ok(Source::Files(Box::new(shardmark_comm::agree(comm, samples)?)))
            }
        }
    }

    /// Fills `input` with the samples of step `step`, counted from 0 through epochs, and gives their targets.
    ///
    /// # Errors
    /// When some rank cannot read a sample.
    pub fn load(&mut self, comm: &dyn Comm, step: u64, input: &mut Block<f32>) -> Result<Block<f32>, RankError> {
        match self {
            Source::Synthetic { input: made, target } => {
                input.data_mut().copy_from_slice(made.data());
                Ok(target.clone())
            }
            Source::Files(samples) => samples.load(comm, step, input),
        }
    }
}

/// Regions of the input and of the targets of a rank.
pub fn regions(plan: &NetPlan, at: &Coords) -> (Region, Region) {
    (plan.layer(0).x_block(&plan.grid, at), plan.own_output(at))
}

/// Standard normal values by global index, rounded to f32; the border is left at zero.
pub fn synthetic_input(plan: &NetPlan, region: &Region, seed: u64) -> Block<f32> {
    normals(plan.graph.input(), region, seed, INPUT_STREAM)
}

/// The gradient of a lone layer's output, made like the input.
pub fn synthetic_gradient(plan: &NetPlan, region: &Region, seed: u64) -> Block<f32> {
    normals(plan.graph.output(), region, seed, TARGET_STREAM)
}

fn normals(shape: Shape, region: &Region, seed: u64, stream: u64) -> Block<f32> {
    let inside = Region::full(shape);
    Block::from_fn(*region, |at| {
        if !(0..5).all(|i| (inside.0[i].lo..inside.0[i].hi).contains(&at[i])) {
            return 0.0;
        }
        let index = (0..5).fold(0, |index, i| index * shape[i] as u64 + at[i] as u64);
        rng::normal(seed, stream, index) as f32
    })
}

/// Uniform values in [-1, 1) by sample and output.
pub fn synthetic_target(plan: &NetPlan, region: &Region, seed: u64) -> Block<f32> {
    let outputs = plan.graph.output()[Dim::C as usize] as i64;
    Block::from_fn(*region, |[n, .., c]| {
        (2.0 * rng::uniform(seed, TARGET_STREAM, (n * outputs + c) as u64) - 1.0) as f32
    })
}
