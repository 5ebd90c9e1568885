//! Records to tables and figures. The only crate with polars and plotters.
//!
//! [`load`] reads the records of a folder into a [`Frame`]: a tidy polars table of samples, and one [`Row`] a record with
//! the step time aggregated as max over ranks, median over timed steps, median over repeats, and set against the smallest
//! rank count of the same problem. [`table`] prints it as text, CSV or Markdown; [`plot`] draws it as SVG or PNG.
//!
//! A case that failed is shown by its outcome, never as a number; figures draw only results (ended well, check passed).

mod aggregate;
mod error;
mod figure;
mod frame;
mod problem;
mod scaling;
mod stats;
mod table;
#[cfg(test)]
mod tests;

pub use error::{Error, Result};
pub use figure::{Kind, plot};
pub use frame::{Frame, load};
pub use scaling::Row;
pub use stats::{Interval, IntervalKind};
pub use table::{Format, table};
