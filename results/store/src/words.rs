//! The closed sets of words in a record: each is stored as text, so that a file explains itself.

use std::fmt;

/// Defines an enum whose variants are words: `ALL`, `name()`, `from_name()`, `Display`.
macro_rules! words {
    ($(#[$doc:meta])* $type:ident { $($(#[$item_doc:meta])* $item:ident = $word:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $type { $($(#[$item_doc])* $item,)* }

        impl $type {
            /// Every variant, in the order of the record.
            pub const ALL: &[$type] = &[$($type::$item,)*];

            /// The stored word.
            pub fn name(self) -> &'static str {
                match self { $($type::$item => $word,)* }
            }

            /// The variant of a stored word.
            pub fn from_name(name: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|item| item.name() == name)
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.name())
            }
        }
    };
}

words! {
    /// What a rank's time in one step is split into. `total` of a communication is from its first post to the end of its
    /// wait; `exposed` is the time spent inside communication calls, which compute did not hide. `Step` is the whole step.
    Phase {
        /// Reading or exchanging samples.
        Io = "io",
        /// Forward compute.
        Forward = "forward",
        /// Backward compute.
        Backward = "backward",
        /// Halo exchange, hidden or not.
        HaloTotal = "halo_total",
        /// Halo exchange that compute did not hide.
        HaloExposed = "halo_exposed",
        /// Gradient allreduce, hidden or not.
        GradTotal = "grad_total",
        /// Gradient allreduce that compute did not hide.
        GradExposed = "grad_exposed",
        /// Weight update.
        Optimizer = "optimizer",
        /// The whole step.
        Step = "step",
    }
}

words! {
    /// How the samples came about.
    Source {
        /// A clock on a real run.
        Measured = "measured",
        /// The performance model.
        Predicted = "predicted",
        /// Virtual clocks.
        Simulated = "simulated",
    }
}

words! {
    /// How a case ended.
    Outcome {
        /// It ran, and its check passed if it had one.
        Ok = "ok",
        /// It ran and its check failed.
        Wrong = "wrong",
        /// A rank failed or was killed.
        Failed = "failed",
        /// Memory ran out.
        Oom = "oom",
        /// It took longer than it was given.
        Timeout = "timeout",
        /// A rank stopped answering.
        Hang = "hang",
        /// It needs more memory than there is and was not started.
        WontFit = "wont-fit",
        /// It was not started.
        Skipped = "skipped",
        /// The user stopped it.
        Interrupted = "interrupted",
    }
}

words! {
    /// Why a case is not a standard one. Tables print the marks, figures draw marked points hollow or leave them out.
    Mark {
        /// Fewer steps or repeats than a result needs.
        Quick = "quick",
        /// More ranks than cores.
        Oversubscribed = "oversubscribed",
        /// Not compared with the serial run.
        Unchecked = "unchecked",
    }
}

words! {
    /// Which ranks the per-layer times name.
    Detail {
        /// A column for each rank.
        All = "all",
        /// Three columns: the fastest, the median and the slowest rank of each layer.
        Extremes = "extremes",
        /// No per-layer times.
        None = "none",
    }
}
