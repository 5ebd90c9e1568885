//! The figures: which numbers of a frame go on which axes.

use super::axis::Axis;
use super::panel::{Curve, Panel, Point, Reference, Style};
use super::series::{self, Series};
use super::{Kind, layers};
use crate::problem::{Mode, Problem};
use crate::{Error, Frame, Result};

/// The panels of a figure.
pub fn panels(frame: &Frame, kind: Kind) -> Result<Vec<Panel>> {
    match kind {
        Kind::Strong => strong(frame),
        Kind::Time => time(frame),
        Kind::Weak => weak(frame),
        Kind::Loss => loss(frame),
        Kind::Layers => layers::panels(frame),
    }
}

fn strong(frame: &Frame) -> Result<Vec<Panel>> {
    let series = series::series(frame, |mode| mode == Mode::Strong);
    let ranks = all_ranks(&series);
    let (Some(&first), Some(&last)) = (ranks.first(), ranks.last()) else {
        return Err(nothing(frame, "a strong-scaling result with a passed check"));
    };
    let bases: Vec<usize> = sorted(series.iter().filter_map(|s| s.line.first()?.row.baseline).collect());
    let curves: Vec<Curve> = series
        .iter()
        .map(|s| {
            let base = s.line.iter().find_map(|e| Some(e.row.step? * e.row.speedup?)).unwrap_or(f64::NAN);
            curve(s, |step| base / step)
        })
        .collect();
    let ideal = |index: usize, base: usize| Reference {
        label: (index == 0).then(|| "ideal".to_owned()),
        points: vec![(base as f64, 1.0), (last as f64 * 2.0, last as f64 * 2.0 / base as f64)],
    };
    let (low, high) = range(&curves);
    let high = high.max(last as f64 / bases.first().copied().unwrap_or(first) as f64);
    let title = match bases[..] {
        [1] => "speed-up over one rank".to_owned(),
        [base] => format!("speed-up over {base} ranks"),
        _ => "speed-up over the fewest ranks".to_owned(),
    };
    Ok(vec![Panel {
        title: None,
        right: false,
        x: Axis::ranks("ranks", &ranks),
        y: Axis::log(title, low.min(1.0), high, true),
        references: bases.iter().enumerate().map(|(index, &base)| ideal(index, base)).collect(),
        curves,
        hollow: series::marks(frame, &series),
    }])
}

fn time(frame: &Frame) -> Result<Vec<Panel>> {
    let series = series::series(frame, |mode| mode == Mode::Strong);
    let ranks = all_ranks(&series);
    let Some(&last) = ranks.last() else {
        return Err(nothing(frame, "a strong-scaling result with a passed check"));
    };
    let (unit, per_second) = time_unit(&series);
    let curves: Vec<Curve> = series.iter().map(|s| curve(s, |step| step * per_second)).collect();
    let mut references = Vec::new();
    for (index, s) in series.iter().enumerate() {
        // A prediction is compared with the ideal of the measured curve.
        if series[..index].iter().any(|other| other.look == s.look) {
            continue;
        }
        let Some(start) = s.line.first().and_then(|entry| entry.point(|step| step * per_second)) else { continue };
        let far = last as f64 * 2.0;
        let label = references.is_empty().then(|| "ideal".to_owned());
        references.push(Reference { label, points: vec![(start.x, start.y), (far, start.y * start.x / far)] });
    }
    let (low, high) = range(&curves);
    Ok(vec![Panel {
        title: None,
        right: false,
        x: Axis::ranks("ranks", &ranks),
        y: Axis::log(format!("time per step [{unit}]"), low, high, false),
        references,
        curves,
        hollow: series::marks(frame, &series),
    }])
}

fn weak(frame: &Frame) -> Result<Vec<Panel>> {
    let series = series::series(frame, |mode| mode != Mode::Strong);
    let ranks = all_ranks(&series);
    let (Some(&first), Some(&last)) = (ranks.first(), ranks.last()) else {
        return Err(nothing(frame, "a weak-scaling result with a passed check"));
    };
    let modes = sorted(series.iter().flat_map(|s| &s.line).map(|entry| entry.row.problem.mode).collect());
    let title = match modes[..] {
        [Mode::WeakSample] => "ranks (the batch grows in proportion)",
        [Mode::WeakSpace] => "ranks (the volume grows in proportion)",
        _ => "ranks (batch or volume grows in proportion)",
    };
    let named = |s: &Series<'_>| match s.line.first().map(|entry| entry.row.problem.mode) {
        Some(mode) if modes.len() > 1 => {
            let axis = if mode == Mode::WeakSpace { "space" } else { "sample" };
            if s.label.is_empty() { axis.to_owned() } else { format!("{axis}, {}", s.label) }
        }
        _ => s.name(),
    };
    let (unit, per_second) = time_unit(&series);
    let times: Vec<Curve> =
        series.iter().map(|s| Curve { label: Some(named(s)), ..curve(s, |step| step * per_second) }).collect();
    let efficiencies: Vec<Curve> = series
        .iter()
        .map(|s| {
            let base = s.line.iter().find_map(|e| Some(e.row.step? * e.row.efficiency?)).unwrap_or(f64::NAN);
            Curve { label: None, ..curve(s, |step| base / step * 100.0) }
        })
        .collect();
    let hollow = series::marks(frame, &series);
    let flat = |value: f64| vec![(first as f64 / 2.0, value), (last as f64 * 2.0, value)];
    let perfect = Reference { label: None, points: flat(100.0) };
    let bases = series.iter().filter_map(|s| s.line.first()?.point(|step| step * per_second));
    let ideal = bases
        .enumerate()
        .map(|(index, point)| Reference { label: (index == 0).then(|| "ideal".to_owned()), points: flat(point.y) });
    let references = ideal.collect();
    let (_, slowest) = range(&times);
    let (_, best) = range(&efficiencies);
    Ok(vec![
        Panel {
            title: None,
            right: false,
            x: Axis::ranks(title, &ranks),
            y: Axis::linear(format!("time per step [{unit}]"), 0.0, slowest),
            references,
            curves: times,
            hollow,
        },
        Panel {
            title: None,
            right: false,
            x: Axis::ranks(title, &ranks),
            y: Axis::linear("efficiency [%]", 0.0, best.max(100.0)),
            references: vec![perfect],
            curves: efficiencies,
            hollow: None,
        },
    ])
}

fn loss(frame: &Frame) -> Result<Vec<Panel>> {
    let trained: Vec<usize> = (0..frame.records.len()).filter(|&i| frame.records[i].validation.is_some()).collect();
    if !trained.is_empty() {
        return Ok(vec![epoch_losses(frame, &trained), validation_errors(frame, &trained)]);
    }
    let records: Vec<usize> = (0..frame.records.len()).filter(|&i| !frame.records[i].losses.is_empty()).collect();
    let names = names(frame, &records);
    let mut curves = Vec::new();
    for (index, (&record, name)) in records.iter().zip(&names).enumerate() {
        // Repeats start from the same weights: the first tells the curve.
        let values = frame.records[record].losses[0].iter().enumerate().map(|(step, &loss)| (step as f64, loss));
        let style = Style { marker: None, ..Style::nth(index) };
        curves.push(bare(name.clone(), style, values));
    }
    curves.retain(|curve| !curve.points.is_empty());
    if curves.is_empty() {
        return Err(Error::NothingToDraw {
            place: frame.place.clone(),
            expected: "a record with a loss curve",
            records: frame.records.len(),
            remedy: "run a training case to its end",
        });
    }
    Ok(vec![Panel {
        title: None,
        right: false,
        x: count_axis("step", &curves),
        y: loss_axis(&curves),
        references: vec![],
        curves,
        hollow: None,
    }])
}

/// Training and held-out loss by epoch: the same colour for a record, markers on the held-out one.
fn epoch_losses(frame: &Frame, records: &[usize]) -> Panel {
    let names = names(frame, records);
    let mut curves = Vec::new();
    for (index, (&record, name)) in records.iter().zip(&names).enumerate() {
        let Some(validation) = &frame.records[record].validation else { continue };
        let with = |what: &str| if name.is_empty() { what.to_owned() } else { format!("{name}, {what}") };
        let epochs = || validation.epoch.iter().map(|&epoch| epoch as f64);
        let line = Style { marker: None, ..Style::nth(index) };
        curves.push(bare(with("training"), line, epochs().zip(validation.train_loss.iter().copied())));
        curves.push(bare(with("validation"), Style::nth(index), epochs().zip(validation.loss.iter().copied())));
    }
    Panel {
        title: None,
        right: false,
        x: count_axis("epoch", &curves),
        y: loss_axis(&curves),
        references: vec![],
        curves,
        hollow: None,
    }
}

/// Error of each parameter over the standard deviation of its labels: 1 is a constant guess.
fn validation_errors(frame: &Frame, records: &[usize]) -> Panel {
    let names = names(frame, records);
    let several = records.len() > 1;
    let mut curves = Vec::new();
    for (index, (&record, name)) in records.iter().zip(&names).enumerate() {
        let Some(validation) = &frame.records[record].validation else { continue };
        for (column, parameter) in validation.parameters.iter().enumerate() {
            let values = validation.epoch.iter().zip(&validation.rmse);
            let values = values.map(|(&epoch, row)| (epoch as f64, row[column] / validation.label_std[column]));
            let label = if several { format!("{name}, {parameter}") } else { parameter.clone() };
            let colour = if several { index } else { column };
            curves.push(bare(label, Style::mixed(colour, column), values));
        }
    }
    let x = count_axis("epoch", &curves);
    let (low, high) = (x.value(0.0), x.value(1.0));
    let guess = Reference { label: Some("constant guess".to_owned()), points: vec![(low, 1.0), (high, 1.0)] };
    let (_, worst) = range(&curves);
    let y = Axis::linear("validation RMSE / label std", 0.0, worst.max(1.0));
    Panel { title: None, right: false, x, y, references: vec![guess], curves, hollow: None }
}

/// Short names that tell records apart.
fn names(frame: &Frame, records: &[usize]) -> Vec<String> {
    let problems: Vec<&Problem> = records.iter().map(|&record| &frame.rows[record].problem).collect();
    let grids_differ = records.iter().any(|&record| frame.rows[record].grid != frame.rows[records[0]].grid);
    let name = |&record: &usize| {
        let row = &frame.rows[record];
        let grid = if grids_differ { row.grid.replace('x', "×") } else { String::new() };
        let words = [grid, row.problem.label(&problems)];
        words.into_iter().filter(|word| !word.is_empty()).collect::<Vec<_>>().join(", ")
    };
    records.iter().map(name).collect()
}

/// A curve without error bars; values that are not finite are left out.
fn bare(label: String, style: Style, values: impl Iterator<Item = (f64, f64)>) -> Curve {
    let points = values.filter(|(_, y)| y.is_finite()).map(|(x, y)| Point { x, y, bar: None, hollow: false }).collect();
    Curve { label: Some(label).filter(|label| !label.is_empty()), style, points, stray: Vec::new() }
}

fn curve(series: &Series<'_>, value: impl Fn(f64) -> f64) -> Curve {
    Curve {
        label: Some(series.name()),
        style: series.style,
        points: series.line.iter().filter_map(|entry| entry.point(&value)).collect(),
        stray: series.stray.iter().filter_map(|entry| entry.point(&value)).collect(),
    }
}

fn count_axis(title: &str, curves: &[Curve]) -> Axis {
    let xs = || curves.iter().flat_map(|curve| &curve.points).map(|point| point.x);
    Axis::counts(title, xs().fold(f64::INFINITY, f64::min), xs().fold(0.0, f64::max))
}

/// Logarithmic if the loss falls far.
fn loss_axis(curves: &[Curve]) -> Axis {
    let (low, high) = range(curves);
    if low > 0.0 && high > 5.0 * low { Axis::log("loss", low, high, false) } else { Axis::linear("loss", low, high) }
}

fn all_ranks(series: &[Series<'_>]) -> Vec<usize> {
    sorted(series.iter().flat_map(|s| s.line.iter().chain(&s.stray)).map(|entry| entry.row.ranks).collect())
}

fn sorted<T: Ord>(mut values: Vec<T>) -> Vec<T> {
    values.sort_unstable();
    values.dedup();
    values
}

/// Milliseconds unless every time is more than ten seconds.
fn time_unit(series: &[Series<'_>]) -> (&'static str, f64) {
    let times = series.iter().flat_map(|s| s.line.iter().chain(&s.stray)).filter_map(|entry| entry.row.step);
    if times.fold(f64::INFINITY, f64::min) > 10.0 { ("s", 1.0) } else { ("ms", 1e3) }
}

/// Smallest and largest vertical value, error bars included.
pub(super) fn range(curves: &[Curve]) -> (f64, f64) {
    let points = curves.iter().flat_map(|curve| curve.points.iter().chain(&curve.stray));
    let ends = points.flat_map(|point| {
        let (low, high) = point.bar.unwrap_or((point.y, point.y));
        [low, high, point.y]
    });
    let finite = ends.filter(|value| value.is_finite());
    finite.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(value), high.max(value)))
}

pub(super) fn nothing(frame: &Frame, expected: &'static str) -> Error {
    let remedy = "see `shardmark table` for what each case ended with, and run with check=quick";
    Error::NothingToDraw { place: frame.place.clone(), expected, records: frame.records.len(), remedy }
}
