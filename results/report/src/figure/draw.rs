//! Panels on a canvas: frame, ticks, labels, curves, legend.

use plotters::prelude::*;
use plotters::style::text_anchor::HPos;

use super::axis::{Axis, Tick};
use super::canvas::Canvas;
use super::font;
use super::layout::{Area, GAP, LABEL, Layout, Place, TICK, TITLE, X_LABELS};
use super::legend::{self, Legend};
use super::panel::{Curve, Pattern, Point};
use crate::Result;

// Line widths and marker size in points.
const FRAME_LINE: f64 = 0.6;
const CURVE_LINE: f64 = 1.2;
const MARKER: f64 = 5.0;
const MARKERS_AT_MOST: usize = 16;
const GRID: RGBColor = RGBColor(228, 228, 228);

/// Draws a figure.
pub fn figure<DB: DrawingBackend>(canvas: &Canvas<'_, DB>, layout: &Layout<'_>) -> Result<()> {
    layout.places.iter().try_for_each(|place| draw_panel(canvas, place))
}

fn draw_panel<DB: DrawingBackend>(canvas: &Canvas<'_, DB>, place: &Place<'_>) -> Result<()> {
    let Place { panel, area, .. } = *place;
    for tick in &panel.y.ticks {
        let y = place.y(tick.at);
        canvas.line(&[(area.left, y), (area.right, y)], GRID, 0.4, Pattern::Solid)?;
    }
    for reference in &panel.references {
        canvas.line(&place.clipped(&reference.points), legend::GREY, 0.9, Pattern::Dotted)?;
    }
    for curve in &panel.curves {
        draw_curve(canvas, place, curve)?;
    }
    let half = FRAME_LINE / 2.0;
    for y in [area.top, area.bottom] {
        // As far as the outer edge of the sides, so that the corners are closed.
        canvas.line(&[(area.left - half, y), (area.right + half, y)], BLACK, FRAME_LINE, Pattern::Solid)?;
    }
    for x in [area.left, area.right] {
        canvas.line(&[(x, area.top), (x, area.bottom)], BLACK, FRAME_LINE, Pattern::Solid)?;
    }
    if let Some(title) = &panel.title {
        let above = place.legend.filter(|legend| !legend.boxed).map_or(area.top, |legend| legend.corner.1);
        canvas.text(title, (area.left, above - GAP - TITLE / 2.0), TITLE, HPos::Left)?;
    }
    draw_x_axis(canvas, &panel.x, place)?;
    draw_y_axis(canvas, &panel.y, place)?;
    draw_legend(canvas, place)
}

fn draw_curve<DB: DrawingBackend>(canvas: &Canvas<'_, DB>, place: &Place<'_>, curve: &Curve) -> Result<()> {
    let line: Vec<(f64, f64)> = curve.points.iter().map(|point| place.at((point.x, point.y))).collect();
    canvas.line(&line, curve.style.colour, CURVE_LINE, curve.style.dash)?;
    let points: Vec<&Point> = curve.points.iter().chain(&curve.stray).collect();
    for point in &points {
        if let Some((low, high)) = point.bar {
            let x = place.x(point.x);
            let (low, high) = (place.y(low), place.y(high));
            canvas.line(&[(x, low), (x, high)], curve.style.colour, 0.8, Pattern::Solid)?;
            for y in [low, high] {
                canvas.line(&[(x - 2.0, y), (x + 2.0, y)], curve.style.colour, 0.8, Pattern::Solid)?;
            }
        }
    }
    // On a long curve without bars a marker says which curve it is, not where a value is.
    let every = if points.iter().all(|point| point.bar.is_none()) { points.len().div_ceil(MARKERS_AT_MOST) } else { 1 };
    for point in points.into_iter().step_by(every.max(1)) {
        if let Some(marker) = curve.style.marker {
            canvas.marker(place.at((point.x, point.y)), marker, MARKER, curve.style.colour, point.hollow)?;
        }
    }
    Ok(())
}

fn draw_x_axis<DB: DrawingBackend>(canvas: &Canvas<'_, DB>, axis: &Axis, place: &Place<'_>) -> Result<()> {
    let Area { left, right, bottom, .. } = place.area;
    let mut by_priority: Vec<&Tick> = axis.ticks.iter().collect();
    by_priority.sort_by_key(|tick| std::cmp::Reverse(tick.priority));
    let mut taken: Vec<(f64, f64)> = Vec::new();
    for tick in by_priority {
        let x = place.x(tick.at);
        canvas.line(&[(x, bottom), (x, bottom - TICK)], BLACK, FRAME_LINE, Pattern::Solid)?;
        if !place.x_labels {
            continue;
        }
        let half = font::width(&tick.label, LABEL) / 2.0 + 1.5;
        if taken.iter().all(|&(from, to)| x + half <= from || x - half >= to) {
            canvas.text(&tick.label, (x, bottom + GAP + LABEL / 2.0), LABEL, HPos::Center)?;
            taken.push((x - half, x + half));
        }
    }
    if !place.x_labels {
        return Ok(());
    }
    let at = ((left + right) / 2.0, bottom + X_LABELS + GAP + TITLE / 2.0);
    canvas.text(&axis.title, at, TITLE, HPos::Center)
}

fn draw_y_axis<DB: DrawingBackend>(canvas: &Canvas<'_, DB>, axis: &Axis, place: &Place<'_>) -> Result<()> {
    let Area { left, top, bottom, .. } = place.area;
    for &value in &axis.minor {
        let y = place.y(value);
        canvas.line(&[(left, y), (left + TICK * 0.5, y)], BLACK, FRAME_LINE * 0.7, Pattern::Solid)?;
    }
    let mut last = f64::INFINITY;
    for tick in &axis.ticks {
        let y = place.y(tick.at);
        canvas.line(&[(left, y), (left + TICK, y)], BLACK, FRAME_LINE, Pattern::Solid)?;
        if last - y >= LABEL {
            canvas.text(&tick.label, (left - GAP, y), LABEL, HPos::Right)?;
            last = y;
        }
    }
    canvas.text_upwards(&axis.title, (place.column + GAP + TITLE / 2.0, (top + bottom) / 2.0), TITLE)
}

fn draw_legend<DB: DrawingBackend>(canvas: &Canvas<'_, DB>, place: &Place<'_>) -> Result<()> {
    let Some(Legend { corner, size, columns, boxed }) = place.legend else { return Ok(()) };
    let entries = legend::entries(place.panel);
    if boxed {
        canvas.rectangle(corner, (corner.0 + size.0, corner.1 + size.1), WHITE)?;
    }
    let rows = entries.len().div_ceil(columns);
    for (index, entry) in entries.iter().enumerate() {
        let x = corner.0 + (index / rows) as f64 * size.0 / columns as f64 + legend::PAD;
        let y = corner.1 + (index % rows) as f64 * legend::ROW + legend::ROW / 2.0 + legend::PAD / 2.0;
        let end = x + legend::SAMPLE;
        if let Some(dash) = entry.dash {
            let width = if dash == Pattern::Dotted { 0.9 } else { CURVE_LINE };
            canvas.line(&[(x, y), (end, y)], entry.colour, width, dash)?;
        }
        if let Some(marker) = entry.marker {
            canvas.marker(((x + end) / 2.0, y), marker, MARKER, entry.colour, entry.hollow)?;
        }
        canvas.text(entry.text, (end + GAP, y), LABEL, HPos::Left)?;
    }
    Ok(())
}
