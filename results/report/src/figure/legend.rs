//! The legend: its entries, and a place where it hides nothing.

use plotters::style::RGBColor;

use super::font;
use super::layout::{Area, GAP, LABEL, Place};
use super::panel::{Marker, Panel, Pattern};

/// Height of a row, points.
pub const ROW: f64 = 9.5;
/// Length of the line sample, points.
pub const SAMPLE: f64 = 17.0;
/// Space around the entries, points.
pub const PAD: f64 = 3.0;

/// Colour of references.
pub const GREY: RGBColor = RGBColor(110, 110, 110);

/// One row of a legend.
pub struct Entry<'a> {
    /// The name.
    pub text: &'a str,
    /// Colour of line and marker.
    pub colour: RGBColor,
    /// Pattern of the line sample; none for a bare marker.
    pub dash: Option<Pattern>,
    /// Marker on it.
    pub marker: Option<Marker>,
    /// Whether the marker is hollow.
    pub hollow: bool,
}

/// Where a legend goes.
#[derive(Clone, Copy, Debug)]
pub struct Legend {
    /// Upper left corner on the page.
    pub corner: (f64, f64),
    /// Width and height.
    pub size: (f64, f64),
    /// Number of columns.
    pub columns: usize,
    /// Inside the axes, on a white ground.
    pub boxed: bool,
}

/// The entries of a panel: curves, references, and what hollow means.
pub fn entries(panel: &Panel) -> Vec<Entry<'_>> {
    let curves = panel.curves.iter().filter_map(|curve| {
        let (text, style) = (curve.label.as_deref()?, curve.style);
        Some(Entry { text, colour: style.colour, dash: Some(style.dash), marker: style.marker, hollow: false })
    });
    let references = panel.references.iter().filter_map(|reference| {
        let text = reference.label.as_deref()?;
        Some(Entry { text, colour: GREY, dash: Some(Pattern::Dotted), marker: None, hollow: false })
    });
    let hollow = panel.hollow.iter().map(|text| Entry {
        text,
        colour: GREY,
        dash: None,
        marker: Some(Marker::Circle),
        hollow: true,
    });
    curves.chain(references).chain(hollow).collect()
}

/// A legend for the panel at `place`: in a corner of the axes where it hides nothing, else in rows above them, whose height
/// the caller has to add. `None` if there is nothing to tell apart.
pub fn find(place: &Place<'_>) -> Option<Legend> {
    let entries = entries(place.panel);
    if entries.len() < 2 && place.panel.hollow.is_none() {
        return None;
    }
    let widest = entries.iter().map(|entry| font::width(entry.text, LABEL)).fold(0.0, f64::max);
    let column = SAMPLE + GAP + widest + 2.0 * PAD;
    let Area { left, top, right, bottom } = place.area;
    let size = (column, entries.len() as f64 * ROW + PAD);
    let edge = 3.0;
    let (far, low) = (right - edge - size.0, bottom - edge - size.1);
    let corners = [(left + edge, top + edge), (far, top + edge), (far, low), (left + edge, low)];
    let ink = place.ink();
    let hides = |corner: (f64, f64)| {
        ink.iter().any(|&(x, y)| {
            x > corner.0 - 2.0 && x < corner.0 + size.0 + 2.0 && y > corner.1 - 2.0 && y < corner.1 + size.1 + 2.0
        })
    };
    let fits = size.0 < 0.7 * (right - left) && size.1 < 0.6 * (bottom - top);
    if let (true, Some(&corner)) = (fits, corners.iter().find(|&&corner| !hides(corner))) {
        return Some(Legend { corner, size, columns: 1, boxed: true });
    }
    let columns = (((right - left) / column).floor() as usize).clamp(1, entries.len());
    let rows = entries.len().div_ceil(columns);
    let size = (column * columns as f64, rows as f64 * ROW + PAD);
    Some(Legend { corner: (left, top), size, columns, boxed: false })
}
