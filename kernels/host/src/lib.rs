//! What a rank takes from its host: memory, in huge pages, and a team of threads.

mod huge;
mod memory;
mod team;

pub use huge::HugePages;
pub use memory::{Memory, Shortage};
pub use team::{MOST_THREADS, PerThread, SOLO, SharedMut, Team, TeamError};
