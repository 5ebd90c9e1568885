//! The kernels: layers forward and backward, losses and optimizers, each with its frozen plain reference.
//!
//! Every layer is a slice of its own: a shape-only spec, a `reference` (plain loops in f64, never made faster), `local`
//! kernels on channels-last [`Block`](shardmark_tensor::Block)s, the [`Layer`] that a rank runs, and tests. Local
//! kernels take an output sub-box in global coordinates and find their inputs, halo and padding included, in place:
//! they never special-case a border and know nothing of ranks.
//!
//! Letters: N batch, C and K channels in and out, D H W volume, KD KH KW filter.

pub mod activation;
pub mod conv;
pub mod dense;
pub mod dropout;
pub mod layer;
mod lines;
pub mod loss;
pub mod norm;
pub mod optim;
pub mod pool;
mod problem;
pub mod share;
#[cfg(test)]
mod shared_tests;
mod simd;
pub mod spec;
mod store;
#[cfg(test)]
mod testing;

pub use layer::{Env, Groups, Layer, LayerError, Param};
pub use share::{Samples, ShareLayer};
pub use spec::{Collective, GradientHalo, Init, Op, ParamSpec, SpecError};

/// Element type that layers compute in and ranks exchange.
pub trait Float: shardmark_tensor::Real + shardmark_comm::Elem {}
impl<T: shardmark_tensor::Real + shardmark_comm::Elem> Float for T {}
