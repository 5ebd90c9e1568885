//! Ctrl-C and its relatives as a value to look at.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The signals that stop a sweep: interrupt, terminate, hang-up.
const STOP: [i32; 3] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP];

/// The last signal that came, if any.
#[derive(Clone, Default)]
pub struct Signals(Arc<AtomicUsize>);

impl Signals {
    /// From now on the signals no longer end the program: whoever runs something long asks [`Signals::take`].
    pub fn install() -> io::Result<Signals> {
        let signals = Signals::default();
        for signal in STOP {
            signal_hook::flag::register_usize(signal, signals.0.clone(), signal as usize)?;
        }
        Ok(signals)
    }

    /// The signal that came since the last call.
    pub fn take(&self) -> Option<i32> {
        match self.0.swap(0, Ordering::SeqCst) {
            0 => None,
            signal => i32::try_from(signal).ok(),
        }
    }
}
