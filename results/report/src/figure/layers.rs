//! Single layers: time of each pass against ranks per sample, forward to the left and backward to the right.

use shardmark_store::{Mark, Phase, Record};

use super::axis::Axis;
use super::kinds::{nothing, range};
use super::panel::{Curve, Panel, Point, Reference, Style};
use crate::problem::{Problem, sizes};
use crate::stats::{self, Interval};
use crate::{Frame, Result};

/// A result: its problem, and what was measured.
struct Entry<'a> {
    problem: &'a Problem,
    record: &'a Record,
    /// Ranks that share a sample.
    ranks: usize,
}

/// The pass of a panel.
#[derive(Clone, Copy)]
enum Pass {
    Forward,
    /// All that is not forward, so that the wait for the sum of the weights' gradients counts.
    Backward,
}

/// Two panels for each layer.
pub fn panels(frame: &Frame) -> Result<Vec<Panel>> {
    let entries: Vec<Entry<'_>> = frame
        .rows
        .iter()
        .zip(&frame.records)
        .filter_map(|(row, record)| {
            let layer = row.is_result && row.problem.layer().is_some();
            let samples = sizes(&row.grid).first().copied().unwrap_or(1).max(1);
            layer.then_some(Entry { problem: &row.problem, record, ranks: row.ranks / samples })
        })
        .collect();
    if entries.is_empty() {
        return Err(nothing(frame, "a single layer with a passed check"));
    }
    let mut ranks: Vec<usize> = entries.iter().map(|entry| entry.ranks).collect();
    ranks.sort_unstable();
    ranks.dedup();
    let mut marks: Vec<Mark> = entries.iter().flat_map(|entry| entry.record.marks.clone()).collect();
    marks.sort_unstable();
    marks.dedup();
    let marks: Vec<&str> = marks.iter().map(|mark| mark.name()).collect();
    let mut labels: Vec<String> = Vec::new();
    let mut panels = Vec::new();
    let mut layers: Vec<Option<String>> = Vec::new();
    for layer in entries.iter().map(|entry| entry.problem.layer()) {
        if !layers.contains(&layer) {
            layers.push(layer);
        }
    }
    for name in layers {
        let layer: Vec<&Entry<'_>> = entries.iter().filter(|entry| entry.problem.layer() == name).collect();
        for pass in [Pass::Forward, Pass::Backward] {
            let first = panels.is_empty();
            let mut panel = panel(&layer, pass, &ranks, &mut labels);
            if !first {
                // The first legend speaks for all.
                panel.curves.iter_mut().for_each(|curve| curve.label = None);
                panel.references.iter_mut().for_each(|reference| reference.label = None);
            }
            panel.hollow = (first && !marks.is_empty()).then(|| marks.join(" or "));
            panels.push(panel);
        }
    }
    Ok(panels)
}

/// One pass of one layer; `labels` are the names of curves, in all panels by the same looks.
fn panel(layer: &[&Entry<'_>], pass: Pass, ranks: &[usize], labels: &mut Vec<String>) -> Panel {
    let problems: Vec<&Problem> = layer.iter().map(|entry| entry.problem).collect();
    let mut curves = Vec::new();
    let mut references = Vec::new();
    for series in layer.chunk_by(|a, b| a.problem == b.problem) {
        let label = series[0].problem.label(&problems);
        let look = labels.iter().position(|known| *known == label).unwrap_or_else(|| {
            labels.push(label.clone());
            labels.len() - 1
        });
        let curve = curve(series, pass, label, Style::nth(look));
        if let Some(start) = curve.points.first() {
            let far = ranks.last().map_or(start.x, |&last| 2.0 * last as f64);
            let label = references.is_empty().then(|| "ideal".to_owned());
            references.push(Reference { label, points: vec![(start.x, start.y), (far, start.y * start.x / far)] });
        }
        curves.push(curve);
    }
    let (low, high) = range(&curves);
    let (what, right) = match pass {
        Pass::Forward => ("forward [ms]", false),
        Pass::Backward => ("backward [ms]", true),
    };
    Panel {
        title: if right { None } else { layer[0].problem.layer() },
        right,
        x: Axis::ranks("ranks per sample", ranks),
        y: Axis::log(what, low, high, false),
        references,
        curves,
        hollow: None,
    }
}

/// The fastest result of each number of ranks on the line, others beside it.
fn curve(series: &[&Entry<'_>], pass: Pass, label: String, style: Style) -> Curve {
    let mut points: Vec<Point> = series
        .iter()
        .filter_map(|entry| {
            let (seconds, interval) = seconds(entry.record, pass)?;
            let bar = Some((interval.low * 1e3, interval.high * 1e3));
            Some(Point { x: entry.ranks as f64, y: seconds * 1e3, bar, hollow: !entry.record.marks.is_empty() })
        })
        .collect();
    points.sort_by(|a, b| a.x.total_cmp(&b.x).then(a.y.total_cmp(&b.y)));
    let (mut line, mut stray) = (Vec::<Point>::new(), Vec::new());
    for point in points {
        let taken = line.last().is_some_and(|last| last.x == point.x);
        if taken { stray.push(point) } else { line.push(point) }
    }
    Curve { label: Some(label).filter(|label| !label.is_empty()), style, points: line, stray }
}

/// Seconds of a pass: the slowest rank's, median over the timed steps, median over the repeats; and where that may lie.
fn seconds(record: &Record, pass: Pass) -> Option<(f64, Interval)> {
    let samples = &record.samples;
    let of_rank = |repeat, step, rank| {
        let forward = samples.get(repeat, step, rank, Phase::Forward);
        match pass {
            Pass::Forward => forward,
            Pass::Backward => samples.get(repeat, step, rank, Phase::Step) - forward,
        }
    };
    let timed: Vec<usize> = (0..samples.steps()).filter(|&step| !samples.warmup[step]).collect();
    let of_steps = |repeat| -> Vec<f64> {
        let slowest = |&step| (0..samples.ranks).map(|rank| of_rank(repeat, step, rank)).fold(f64::NAN, f64::max);
        timed.iter().map(slowest).filter(|value| value.is_finite()).collect()
    };
    let repeats: Vec<f64> = (0..samples.repeats()).filter_map(|repeat| stats::median(&of_steps(repeat))).collect();
    let interval = stats::interval(&if repeats.len() > 1 { repeats.clone() } else { of_steps(0) })?;
    Some((stats::median(&repeats)?, interval))
}
