//! A row for each record: its time against the smallest rank count of the same problem.

use shardmark_store::{Outcome, Record};

use crate::aggregate::Timing;
use crate::problem::{Mode, Problem, sizes};
use crate::stats::Interval;

/// One record, aggregated. Numbers are `None` where the case did not give them.
#[derive(Clone, Debug)]
pub struct Row {
    pub(crate) problem: Problem,
    /// Number of ranks.
    pub ranks: usize,
    /// Process grid, such as `1x2x2x1` (samples, depth, height, width).
    pub grid: String,
    /// How the case ended.
    pub outcome: Outcome,
    /// Whether it may be reported: it ended well, and what was measured passed its check.
    pub is_result: bool,
    /// Seconds of a step: max over ranks, median over timed steps, median over repeats.
    pub step: Option<f64>,
    /// Where that median may lie.
    pub interval: Option<Interval>,
    /// Time on the baseline over the time on these ranks (strong scaling).
    pub speedup: Option<f64>,
    /// Speed-up over its ideal in strong scaling; baseline time over this time in weak scaling. 1 is perfect.
    pub efficiency: Option<f64>,
    /// Fraction of the step in halo exchange that compute did not hide.
    pub halo: Option<f64>,
    /// Fraction of the step in the reduction of gradients that compute did not hide.
    pub grad: Option<f64>,
    /// Samples a second, over all ranks.
    pub throughput: Option<f64>,
    /// Bytes a second that the busiest rank gives to communication, where nothing else is timed.
    pub bandwidth: Option<f64>,
    /// Ranks of the baseline.
    pub baseline: Option<usize>,
}

/// Sorts records into problems, each by ranks and grid, with numbers inside texts by value.
pub fn order(record: &Record) -> impl Ord + use<> {
    let Problem { mode, source, settings } = Problem::of(record);
    let settings: Vec<(String, String)> = settings.into_iter().map(|(key, value)| (key, natural(&value))).collect();
    (mode, settings, source, ranks(record), natural(record.setting("grid").unwrap_or("")), record.case.line.clone())
}

/// A text whose order is the natural one: each number is filled up to twelve digits.
fn natural(text: &str) -> String {
    let digit = |c: char| c.is_ascii_digit();
    let runs = text.split_inclusive(|c| !digit(c)).map(|run| {
        let number = run.trim_end_matches(|c| !digit(c));
        format!("{number:0>12}{}", &run[number.len()..])
    });
    runs.collect()
}

/// Rows of sorted records and their timings.
pub fn rows(records: &[Record], timings: &[Option<Timing>]) -> Vec<Row> {
    let mut rows: Vec<Row> = records.iter().zip(timings).map(|(record, timing)| row(record, *timing)).collect();
    for index in 0..rows.len() {
        let Some((base_ranks, base_step)) = baseline(&rows, &rows[index].problem) else { continue };
        let row = &mut rows[index];
        let Some(step) = row.step else { continue };
        let ratio = base_step / step;
        row.baseline = Some(base_ranks);
        match row.problem.mode {
            Mode::Strong => {
                row.speedup = Some(ratio);
                row.efficiency = Some(ratio * base_ranks as f64 / row.ranks as f64);
            }
            Mode::WeakSample | Mode::WeakSpace => row.efficiency = Some(ratio),
        }
    }
    rows
}

fn row(record: &Record, timing: Option<Timing>) -> Row {
    // Times of a case that failed or computed something wrong are not times of this problem.
    let timing = timing.filter(|_| record.outcome == Outcome::Ok);
    let step = timing.map(|timing| timing.step);
    let batch = record.setting("batch").and_then(|batch| batch.parse::<f64>().ok());
    Row {
        problem: Problem::of(record),
        ranks: ranks(record),
        grid: record.setting("grid").unwrap_or("-").to_owned(),
        outcome: record.outcome,
        is_result: record.is_result() && step.is_some(),
        step,
        interval: timing.map(|timing| timing.interval),
        speedup: None,
        efficiency: None,
        halo: timing.and_then(|timing| Some(timing.halo? / timing.step)),
        grad: timing.and_then(|timing| Some(timing.grad? / timing.step)),
        throughput: batch.zip(step).map(|(batch, step)| batch / step),
        bandwidth: timing.and_then(|timing| Some(step_bytes(record)? / timing.step)),
        baseline: None,
    }
}

/// Payload bytes of one timed step that the busiest rank sends, or contributes to a collective, in bare communication.
fn step_bytes(record: &Record) -> Option<f64> {
    let steps = record.samples.warmup.iter().filter(|&&warmup| !warmup).count();
    let traffic = &record.traffic;
    let of_rank = |row: &Vec<u64>| -> u64 {
        row.iter().zip(&traffic.operations).filter(|(_, operation)| *operation != "recv").map(|(bytes, _)| bytes).sum()
    };
    let busiest = traffic.bytes.iter().map(of_rank).max()?;
    (Problem::of(record).is_bare() && steps > 0).then(|| busiest as f64 / steps as f64)
}

/// Ranks and seconds of the result on the fewest ranks, the fastest of them.
fn baseline(rows: &[Row], problem: &Problem) -> Option<(usize, f64)> {
    let results = rows.iter().filter(|row| row.is_result && row.problem == *problem);
    let times = results.filter_map(|row| row.step.map(|step| (row.ranks, step)));
    times.min_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)))
}

fn ranks(record: &Record) -> usize {
    let stated = record.setting("ranks").and_then(|ranks| ranks.parse().ok());
    stated.unwrap_or_else(|| sizes(record.setting("grid").unwrap_or("1")).iter().product())
}
