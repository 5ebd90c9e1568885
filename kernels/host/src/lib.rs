//! What a rank takes from its host: memory in huge pages, and a team of threads.

mod huge;
mod team;

pub use huge::HugePages;
pub use team::{PerThread, SOLO, SharedMut, Team};
