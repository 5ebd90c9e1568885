//! Which keys mean something to a case.
//!
//! A key that changes nothing has its default: else two lines would describe the same work, with two hashes. A line that
//! gives it another value is refused, like an unknown key. A suite whose lists multiply out to cases of several kinds may
//! have it if one of them uses it; it is dropped from the others.

use crate::case::{Case, conflict};
use crate::error::PlanError;
use crate::keys::{KEYS, Key};
use crate::value::{Input, Optimizer, Value, Workload};

/// What only networks have.
const NETWORK: [&str; 17] = [
    "net",
    "norm",
    "conv",
    "optimizer",
    "lr",
    "momentum",
    "beta1",
    "beta2",
    "eps",
    "loss",
    "init",
    "dropout",
    "tail",
    "input",
    "transform",
    "epochs",
    "validate",
];

/// What only computation has.
const COMPUTE: [&str; 2] = ["seed", "detail"];

impl Workload {
    /// Whether a key changes nothing about it, whatever the other keys are.
    fn ignores(&self, key: &str) -> bool {
        match self {
            Workload::Cosmoflow => key == "bytes",
            Workload::Layer(line) if key == "norm" => !line.starts_with("batch_norm"),
            Workload::Layer(line) if key == "conv" => !line.starts_with("conv"),
            Workload::Layer(_) => ["bytes", "width", "channels"].contains(&key) || NETWORK.contains(&key),
            Workload::Allreduce => {
                ["width", "channels", "batch"].contains(&key) || NETWORK.contains(&key) || COMPUTE.contains(&key)
            }
            Workload::Halo => key == "bytes" || NETWORK.contains(&key) || COMPUTE.contains(&key),
        }
    }
}

impl Case {
    /// The setting beside which a key changes nothing, as it stands in a line; `None` if the key means something.
    pub fn idle_beside(&self, key: &str) -> Option<String> {
        if self.workload.ignores(key) {
            return Some(self.workload.print());
        }
        let beside = match key {
            "momentum" if self.optimizer != Optimizer::Sgd => "optimizer",
            "beta1" | "beta2" | "eps" if self.optimizer != Optimizer::Adam => "optimizer",
            "transform" if self.input == Input::Synthetic => "input",
            "validate" if self.epochs == 0 => "epochs",
            "steps" | "repeat" if self.epochs > 0 => "epochs",
            _ => return None,
        };
        KEYS.iter().find(|key| key.name == beside).map(|key| format!("{beside}={}", (key.get)(self)))
    }

    /// Refuses values of keys that change nothing.
    pub(crate) fn validate_meaning(&self) -> Result<(), PlanError> {
        KEYS.iter().try_for_each(|key| self.refuse(key, &(key.get)(self)))
    }

    /// Refuses a value of a key that changes nothing here.
    pub(crate) fn refuse(&self, key: &Key, value: &str) -> Result<(), PlanError> {
        match self.idle_beside(key.name) {
            Some(beside) if value != key.default() => {
                let expected = format!("no value beside {beside}, where it changes nothing");
                conflict(key.name, &expected, value, "leave it out")
            }
            _ => Ok(()),
        }
    }

    /// The case with the defaults of all keys that change nothing.
    pub(crate) fn without_idle_keys(mut self) -> Case {
        for key in KEYS {
            if self.idle_beside(key.name).is_some() {
                // A key reads its own default.
                (key.set)(&mut self, &key.default());
            }
        }
        self
    }
}
