//! Scaling curves from the rows of a frame.

use shardmark_store::{Mark, Source};

use super::panel::{Pattern, Point, Style};
use crate::problem::{Mode, Problem, sizes};
use crate::{Frame, Row};

/// The results of one problem (and of one way to split it, where several were run), by ranks.
pub struct Series<'a> {
    /// What tells it from the other series; empty if there is nothing to tell.
    pub label: String,
    /// Number of the problem: measured, predicted and simulated curves of one share it.
    pub look: usize,
    /// Looks: the colour and marker of the problem, the pattern of the source.
    pub style: Style,
    /// The fastest result of each rank count.
    pub line: Vec<Entry<'a>>,
    /// The other results.
    pub stray: Vec<Entry<'a>>,
}

impl Series<'_> {
    /// Name in the legend.
    pub fn name(&self) -> String {
        match self.line.first() {
            Some(entry) if self.label.is_empty() => entry.row.problem.name(),
            _ => self.label.clone(),
        }
    }
}

/// One result.
#[derive(Clone, Copy)]
pub struct Entry<'a> {
    /// Its row.
    pub row: &'a Row,
    /// Whether it has marks.
    pub marked: bool,
}

impl Entry<'_> {
    /// A point of a figure; `value` maps a step time to the figure's vertical value.
    pub fn point(&self, value: impl Fn(f64) -> f64) -> Option<Point> {
        let step = self.row.step?;
        let bar = self.row.interval.map(|interval| (value(interval.low), value(interval.high)));
        Some(Point { x: self.row.ranks as f64, y: value(step), bar, hollow: self.marked })
    }
}

/// The results of the wanted modes as series.
pub fn series(frame: &Frame, wanted: impl Fn(Mode) -> bool) -> Vec<Series<'_>> {
    let entries: Vec<Entry<'_>> = frame
        .rows
        .iter()
        .zip(&frame.records)
        .filter(|(row, _)| row.is_result && wanted(row.problem.mode))
        .map(|(row, record)| Entry { row, marked: !record.marks.is_empty() })
        .collect();
    let problems: Vec<&Problem> = entries.iter().map(|entry| &entry.row.problem).collect();
    let mut looks: Vec<(&Problem, &str)> = Vec::new();
    let mut series = Vec::new();
    for group in entries.chunk_by(|a, b| a.row.problem == b.row.problem) {
        let problem = &group[0].row.problem;
        for (split, members) in splits(group) {
            let same = |(other, name): &(&Problem, &str)| {
                (other.mode, &other.settings, *name) == (problem.mode, &problem.settings, split)
            };
            let look = looks.iter().position(same).unwrap_or(looks.len());
            if look == looks.len() {
                looks.push((problem, split));
            }
            let mut style = Style::nth(look);
            style.dash = match problem.source {
                Source::Measured => Pattern::Solid,
                Source::Predicted => Pattern::Dashed,
                Source::Simulated => Pattern::DashDot,
            };
            let words = [split.to_owned(), problem.label(&problems)];
            let label = words.into_iter().filter(|word| !word.is_empty()).collect::<Vec<_>>().join(", ");
            let (line, stray) = fastest(members);
            series.push(Series { label, look, style, line, stray });
        }
    }
    series
}

/// What the marks of these series are, for the legend.
pub fn marks(frame: &Frame, series: &[Series<'_>]) -> Option<String> {
    let drawn = |row: &Row| series.iter().flat_map(|s| s.line.iter().chain(&s.stray)).any(|e| std::ptr::eq(e.row, row));
    let records = frame.rows.iter().zip(&frame.records).filter(|(row, _)| drawn(row)).map(|(_, record)| record);
    let mut marks: Vec<Mark> = records.flat_map(|record| record.marks.clone()).collect();
    marks.sort_unstable();
    marks.dedup();
    let names: Vec<&str> = marks.iter().map(|mark| mark.name()).collect();
    (!names.is_empty()).then(|| names.join(" or "))
}

/// Splits the results of a problem by what their grids split, if some rank count was run in several ways.
fn splits<'a>(group: &[Entry<'a>]) -> Vec<(&'static str, Vec<Entry<'a>>)> {
    let several = |entry: &Entry<'_>| {
        group.iter().any(|other| other.row.ranks == entry.row.ranks && kind(other.row) != kind(entry.row))
    };
    if !group.iter().any(several) {
        return vec![("", group.to_vec())];
    }
    let kinds = ["sample", "space", "sample × space"];
    let members = |name: &str| {
        // One rank is the start of every curve.
        let belongs = |entry: &&Entry<'_>| kind(entry.row) == name || entry.row.ranks == 1;
        group.iter().filter(belongs).copied().collect::<Vec<_>>()
    };
    let split = kinds.into_iter().map(|name| (name, members(name)));
    split.filter(|(_, members)| members.iter().any(|entry| entry.row.ranks > 1)).collect()
}

fn kind(row: &Row) -> &'static str {
    match sizes(&row.grid)[..] {
        [n, ref space @ ..] if n > 1 && space.iter().any(|&parts| parts > 1) => "sample × space",
        [n, ..] if n > 1 => "sample",
        _ => "space",
    }
}

/// The fastest entry of each rank count, and the others. Entries without marks go before marked ones.
fn fastest(mut entries: Vec<Entry<'_>>) -> (Vec<Entry<'_>>, Vec<Entry<'_>>) {
    let step = |entry: &Entry<'_>| entry.row.step.unwrap_or(f64::INFINITY);
    entries.sort_by(|a, b| (a.row.ranks, a.marked).cmp(&(b.row.ranks, b.marked)).then(step(a).total_cmp(&step(b))));
    let mut line: Vec<Entry<'_>> = Vec::new();
    let mut stray = Vec::new();
    for entry in entries {
        let taken = line.last().is_some_and(|last| last.row.ranks == entry.row.ranks);
        if taken { stray.push(entry) } else { line.push(entry) }
    }
    (line, stray)
}
