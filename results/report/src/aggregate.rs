//! Samples as a tidy polars table, and the aggregation: over ranks, then over timed steps, then over repeats.

use polars_core::prelude::*;
use shardmark_store::{Phase, Record};

use crate::stats::{self, Interval};

/// Aggregated times of one case.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Timing {
    /// Seconds of a step: the slowest rank's, median over the timed steps, median over the repeats.
    pub step: f64,
    /// Where that median may lie: over the repeats, or over the steps if there is only one repeat.
    pub interval: Interval,
    /// Seconds of a step in halo exchange that compute did not hide: mean over ranks, medians as above.
    pub halo: Option<f64>,
    /// Seconds of a step in the reduction of gradients that compute did not hide, likewise.
    pub grad: Option<f64>,
}

/// A row for each sample: `case` (index of the record), `repeat`, `step`, `warmup`, `rank`, `phase`, `seconds` (null where
/// nothing was measured).
pub fn samples(records: &[Record]) -> PolarsResult<DataFrame> {
    let total = records.iter().map(|record| record.samples.seconds.len()).sum();
    let mut index: [Vec<u32>; 4] = std::array::from_fn(|_| Vec::with_capacity(total));
    let mut warmup: Vec<bool> = Vec::with_capacity(total);
    let mut phase: Vec<&str> = Vec::with_capacity(total);
    let mut seconds: Vec<Option<f64>> = Vec::with_capacity(total);
    for (case, record) in records.iter().enumerate() {
        let samples = &record.samples;
        for repeat in 0..samples.repeats() {
            for step in 0..samples.steps() {
                for rank in 0..samples.ranks {
                    for &item in Phase::ALL {
                        for (column, value) in index.iter_mut().zip([case, repeat, step, rank]) {
                            column.push(value as u32);
                        }
                        warmup.push(samples.warmup[step]);
                        phase.push(item.name());
                        seconds.push(Some(samples.get(repeat, step, rank, item)).filter(|value| value.is_finite()));
                    }
                }
            }
        }
    }
    let [case, repeat, step, rank] = index;
    DataFrame::new(vec![
        Column::new("case".into(), case),
        Column::new("repeat".into(), repeat),
        Column::new("step".into(), step),
        Column::new("warmup".into(), warmup),
        Column::new("rank".into(), rank),
        Column::new("phase".into(), phase),
        Column::new("seconds".into(), seconds),
    ])
}

/// The timing of each of `cases` records; `None` for those without timed steps.
pub fn timings(samples: &DataFrame, cases: usize) -> PolarsResult<Vec<Option<Timing>>> {
    let mut timings = vec![None; cases];
    let warmup = samples.column("warmup")?.bool()?;
    let timed = samples.filter(&!warmup)?;
    let whole = of_phase(&timed, Phase::Step)?;
    let per_step = reduce(&whole, &["case", "repeat", "step"], How::Max)?;
    let per_repeat = reduce(&per_step, &["case", "repeat"], How::Median)?;

    let steps = by_case(&per_step, cases)?;
    let repeats = by_case(&per_repeat, cases)?;
    let halo = exposed(&timed, Phase::HaloExposed, cases)?;
    let grad = exposed(&timed, Phase::GradExposed, cases)?;
    for case in 0..cases {
        // The interval belongs to the outermost level that has more than one value.
        let values = if repeats[case].len() > 1 { &repeats[case] } else { &steps[case] };
        if let (Some(step), Some(interval)) = (stats::median(&repeats[case]), stats::interval(values)) {
            timings[case] = Some(Timing { step, interval, halo: halo[case], grad: grad[case] });
        }
    }
    Ok(timings)
}

/// Seconds of `phase` in each case: mean over ranks, median over steps, median over repeats; `None` where nothing was
/// measured.
fn exposed(timed: &DataFrame, phase: Phase, cases: usize) -> PolarsResult<Vec<Option<f64>>> {
    let per_step = reduce(&of_phase(timed, phase)?, &["case", "repeat", "step"], How::Mean)?;
    let per_repeat = reduce(&per_step, &["case", "repeat"], How::Median)?;
    Ok(by_case(&per_repeat, cases)?.iter().map(|repeats| stats::median(repeats)).collect())
}

#[derive(Clone, Copy)]
enum How {
    Max,
    Mean,
    Median,
}

/// One row for each group, with the group's `seconds` reduced to one value.
fn reduce(frame: &DataFrame, by: &[&str], how: How) -> PolarsResult<DataFrame> {
    let groups = frame.group_by_stable(by.iter().copied())?.select(["seconds"]);
    // polars wants these done lazily; its lazy engine alone would double the time to build this workspace.
    #[allow(deprecated)]
    let mut reduced = match how {
        How::Max => groups.max()?,
        How::Mean => groups.mean()?,
        How::Median => groups.median()?,
    };
    let name = reduced.get_column_names()[by.len()].to_string();
    reduced.rename(&name, "seconds".into())?;
    Ok(reduced)
}

/// The measured rows of a phase.
fn of_phase(frame: &DataFrame, phase: Phase) -> PolarsResult<DataFrame> {
    let wanted: BooleanChunked =
        frame.column("phase")?.str()?.iter().map(|name| Some(name == Some(phase.name()))).collect();
    frame.filter(&(wanted & frame.column("seconds")?.is_not_null()))
}

/// The values of `seconds` of each case.
fn by_case(frame: &DataFrame, cases: usize) -> PolarsResult<Vec<Vec<f64>>> {
    let mut values = vec![Vec::new(); cases];
    for (case, seconds) in frame.column("case")?.u32()?.iter().zip(frame.column("seconds")?.f64()?.iter()) {
        if let (Some(case), Some(seconds)) = (case, seconds) {
            values[case as usize].push(seconds);
        }
    }
    Ok(values)
}
