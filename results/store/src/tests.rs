//! Round trips, the documented tree against a written one, refusals, and a writer that is killed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use shardmark_h5::{File, Kind};

use crate::{Error, Mark, Outcome, Phase, Record, Source, list};

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("shardmark-store-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Folder(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn full() -> Record {
    let mut record = Record::example("net=2020 width=32 grid=1x2x1x1", 2, 4, |r, s, k| (r + s + k) as f64 + 0.5);
    record.marks = vec![Mark::Quick, Mark::Oversubscribed];
    record.with_validation(3, 0.5).with_source(Source::Simulated)
}

fn one_line(error: &Error) -> String {
    let text = error.to_string();
    assert!(!text.contains('\n') && text.contains("expected") && text.contains("; "), "{text}");
    text
}

#[test]
fn records_round_trip() {
    let folder = Folder::new("round");
    let path = folder.0.join("a.h5");
    let failed = Record::without_samples(full().case, Outcome::Hang, "rank 1 waits for rank 0");
    for record in [full(), failed] {
        record.write(&path).unwrap();
        assert_eq!(Record::read(&path).unwrap(), record);
    }
}

#[test]
fn samples_are_indexed_by_repeat_step_rank_phase() {
    let record = full();
    let samples = &record.samples;
    assert_eq!((samples.repeats(), samples.steps(), samples.ranks), (3, 5, 2));
    assert_eq!(samples.get(2, 4, 1, Phase::Step), 7.5);
    assert!((samples.get(2, 4, 1, Phase::Io) - 0.15).abs() < 1e-12);
    assert!(samples.get(3, 0, 0, Phase::Step).is_nan() && samples.get(0, 5, 0, Phase::Step).is_nan());
    assert_eq!(samples.warmup, [true, false, false, false, false]);
}

/// The rows of the table in SCHEMA.md as `name type axes`, and the same from a file.
#[test]
fn schema_page_and_written_tree_are_the_same() {
    let page = include_str!("../SCHEMA.md");
    let mut documented: Vec<String> = page
        .lines()
        .filter(|line| line.starts_with("| `/"))
        .map(|line| {
            let cells: Vec<&str> = line.split('|').map(str::trim).collect();
            let axes = cells[3].split(',').filter(|axis| !axis.is_empty()).count();
            format!("{} {} {axes}", cells[1].trim_matches('`'), cells[2])
        })
        .collect();
    documented.sort();

    let folder = Folder::new("schema");
    let path = folder.0.join("a.h5");
    full().write(&path).unwrap();
    let file = File::open(&path).unwrap();
    let mut written = vec!["/@program string 0".to_owned(), "/@schema i64 0".to_owned()];
    for entry in file.list_all().unwrap() {
        let open_map = ["case/settings", "provenance"].contains(&&entry.name[..]);
        match entry.kind {
            Kind::Group => written.push(format!("/{} group 0", entry.name)),
            Kind::Dataset => {
                let dtype = file.dtype(&entry.name).unwrap().to_string().replace("strings", "string");
                written.push(format!("/{} {dtype} {}", entry.name, file.shape(&entry.name).unwrap().len()));
            }
        }
        for key in file.attrs(&entry.name).unwrap().iter().filter(|_| !open_map) {
            written.push(format!("/{}@{key} string 0", entry.name));
        }
    }
    written.sort();
    assert_eq!(documented, written);
    for phase in Phase::ALL {
        assert!(page.contains(&format!("`{phase}`")));
    }
    for outcome in Outcome::ALL {
        assert!(page.contains(&format!("`{outcome}`")));
    }
}

#[test]
fn h5ls_shows_the_documented_tree() {
    let Ok(version) = Command::new("h5ls").arg("--version").output() else { return };
    assert!(version.status.success());
    let folder = Folder::new("h5ls");
    let path = folder.0.join("a.h5");
    full().write(&path).unwrap();
    let output = Command::new("h5ls").arg("-r").arg(&path).output().unwrap();
    let shown = String::from_utf8(output.stdout).unwrap();
    for row in include_str!("../SCHEMA.md").lines().filter(|line| line.starts_with("| `/") && !line.contains('@')) {
        let name = row.split('`').nth(1).unwrap();
        assert!(shown.lines().any(|line| line.split_whitespace().next() == Some(name)), "{name} in {shown}");
    }
}

#[test]
fn broken_files_are_one_line_errors_and_hide_nothing() {
    let folder = Folder::new("broken");
    let whole = folder.0.join("b-whole.h5");
    full().write(&whole).unwrap();
    let bytes = fs::read(&whole).unwrap();
    fs::write(folder.0.join("a-truncated.h5"), &bytes[..bytes.len() / 2]).unwrap();
    fs::write(folder.0.join("c-text.h5"), "not a record\n").unwrap();
    fs::write(folder.0.join("d.h5.part"), &bytes[..100]).unwrap();
    fs::write(folder.0.join("notes.txt"), "").unwrap();
    let other = File::create(folder.0.join("e-other.h5")).unwrap();
    other.write("x", &[1], &[1.0f32]).unwrap();
    other.close().unwrap();
    let newer = File::create(folder.0.join("f-newer.h5")).unwrap();
    newer.set_attr("/", "program", "shardmark").unwrap();
    newer.set_attr("/", "schema", 99).unwrap();
    newer.close().unwrap();
    let partly = File::create(folder.0.join("g-partly.h5")).unwrap();
    partly.set_attr("/", "program", "shardmark").unwrap();
    partly.set_attr("/", "schema", i64::from(crate::SCHEMA)).unwrap();
    partly.close().unwrap();

    let found = list(&folder.0).unwrap();
    let want = ["truncated", "", "another kind", "another kind", "schema 1, got 99", "case/line"];
    assert_eq!(found.len(), want.len());
    for (record, want) in found.iter().zip(want) {
        match record {
            Ok(record) => assert_eq!((record, want), (&full(), "")),
            Err(error) => assert!(one_line(error).contains(want), "{error}"),
        }
    }
    assert!(one_line(&list(&folder.0.join("none")).unwrap_err()).contains("results folder"));
}

#[test]
fn ragged_rows_are_refused_and_leave_no_file() {
    let folder = Folder::new("ragged");
    let path = folder.0.join("a.h5");
    let mut record = full();
    record.losses[1].pop();
    assert!(one_line(&record.write(&path).unwrap_err()).contains("losses/train"));
    assert_eq!(fs::read_dir(&folder.0).unwrap().count(), 0);
}

/// A child writes records without end and is killed at another moment each time; whatever has a final name must be whole.
#[test]
fn a_killed_writer_leaves_no_broken_file() {
    const KEY: &str = "SHARDMARK_STORE_WRITER";
    if let Ok(folder) = std::env::var(KEY) {
        let record = full();
        for round in 0u64.. {
            record.write(&Path::new(&folder).join(format!("{}.h5", round % 3))).unwrap();
        }
    }
    let folder = Folder::new("killed");
    let mut finished = 0;
    for round in 0..40 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "tests::a_killed_writer_leaves_no_broken_file"])
            .env(KEY, &folder.0)
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        // The first writer gets to finish a file however busy the machine is: later ones are killed anywhere.
        let deadline = Instant::now() + Duration::from_secs(30);
        while round == 0 && !folder.0.join("0.h5").exists() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(5));
        }
        std::thread::sleep(Duration::from_micros(20_000 + 1_700 * round));
        child.kill().unwrap();
        child.wait().unwrap();
        for record in list(&folder.0).unwrap() {
            assert_eq!(record.unwrap(), full());
            finished += 1;
        }
    }
    assert!(finished >= 40, "the writer was killed before it finished anything: {finished}");
}
