//! What a rank with a core of its own does between two looks for a message.

/// Polls before the core is offered to others: some ten microseconds.
const FAST_POLLS: u32 = 100;

/// Pauses before poll `round` of a wait: at first hardly, then giving the core away.
pub fn pause(round: u32) {
    if round < FAST_POLLS { std::hint::spin_loop() } else { std::thread::yield_now() }
}
