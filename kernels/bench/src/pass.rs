//! The passes that are timed.

use std::fmt;

/// A pass of a layer, or the update of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pass {
    /// Outputs.
    Forward,
    /// Input gradients.
    BackwardData,
    /// Parameter gradients.
    BackwardParams,
    /// All gradients that training needs of the layer, as frameworks compute them in one call.
    Backward,
    /// An optimizer's update.
    Update,
}

impl Pass {
    /// Name on command lines and in tables.
    pub fn name(self) -> &'static str {
        match self {
            Pass::Forward => "forward",
            Pass::BackwardData => "backward_data",
            Pass::BackwardParams => "backward_params",
            Pass::Backward => "backward",
            Pass::Update => "update",
        }
    }
}

impl fmt::Display for Pass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What a pass has to do: the measure of its speed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Amount {
    /// Floating-point operations; a multiply-add is two.
    Flops(u64),
    /// Bytes of main memory that the pass cannot do without.
    Bytes(u64),
}

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Amount::Flops(flops) => write!(f, "flops={flops}"),
            Amount::Bytes(bytes) => write!(f, "bytes={bytes}"),
        }
    }
}
