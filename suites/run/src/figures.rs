//! `shardmark table` and `shardmark plot`: records to text and figures.

use std::fs;

use shardmark_plan::exit::Exit;
use shardmark_report::{Format, Frame, Kind, plot, table};

use crate::cli::{Plot, Table};
use crate::commands::folder;
use crate::error::RunError;
use crate::results;

/// `shardmark table`.
pub fn tabulate(arguments: &Table) -> Result<Exit, RunError> {
    let frame = shardmark_report::load(&folder(&arguments.results))?;
    // The other formats have room for it.
    if arguments.format == Format::Csv {
        warn(&frame);
    }
    let text = table(&frame, arguments.format);
    match &arguments.output {
        Some(path) => fs::write(path, text).map_err(|source| results::file(path, "to write the table", source))?,
        None => print!("{text}"),
    }
    Ok(Exit::Ok)
}

/// `shardmark plot`.
pub fn draw(arguments: &Plot) -> Result<Exit, RunError> {
    let folder = folder(&arguments.results);
    let frame = shardmark_report::load(&folder)?;
    warn(&frame);
    let name = match arguments.kind {
        Kind::Strong => "strong",
        Kind::Time => "time",
        Kind::Weak => "weak",
        Kind::Loss => "loss",
        Kind::Layers => "layers",
    };
    let default = || vec![folder.join(format!("{name}.svg")), folder.join(format!("{name}.png"))];
    let paths = if arguments.output.is_empty() { default() } else { arguments.output.clone() };
    for path in paths {
        plot(&frame, arguments.kind, &path)?;
        println!("{}", path.display());
    }
    Ok(Exit::Ok)
}

/// Tells of the files that are no records.
fn warn(frame: &Frame) {
    for message in frame.unread() {
        eprintln!("shardmark: warning: {message}");
    }
}
