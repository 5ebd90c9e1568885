//! Where the time of a step went, phase by phase and layer by layer.

use std::time::Instant;

/// Seconds of one step on one rank.
///
/// Exposed time is all time the rank's compute thread spends inside communication calls (post, pack, progress, wait,
/// unpack); total time runs from the start of a transfer to its end, hidden or not.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Phases {
    /// Forward pass, exposed halos included.
    pub forward: f64,
    /// Backward pass, exposed halos and gradients included.
    pub backward: f64,
    /// Halos and redistributions, from first post to last arrival.
    pub halo_total: f64,
    /// Time inside calls for them, collectives of layers included.
    pub halo_exposed: f64,
    /// Gradient reductions, from start to end.
    pub grad_total: f64,
    /// Time inside calls for them.
    pub grad_exposed: f64,
    /// Parameter update.
    pub optimizer: f64,
    /// The whole step.
    pub step: f64,
}

impl Phases {
    /// Adds time that a layer spent in its own collectives, which hide nothing.
    pub(crate) fn add_halo(&mut self, seconds: f64) {
        self.halo_exposed += seconds;
        self.halo_total += seconds;
    }
}

/// Seconds of one layer in one step on one rank.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LayerSeconds {
    /// Forward.
    pub forward: f64,
    /// Data gradient.
    pub backward_data: f64,
    /// Parameter gradient.
    pub backward_params: f64,
}

/// Collects the seconds of the current step.
#[derive(Clone, Debug, Default)]
pub struct Clock {
    /// By phase.
    pub phases: Phases,
    /// By layer.
    pub layers: Vec<LayerSeconds>,
}

impl Clock {
    /// A clock for a network of `layers` layers.
    pub fn new(layers: usize) -> Self {
        Clock { phases: Phases::default(), layers: vec![LayerSeconds::default(); layers] }
    }

    /// Starts a new step.
    pub fn reset(&mut self) {
        self.phases = Phases::default();
        self.layers.fill(LayerSeconds::default());
    }
}

/// Adds the seconds since `start` to `sum`.
pub(crate) fn lap(start: Instant, sum: &mut f64) {
    *sum += start.elapsed().as_secs_f64();
}
