//! Faults on purpose, to test what supervises a case: `SHARDMARK_FAULT=<kind>@<rank>:<step>`.

use shardmark_comm::Comm;
use std::time::Duration;

/// A fault of one rank at the start of one step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    kind: Kind,
    rank: usize,
    step: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// A bug.
    Panic,
    /// A rank that answers no more.
    Hang,
    /// The process is stopped, as by a debugger.
    Stop,
    /// The process is killed.
    Kill,
    /// The process leaves without a word.
    Exit,
}

impl Fault {
    /// The fault that the environment asks for; text of another form is none.
    pub fn from_environment() -> Option<Fault> {
        Fault::parse(&std::env::var("SHARDMARK_FAULT").ok()?)
    }

    fn parse(text: &str) -> Option<Fault> {
        let (kind, place) = text.split_once('@')?;
        let (rank, step) = place.split_once(':')?;
        let kind = match kind {
            "panic" => Kind::Panic,
            "hang" => Kind::Hang,
            "stop" => Kind::Stop,
            "kill" => Kind::Kill,
            "exit" => Kind::Exit,
            _ => return None,
        };
        Some(Fault { kind, rank: rank.parse().ok()?, step: step.parse().ok()? })
    }

    /// Strikes if this is the rank and the step.
    pub fn strike(&self, comm: &dyn Comm, step: usize) {
        if (comm.rank(), step) != (self.rank, self.step) {
            return;
        }
        match self.kind {
            Kind::Panic => panic!("a fault was asked for"),
            Kind::Hang => loop {
                std::thread::sleep(Duration::from_secs(3600));
            },
            Kind::Stop => raise(libc::SIGSTOP),
            Kind::Kill => raise(libc::SIGKILL),
            Kind::Exit => std::process::exit(7),
        }
    }
}

fn raise(signal: i32) {
    // SAFETY: raising a signal touches no memory of this process.
    unsafe { libc::raise(signal) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_requests_are_faults() {
        assert_eq!(Fault::parse("panic@1:2"), Some(Fault { kind: Kind::Panic, rank: 1, step: 2 }));
        for text in ["", "panic", "panic@1", "panic@a:1", "melt@0:0"] {
            assert_eq!(Fault::parse(text), None, "{text}");
        }
    }
}
