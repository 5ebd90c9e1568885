//! Exit codes: of the rank program, and of the program `shardmark`.

/// How the rank program ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum RankExit {
    /// The case ran and its check passed.
    Ok = 0,
    /// Wrong arguments, a wrong case line or a wrong reference file.
    Usage = 2,
    /// The case ran and its check failed.
    Wrong = 10,
    /// The watchdog found a rank that waits too long.
    Hang = 11,
    /// The tensors of the case need more memory than there is; nothing was run.
    WontFit = 12,
    /// An allocation failed.
    OutOfMemory = 13,
    /// Anything else.
    Failed = 1,
}

/// How the program `shardmark` ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// All is well.
    Ok = 0,
    /// A check, a case or a gate failed.
    Failed = 1,
    /// Wrong arguments, a wrong suite or another wrong input.
    Usage = 2,
    /// Nothing to compare with.
    NoBaseline = 3,
    /// The sweep has cases without a result.
    Incomplete = 4,
    /// A case took longer than its `timeout`.
    Timeout = 124,
    /// Stopped by a signal.
    Interrupted = 130,
}

impl From<RankExit> for std::process::ExitCode {
    fn from(exit: RankExit) -> Self {
        (exit as u8).into()
    }
}

impl From<Exit> for std::process::ExitCode {
    fn from(exit: Exit) -> Self {
        (exit as u8).into()
    }
}
