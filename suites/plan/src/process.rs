//! What a process asks of the kernel about its relatives.

/// Asks the kernel to kill this process when the process that started it ends, however that ends. Ranks call it first:
/// a launcher that is killed takes its ranks with it.
///
/// Only on Linux; elsewhere it does nothing.
pub fn die_with_parent() {
    #[cfg(target_os = "linux")]
    // SAFETY: prctl with these arguments touches no memory.
    unsafe {
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
    }
}
