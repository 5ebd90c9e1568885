//! Tables: aligned text for a terminal, Markdown for a page, CSV for a program.

use std::fmt::Write as _;
use std::str::FromStr;

use shardmark_store::Record;

use crate::problem::Problem;
use crate::{Error, Frame, Row};

/// How a table is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Aligned columns for a terminal; ms, GiB.
    Text,
    /// One line a record with a header; seconds, bytes; an empty field where there is no number.
    Csv,
    /// Tables for a page; ms, GiB.
    Markdown,
}

impl FromStr for Format {
    type Err = Error;

    fn from_str(word: &str) -> Result<Self, Error> {
        match word {
            "text" => Ok(Format::Text),
            "csv" => Ok(Format::Csv),
            "markdown" => Ok(Format::Markdown),
            _ => Err(Error::Word { what: "table", expected: "text, csv or markdown", got: word.to_owned() }),
        }
    }
}

/// The records as a table: one row each, grouped by problem. A case without a result shows its outcome in place of a time.
pub fn table(frame: &Frame, format: Format) -> String {
    match format {
        Format::Text => pages(frame, text_page),
        Format::Markdown => pages(frame, markdown_page),
        Format::Csv => csv(frame),
    }
}

/// The column that shows GB/s for bare communication: bytes that the busiest rank gives to it, in 10^9 a second.
const SAMPLES: &str = "samples/s";
const HEADER: [&str; 14] = [
    "ranks",
    "grid",
    "step [ms]",
    "low [ms]",
    "high [ms]",
    "interval",
    "n",
    "speed-up",
    "efficiency [%]",
    "halo [%]",
    "grad. [%]",
    SAMPLES,
    "memory [GiB]",
    "notes",
];

/// Columns that are words rather than numbers, aligned to the left.
const WORDS: [usize; 3] = [1, 5, 13];

/// A section for each problem, then the files that could not be read.
fn pages(frame: &Frame, page: fn(&str, &[String], &[Vec<String>]) -> String) -> String {
    let mut out = String::new();
    let problems: Vec<&Problem> = frame.rows.iter().map(|row| &row.problem).collect();
    let pairs: Vec<(&Row, &Record)> = frame.rows.iter().zip(&frame.records).collect();
    for group in pairs.chunk_by(|a, b| a.0.problem == b.0.problem) {
        let bare = group[0].0.problem.is_bare();
        let header = HEADER.map(|name| if bare && name == SAMPLES { "GB/s" } else { name }.to_owned()).to_vec();
        let rows: Vec<Vec<String>> = group.iter().map(|(row, record)| cells(row, record)).collect();
        if !out.is_empty() {
            out.push('\n');
        }
        let mut title = group[0].0.problem.title(&problems);
        if let Some(base) = group.iter().find_map(|(row, _)| row.baseline).filter(|&ranks| ranks > 1) {
            let _ = write!(title, ", against {base} ranks");
        }
        out += &page(&title, &header, &rows);
    }
    for message in &frame.unread {
        let _ = writeln!(out, "\nnot read: {message}");
    }
    out
}

fn cells(row: &Row, record: &Record) -> Vec<String> {
    let ms = |seconds: Option<f64>| number(seconds.map(|s| s * 1e3), significant);
    let percent = |fraction: Option<f64>| number(fraction.map(|f| f * 100.0), |value| format!("{value:.1}"));
    let interval = row.interval;
    let step = if row.step.is_some() { ms(row.step) } else { row.outcome.to_string() };
    vec![
        row.ranks.to_string(),
        row.grid.clone(),
        step,
        ms(interval.map(|i| i.low)),
        ms(interval.map(|i| i.high)),
        interval.map_or("-".to_owned(), |i| i.kind.name().to_owned()),
        interval.map_or("-".to_owned(), |i| i.n.to_string()),
        number(row.speedup, |value| format!("{value:.2}")),
        percent(row.efficiency),
        percent(row.halo),
        percent(row.grad),
        number(row.bandwidth.map(|rate| rate / 1e9).or(row.throughput), significant),
        number(peak_memory(record).map(|bytes| bytes as f64 / (1u64 << 30) as f64), |gib| format!("{gib:.2}")),
        notes(row, record),
    ]
}

/// Marks, the check's verdict, and what the outcome was about.
fn notes(row: &Row, record: &Record) -> String {
    let mut notes: Vec<String> = record.marks.iter().map(|mark| mark.name().to_owned()).collect();
    if let Some(check) = &record.check {
        let verdict = if check.passed { "check passed" } else { "check failed" };
        notes.push(format!("{verdict} ({:.0} % of tolerance)", check.used * 100.0));
    }
    if row.step.is_none() && row.outcome == shardmark_store::Outcome::Ok {
        notes.push("no timed steps".to_owned());
    }
    if !record.message.is_empty() {
        notes.push(record.message.replace(['\n', '\r'], " "));
    }
    notes.join("; ")
}

/// Peak resident bytes of the largest process.
fn peak_memory(record: &Record) -> Option<u64> {
    record.memory.iter().copied().max()
}

fn text_page(title: &str, header: &[String], rows: &[Vec<String>]) -> String {
    let lines: Vec<&[String]> = std::iter::once(header).chain(rows.iter().map(Vec::as_slice)).collect();
    let widths: Vec<usize> =
        (0..HEADER.len()).map(|c| lines.iter().map(|line| line[c].chars().count()).max().unwrap_or(0)).collect();
    let mut out = format!("{title}\n");
    for line in lines {
        let mut text = String::new();
        for (column, (cell, &width)) in line.iter().zip(&widths).enumerate() {
            text += "  ";
            if WORDS.contains(&column) {
                let _ = write!(text, "{cell:<width$}");
            } else {
                let _ = write!(text, "{cell:>width$}");
            }
        }
        out += text.trim_end();
        out.push('\n');
    }
    out
}

fn markdown_page(title: &str, header: &[String], rows: &[Vec<String>]) -> String {
    let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
    let rule = |column: usize| if WORDS.contains(&column) { "---".to_owned() } else { "---:".to_owned() };
    let mut out = format!("**{title}**\n\n");
    out += &line(header.to_vec());
    out += &line((0..HEADER.len()).map(rule).collect());
    for row in rows {
        out += &line(row.iter().map(|cell| cell.replace('|', "\\|")).collect());
    }
    out
}

fn csv(frame: &Frame) -> String {
    let mut out = String::from(
        "hash,mode,source,workload,ranks,grid,outcome,is_result,step_s,low_s,high_s,interval,n,baseline_ranks,speedup,\
         efficiency,halo_exposed_fraction,grad_exposed_fraction,samples_per_s,bytes_per_s,peak_memory_bytes,\
         check_passed,check_used,marks,message,line\n",
    );
    for (row, record) in frame.rows.iter().zip(&frame.records) {
        let interval = row.interval;
        let plain = |value: Option<f64>| value.map_or(String::new(), |value| value.to_string());
        let check = record.check.as_ref();
        let marks: Vec<&str> = record.marks.iter().map(|mark| mark.name()).collect();
        let fields = [
            record.case.hash.clone(),
            record.setting("mode").unwrap_or("strong").to_owned(),
            record.source.to_string(),
            record.setting("workload").unwrap_or("").to_owned(),
            row.ranks.to_string(),
            row.grid.clone(),
            row.outcome.to_string(),
            row.is_result.to_string(),
            plain(row.step),
            plain(interval.map(|i| i.low)),
            plain(interval.map(|i| i.high)),
            interval.map_or(String::new(), |i| i.kind.name().to_owned()),
            interval.map_or(String::new(), |i| i.n.to_string()),
            row.baseline.map_or(String::new(), |ranks| ranks.to_string()),
            plain(row.speedup),
            plain(row.efficiency),
            plain(row.halo),
            plain(row.grad),
            plain(row.throughput),
            plain(row.bandwidth),
            peak_memory(record).map_or(String::new(), |bytes| bytes.to_string()),
            check.map_or(String::new(), |check| check.passed.to_string()),
            plain(check.map(|check| check.used)),
            marks.join(" "),
            record.message.replace(['\n', '\r'], " "),
            record.case.line.clone(),
        ];
        out += &fields.map(quote).join(",");
        out.push('\n');
    }
    out
}

/// A CSV field, in quotes if it needs them (RFC 4180).
fn quote(field: String) -> String {
    if field.contains([',', '"', '\n']) { format!("\"{}\"", field.replace('"', "\"\"")) } else { field }
}

fn number(value: Option<f64>, format: impl Fn(f64) -> String) -> String {
    value.filter(|value| value.is_finite()).map_or("-".to_owned(), format)
}

/// Four significant digits, without an exponent.
fn significant(value: f64) -> String {
    let magnitude = if value == 0.0 { 0 } else { value.abs().log10().floor() as i32 };
    let decimals = (3 - magnitude).clamp(0, 9) as usize;
    format!("{value:.decimals$}")
}
