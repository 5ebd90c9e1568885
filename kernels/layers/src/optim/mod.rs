//! Optimizers: SGD with momentum, and Adam, with PyTorch's formulas in the same order of operations.
//!
//! ```text
//! SGD   g += weight_decay * p;  b = momentum * b + g;  p -= lr * b                                    (b starts as 0)
//! Adam  g += weight_decay * p;  m += (1 - beta1) * (g - m);  v = beta2 * v + (1 - beta2) * g * g;
//!       p -= lr / (1 - beta1^t) * m / (sqrt(v) / sqrt(1 - beta2^t) + eps)
//! ```
//!
//! Adam: Kingma and Ba 2015, arXiv 1412.6980, algorithm 1, with the corrections of m and v pulled apart. All is
//! element by element and without fused operations: equal gradients give equal bits, however they are chunked.

mod local;
pub mod reference;
#[cfg(test)]
mod tests;

use crate::Float;
use shardmark_host::{SharedMut, Team};

/// An optimizer with its settings.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum OptimSpec {
    /// Stochastic gradient descent.
    Sgd {
        /// Learning rate.
        lr: f64,
        /// Momentum; 0 for none.
        momentum: f64,
        /// Weight decay, added to the gradient.
        weight_decay: f64,
    },
    /// Adam.
    Adam {
        /// Learning rate.
        lr: f64,
        /// Decay of the mean of gradients.
        beta1: f64,
        /// Decay of the mean of squared gradients.
        beta2: f64,
        /// Added outside the root.
        eps: f64,
        /// Weight decay, added to the gradient.
        weight_decay: f64,
    },
}

impl OptimSpec {
    /// Names of the values kept for each parameter element, as PyTorch's state has them.
    pub fn state_names(&self) -> &'static [&'static str] {
        match self {
            OptimSpec::Sgd { momentum: 0.0, .. } => &[],
            OptimSpec::Sgd { .. } => &["momentum_buffer"],
            OptimSpec::Adam { .. } => &["exp_avg", "exp_avg_sq"],
        }
    }
}

/// Elements of a part of a job.
const CHUNK: usize = 1 << 15;

/// One step of an optimizer.
enum Update<T> {
    /// SGD without momentum.
    Sgd(local::SgdFactors<T>),
    /// SGD with momentum.
    Momentum(local::SgdFactors<T>),
    /// Adam.
    Adam(local::AdamFactors<T>),
}

/// An optimizer with the state of its parameters.
#[derive(Clone, Debug)]
pub struct Optimizer<T> {
    spec: OptimSpec,
    steps: u64,
    /// `[parameter][name of the state][element]`.
    state: Vec<Vec<Vec<T>>>,
}

impl<T: Float> Optimizer<T> {
    /// An optimizer for parameters of the given lengths, before its first step.
    pub fn new(spec: OptimSpec, lens: &[usize]) -> Self {
        let state = lens.iter().map(|&len| spec.state_names().iter().map(|_| vec![T::ZERO; len]).collect());
        Optimizer { spec, steps: 0, state: state.collect() }
    }

    /// The settings.
    pub fn spec(&self) -> &OptimSpec {
        &self.spec
    }

    /// Begins the next step; [`Optimizer::step`] follows once for each parameter, in any order.
    pub fn begin_step(&mut self) {
        self.steps += 1;
    }

    /// Updates parameter `i`; `value` and `grad` have its length.
    pub fn step(&mut self, team: &Team, i: usize, value: &mut [T], grad: &[T]) {
        debug_assert_eq!(value.len(), grad.len(), "parameter {i} and its gradient");
        let (len, value) = (value.len(), SharedMut::new(value));
        let update = self.update();
        let mut state = self.state[i].iter_mut().map(|values| SharedMut::new(values));
        let state = [state.next(), state.next()];
        team.run(len.div_ceil(CHUNK), |_, chunk| {
            let range = chunk * CHUNK..len.min((chunk + 1) * CHUNK);
            let grad = &grad[range.clone()];
            // SAFETY: each chunk is given out once, and chunks do not overlap.
            let value = unsafe { value.part(range.clone()) };
            // SAFETY: as above.
            let [first, second] = state.map(|s| s.map_or(&mut [][..], |s| unsafe { s.part(range.clone()) }));
            match &update {
                Update::Sgd(factors) => local::sgd(factors, value, grad),
                Update::Momentum(factors) => local::momentum(factors, value, grad, first),
                Update::Adam(factors) => local::adam(factors, value, grad, first, second),
            }
        });
    }

    /// The factors of this step.
    fn update(&self) -> Update<T> {
        match self.spec {
            OptimSpec::Sgd { lr, momentum, weight_decay } => {
                let [lr, factor, weight_decay] = [lr, momentum, weight_decay].map(T::from_f64);
                let factors = local::SgdFactors { lr, momentum: factor, weight_decay };
                if momentum == 0.0 { Update::Sgd(factors) } else { Update::Momentum(factors) }
            }
            OptimSpec::Adam { lr, beta1, beta2, eps, weight_decay } => {
                let t = self.steps as i32;
                Update::Adam(local::AdamFactors {
                    weight_decay: T::from_f64(weight_decay),
                    one_minus_beta1: T::from_f64(1.0 - beta1),
                    beta2: T::from_f64(beta2),
                    one_minus_beta2: T::from_f64(1.0 - beta2),
                    minus_step: T::from_f64(-lr / (1.0 - beta1.powi(t))),
                    root_correction: T::from_f64((1.0 - beta2.powi(t)).sqrt()),
                    eps: T::from_f64(eps),
                })
            }
        }
    }

    /// Steps begun so far.
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// Sets the number of steps, with the state of a checkpoint.
    pub fn set_steps(&mut self, steps: u64) {
        self.steps = steps;
    }

    /// State of parameter `i` by PyTorch's names.
    pub fn state(&self, i: usize) -> Vec<(&'static str, &[T])> {
        self.spec.state_names().iter().copied().zip(self.state[i].iter().map(Vec::as_slice)).collect()
    }

    /// The same, to be changed.
    pub fn state_mut(&mut self, i: usize) -> Vec<(&'static str, &mut [T])> {
        self.spec.state_names().iter().copied().zip(self.state[i].iter_mut().map(Vec::as_mut_slice)).collect()
    }
}
