//! What a rank with a core of its own does between two looks for a message.

/// Looks before it does anything that lets others have the core: some milliseconds. Who takes it may keep it for as long as
/// many a step's waits together.
const LOOKS: u32 = 20_000;

/// Whether look `round` of a wait is to be followed by the next one at once, after a pause of some cycles.
pub fn spin(round: u32) -> bool {
    std::hint::spin_loop();
    round < LOOKS
}
