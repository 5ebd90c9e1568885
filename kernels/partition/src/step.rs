//! Steps: what one rank does in one training step, as a lazy list without a single tensor.
//!
//! A Step names work and its dependencies. The executor of a real run performs the same transfers and collectives from
//! the same values, the counted communicator holds a run against them, a cost model adds them up and a simulator plays
//! them.

use crate::grid::AxisSet;
use crate::region::Shape;
use std::ops::Range;

/// Number of a Step within one rank's list.
pub type StepId = u64;

/// Part of a training step.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub enum Pass {
    /// Input of the samples.
    Input,
    /// Forward.
    Forward,
    /// Backward: data and parameter gradients.
    Backward,
    /// Parameter update.
    Update,
}

/// Which piece of a layer's work.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub enum Part {
    /// All of it.
    Whole,
    /// Outputs that need no halo.
    Interior,
    /// Outputs that wait for a halo.
    Side,
    /// A gradient bucket.
    Bucket(u32),
}

/// What kind of resource carries the Step; Steps of one stream run in order.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub enum Stream {
    /// The rank's cores.
    Compute,
    /// Point-to-point messages of activations and their gradients.
    Halo,
    /// Gradient reductions.
    Gradient,
    /// Input and output.
    Io,
}

/// The kinds of collective operations.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub enum CollectiveKind {
    /// Element-wise reduction, result on all.
    AllReduce,
    /// Ordered merge of records along a tree, result on all.
    TreeAllReduce,
    /// Element-wise reduction, a part of the result on each.
    ReduceScatter,
    /// The parts of all, on all.
    AllGather,
}

/// What a Step does.
#[derive(Clone, PartialEq, Debug)]
pub enum Work {
    /// A local kernel over an output of `shape`.
    Compute {
        /// Name of the kernel.
        kernel: &'static str,
        /// Extents `[N, D, H, W, C]` of the part that is computed.
        shape: Shape,
        /// Floating-point operations.
        flops: u64,
        /// Bytes read and written at least once.
        bytes: u64,
    },
    /// A message to `peer`.
    Send {
        /// Receiving rank.
        peer: usize,
        /// Key of the transfer.
        key: u32,
        /// Payload.
        bytes: u64,
    },
    /// A message from `peer`.
    Recv {
        /// Sending rank.
        peer: usize,
        /// Key of the transfer.
        key: u32,
        /// Payload.
        bytes: u64,
    },
    /// A collective over the ranks that differ along `group` only.
    Collective {
        /// Axes that vary inside the group.
        group: AxisSet,
        /// Operation.
        kind: CollectiveKind,
        /// Payload of one rank.
        bytes: u64,
    },
    /// Reading samples.
    Io {
        /// Bytes read from files.
        bytes: u64,
    },
    /// Memory taken.
    Alloc {
        /// Size.
        bytes: u64,
    },
    /// Memory given back.
    Free {
        /// Size.
        bytes: u64,
    },
    /// `body` executed `count` times (micro-batches, time steps).
    Repeat {
        /// Repetitions.
        count: u64,
        /// What is repeated.
        body: Vec<Step>,
    },
}

/// One Step of one rank.
#[derive(Clone, PartialEq, Debug)]
pub struct Step {
    /// Number, increasing along the list.
    pub id: StepId,
    /// Index of the layer in the network.
    pub layer: usize,
    /// Pass.
    pub pass: Pass,
    /// Piece of the layer.
    pub part: Part,
    /// Resource.
    pub stream: Stream,
    /// Steps that must have ended before this one starts, as ranges of numbers.
    pub after: Vec<Range<StepId>>,
    /// What is done.
    pub work: Work,
}
