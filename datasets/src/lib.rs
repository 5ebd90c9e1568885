//! Generators and readers of the data that the workloads train on.

pub mod cosmology;
pub mod field;
mod parallel;
mod random;
pub mod universe;
