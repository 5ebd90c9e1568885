//! Figures for papers: 3.5 inches wide, or 7 with panels side by side, as SVG or PNG by the file's extension.
//!
//! [`kinds`] turns a frame into panels of plain numbers, [`layout`] gives everything its place, [`draw`] puts it on any
//! plotters backend, [`output`] owns the two backends. Styles mean the same in every figure: colour and marker name the problem, a dashed line is predicted, a
//! dash-dotted one simulated, a hollow marker is a point with a mark (oversubscribed, quick), dotted grey is the ideal.

mod axis;
mod canvas;
mod draw;
mod font;
mod kinds;
mod layers;
mod layout;
mod legend;
mod output;
mod panel;
mod series;
#[cfg(test)]
mod tests;

use std::path::Path;
use std::str::FromStr;

use crate::{Error, Frame, Result};

/// What a figure shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Speed-up against ranks, with the ideal line through the baseline.
    Strong,
    /// Time per step against ranks, both logarithmic, with the ideal line of each problem.
    Time,
    /// Weak scaling: time per step and efficiency against ranks.
    Weak,
    /// Training: loss by step or epoch, and the validation error where there is one.
    Loss,
    /// Single layers: time of forward and backward pass against ranks per sample, a row of panels a layer.
    Layers,
}

impl FromStr for Kind {
    type Err = Error;

    fn from_str(word: &str) -> Result<Self, Error> {
        match word {
            "strong" => Ok(Kind::Strong),
            "time" => Ok(Kind::Time),
            "weak" => Ok(Kind::Weak),
            "loss" => Ok(Kind::Loss),
            "layers" => Ok(Kind::Layers),
            _ => Err(Error::Word {
                what: "figure",
                expected: "strong, time, weak, loss or layers",
                got: word.to_owned(),
            }),
        }
    }
}

/// Draws a figure of `frame` into `path` (`*.svg` or `*.png`).
///
/// # Errors
/// [`Error::NothingToDraw`] if no record has what the figure shows (scaling figures need a passed check),
/// [`Error::Word`] for another extension, [`Error::Write`] from the disk.
pub fn plot(frame: &Frame, kind: Kind, path: &Path) -> Result<()> {
    output::write(&kinds::panels(frame, kind)?, path)
}
