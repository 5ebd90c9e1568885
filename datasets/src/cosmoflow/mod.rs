//! Volumes of the CosmoFlow workload: simulated, stored as HDF5, read in parts.
//!
//! One file is one sample, as the existing tools expect it (LBANN's HDF5 reader; MLPerf HPC's `prepare.py`, which takes the
//! channels last; both orders are read):
//!
//! | name      | type, shape                          | content                                                       |
//! | --------- | ------------------------------------ | ------------------------------------------------------------- |
//! | `full`    | i16 or f32 `[C, D, H, W]`            | density times attribute `scale` (1 without it), one channel a redshift |
//! | `unitPar` | f32 `[4]`                            | parameters mapped to `[-1, 1]`: what a network predicts       |
//! | `physPar` | f32 `[4]`                            | the parameters themselves                                     |
//! | `namePar` | strings `[4]`                        | their names                                                   |
//!
//! Attributes of the root tell where a file comes from: `generator`, `index`, `seed`, `redshifts`, `side_mpc_h`, `omega_b`.
//! A folder that [`make`] wrote has `dataset.toml` (the [`DatasetSpec`]) and the folders `train`, `validation` and `test`.

mod dataset;
mod file;
mod inspect;
mod make;
mod spec;
#[cfg(test)]
mod tests;

pub use dataset::{Dataset, Options, Split, Transform};
pub use file::Dtype;
pub use inspect::{Channel, Summary, inspect};
pub use make::make;
pub use spec::{DatasetSpec, NAMES, Ranges, Samples};
