//! Tables of invented records against golden files, the aggregation against figures worked out by hand.
//!
//! `UPDATE_GOLDEN=1 cargo test -p shardmark-report` writes the golden files anew; look at the difference before committing.

use std::path::{Path, PathBuf};

use shardmark_store::{Check, Mark, Outcome, Record, Source};

use crate::stats::{interval, median};
use crate::{Format, Frame, IntervalKind, Kind, load, plot, table};

/// Compares with `golden/<name>`, or writes it.
pub fn golden(name: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("golden").join(name);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, text).unwrap();
    }
    let want = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(text == want, "{name} differs from its golden file; see the top of tests.rs. Now:\n{text}");
}

pub struct Folder(pub PathBuf);

impl Folder {
    pub fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("shardmark-report-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Seconds that scatter a little, the same ones every time.
fn scatter(seconds: f64) -> impl Fn(usize, usize, usize) -> f64 {
    move |repeat, step, rank| {
        let wobble = ((repeat * 8 + step * 5 + rank) % 13) as f64 / 13.0 + repeat as f64 / 3.0;
        let warmup = if step == 0 { 2.0 } else { 1.0 };
        seconds * warmup * (1.0 + 0.2 * wobble)
    }
}

/// Strong scaling of two volumes; 8 ranks are more than the cores.
pub fn strong() -> Vec<Record> {
    let mut records = Vec::new();
    for (width, serial, overhead) in [(64, 0.8, 0.14), (128, 6.4, 0.05)] {
        for (ranks, grid) in [(1, "1x1x1x1"), (2, "1x2x1x1"), (4, "1x2x2x1"), (8, "1x2x2x2")] {
            let settings =
                format!("net=2020 width={width} norm=none batch=1 grid={grid} mode=strong transport=threads");
            let slower = 1.0 + overhead * (ranks as f64 - 1.0).powf(0.7);
            let mut record = Record::example(&settings, ranks, 8, scatter(serial / ranks as f64 * slower));
            if ranks > 4 {
                record.marks = vec![Mark::Oversubscribed];
            }
            records.push(record);
        }
    }
    records
}

/// What the model says about the larger volume of [`strong`].
pub fn predicted() -> Vec<Record> {
    let grids = [(1, "1x1x1x1"), (2, "1x2x1x1"), (4, "1x2x2x1"), (8, "1x2x2x2"), (16, "1x4x2x2")];
    let predict = |(ranks, grid): (usize, &str)| {
        let settings = format!("net=2020 width=128 norm=none batch=1 grid={grid} mode=strong transport=threads");
        Record::example(&settings, ranks, 1, move |_, _, _| 6.4 / ranks as f64 * (1.0 + 0.02 * ranks as f64))
            .with_source(Source::Predicted)
    };
    grids.into_iter().map(predict).collect()
}

pub fn weak() -> Vec<Record> {
    let mut records = Vec::new();
    for (ranks, samples, space) in [(1, 1, "1x1x1"), (2, 2, "2x1x1"), (4, 4, "2x2x1"), (8, 8, "2x2x2")] {
        let slower = 1.0 + 0.04 * (ranks as f64).log2();
        let batch = format!("net=2020 width=32 norm=none batch={samples} grid={samples}x1x1x1 mode=weak axis=sample");
        records.push(Record::example(&batch, ranks, 6, scatter(0.12 * slower)));
        let sizes: Vec<usize> = space.split('x').map(|p| 32 * p.parse::<usize>().unwrap()).collect();
        let width = sizes.iter().map(usize::to_string).collect::<Vec<_>>().join("x");
        let volume = format!("net=2020 width={width} norm=none batch=1 grid=1x{space} mode=weak axis=space");
        records.push(Record::example(&volume, ranks, 6, scatter(0.12 * slower * slower)));
    }
    records
}

/// Two layers of 1 and 4 samples; 4 ranks are more than the cores.
pub fn layers() -> Vec<Record> {
    let mut records = Vec::new();
    for (layer, serial) in [("conv2d/c=3/k=64/in=224x224", 0.01), ("conv2d/c=512/k=128/in=28x28", 0.004)] {
        for (batch, ranks) in [1, 4].into_iter().flat_map(|batch| [1, 2, 4].map(|ranks| (batch, ranks))) {
            let settings = format!("batch={batch} grid=1x1x{ranks}x1 mode=strong transport=threads layer={serial}");
            let seconds = serial * batch as f64 / ranks as f64 * (1.0 + 0.1 * ranks as f64);
            let mut record = Record::example(&settings, ranks, 8, scatter(seconds));
            record.case.settings.remove("layer");
            record.case.settings.insert("workload".to_owned(), format!("layer:{layer}/kernel=3/stride=1/pad=1"));
            if ranks > 2 {
                record.marks = vec![Mark::Oversubscribed];
            }
            records.push(record);
        }
    }
    records
}

/// Every way to end other than well, beside a result.
fn ended() -> Vec<Record> {
    let example = |ranks: usize, grid: &str| {
        let settings = format!("net=2020 width=32 norm=none batch=4 grid={grid} mode=strong transport=mpi");
        Record::example(&settings, ranks, 6, scatter(0.2 / ranks as f64))
    };
    let mut wrong = example(2, "1x2x1x1");
    wrong.outcome = Outcome::Wrong;
    wrong.check = Some(Check { passed: false, used: 3.5, text: "conv1.weight".to_owned() });
    let hung = Record::without_samples(example(4, "1x2x2x1").case, Outcome::Hang, "rank 1 waits in recv from rank 0");
    let full = Record::without_samples(example(8, "2x2x2x1").case, Outcome::WontFit, "needs 31 GiB | has 24 GiB");
    let mut unchecked = example(2, "2x1x1x1");
    unchecked.check = None;
    unchecked.marks = vec![Mark::Quick, Mark::Unchecked];
    vec![example(1, "1x1x1x1"), wrong, hung, full, unchecked]
}

#[test]
fn tables_are_the_golden_ones() {
    let mut records = strong();
    records.extend(weak());
    records.extend(ended());
    let mut frame = Frame::from_records(records).unwrap();
    frame.unread = vec!["runs/x.h5: expected a complete HDF5 file, got a truncated one; remove it".to_owned()];
    golden("table.txt", &table(&frame, Format::Text));
    golden("table.csv", &table(&frame, Format::Csv));
    golden("table.md", &table(&frame, Format::Markdown));
}

#[test]
fn a_step_is_the_slowest_rank_then_medians() {
    // Slowest rank in step s of repeat r: 10 r + s + 1; the warm-up step would spoil every median.
    let seconds = |repeat: usize, step: usize, rank: usize| {
        if step == 0 { 1e6 } else { (10 * repeat + step + rank) as f64 }
    };
    let record = Record::example("grid=1x2x1x1 batch=6 mode=strong", 2, 5, seconds);
    let frame = Frame::from_records(vec![record]).unwrap();
    let row = &frame.rows()[0];
    // Medians of the repeats: 4, 14, 24.
    assert_eq!(row.step, Some(14.0));
    let bars = row.interval.unwrap();
    assert_eq!((bars.low, bars.high, bars.n, bars.kind), (4.0, 24.0, 3, IntervalKind::MinMax));
    assert_eq!(row.throughput, Some(6.0 / 14.0));
    // Exposed: a tenth and a twentieth of each rank's step, ranks on average half a second faster than the slowest.
    assert!((row.halo.unwrap() - 0.1 * 13.5 / 14.0).abs() < 1e-12);
    assert!((row.grad.unwrap() - 0.05 * 13.5 / 14.0).abs() < 1e-12);
    assert_eq!(frame.samples().height(), 3 * 6 * 2 * 9);
}

#[test]
fn scaling_is_against_the_fewest_ranks_that_passed() {
    let seconds = |step: f64| move |_: usize, _: usize, _: usize| step;
    let case = |ranks: usize, grid: &str, step: f64| {
        Record::example(&format!("width=32 batch=1 grid={grid} mode=strong"), ranks, 6, seconds(step))
    };
    let mut one = case(1, "1x1x1x1", 5.0);
    one.outcome = Outcome::Wrong;
    let records = vec![one, case(2, "1x2x1x1", 8.0), case(2, "2x1x1x1", 6.0), case(4, "1x2x2x1", 4.0)];
    let frame = Frame::from_records(records).unwrap();
    let [failed, slow, fast, four] = frame.rows() else { panic!("four rows") };
    assert_eq!((failed.step, failed.speedup), (None, None));
    assert_eq!((slow.speedup, fast.speedup), (Some(0.75), Some(1.0)));
    assert_eq!((four.baseline, four.speedup, four.efficiency), (Some(2), Some(1.5), Some(0.75)));

    let case = |ranks: usize, step: f64| {
        let settings = format!("width=32 batch={ranks} grid={ranks}x1x1x1 mode=weak axis=sample");
        Record::example(&settings, ranks, 6, seconds(step))
    };
    let frame = Frame::from_records(vec![case(1, 2.0), case(4, 2.5)]).unwrap();
    assert_eq!((frame.rows()[1].efficiency, frame.rows()[1].speedup), (Some(0.8), None));
}

#[test]
fn bare_communication_has_a_bandwidth() {
    let mut record = Record::example("bytes=1MiB batch=1 grid=1x2x1x1 mode=strong transport=mpi", 2, 4, |_, _, _| 0.5);
    record.case.settings.insert("workload".to_owned(), "comm:allreduce".to_owned());
    record.traffic.operations = vec!["recv".to_owned(), "allreduce".to_owned()];
    record.traffic.bytes = vec![vec![7, 4_000_000_000], vec![7, 3_000_000_000]];
    let frame =
        Frame::from_records(vec![record, Record::example("batch=1 grid=1x1x1x1 mode=strong", 1, 4, |_, _, _| 0.5)])
            .unwrap();
    let bandwidths: Vec<Option<f64>> = frame.rows().iter().map(|row| row.bandwidth).collect();
    assert!(bandwidths.contains(&Some(2e9)) && bandwidths.contains(&None), "{bandwidths:?}");
    let text = table(&frame, Format::Text);
    assert!(text.contains("GB/s") && text.contains("comm:allreduce bytes=1MiB transport=mpi"), "{text}");
    assert!(text.contains(" 2.000 "), "{text}");
}

#[test]
fn median_intervals_have_the_ranks_of_the_tables() {
    let ranks = |n: usize| {
        let values: Vec<f64> = (1..=n).rev().map(|value| value as f64).collect();
        let found = interval(&values).unwrap();
        assert_eq!(found.n, n);
        (found.low as usize, found.high as usize, found.kind)
    };
    // Conover, Practical Nonparametric Statistics: ranks of the 95 % interval of a median.
    use IntervalKind::{Confidence95, MinMax};
    assert_eq!(ranks(1), (1, 1, MinMax));
    assert_eq!(ranks(5), (1, 5, MinMax));
    assert_eq!(ranks(6), (1, 6, Confidence95));
    assert_eq!(ranks(8), (1, 8, Confidence95));
    assert_eq!(ranks(9), (2, 8, Confidence95));
    assert_eq!(ranks(20), (6, 15, Confidence95));
    assert_eq!(ranks(100), (40, 61, Confidence95));
    assert_eq!(ranks(5000).0, 2431);
    assert_eq!((interval(&[]), median(&[])), (None, None));
    assert_eq!((median(&[3.0, 1.0, 2.0]), median(&[4.0, 1.0, 2.0, 3.0])), (Some(2.0), Some(2.5)));
}

#[test]
fn folders_are_loaded_and_their_faults_named() {
    let folder = Folder::new("load");
    let error = load(&folder.0).unwrap_err().to_string();
    assert!(error.contains("expected records") && !error.contains('\n'), "{error}");
    std::fs::write(folder.0.join("broken.h5"), "no").unwrap();
    let error = load(&folder.0).unwrap_err().to_string();
    assert!(error.contains("1 files that are none") && error.contains("broken.h5"), "{error}");
    let mut record = ended().remove(1);
    record.provenance.insert("started".into(), "2026-01-01T00:00:00Z".into());
    record.write(&Record::path(&folder.0, &record.case.hash)).unwrap();
    std::fs::copy(Record::path(&folder.0, &record.case.hash), folder.0.join("copy.h5")).unwrap();
    let frame = load(&folder.0).unwrap();
    assert_eq!((frame.rows().len(), frame.unread().len()), (1, 2));
    assert!(frame.unread().iter().any(|message| message.contains("remove the copy")), "{:?}", frame.unread());
    for (kind, want) in [(Kind::Strong, "passed check"), (Kind::Weak, "passed check")] {
        let error = plot(&frame, kind, &folder.0.join("x.svg")).unwrap_err().to_string();
        assert!(error.contains(want) && !error.contains('\n'), "{error}");
        assert!(error.contains(&folder.0.display().to_string()), "{error}");
    }
    assert!("pie".parse::<Kind>().is_err() && "xml".parse::<Format>().is_err());
    assert!(load(&folder.0.join("none")).is_err());
}
