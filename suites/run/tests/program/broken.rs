//! Results folders with files that are no records of this program.

use std::fs;
use std::path::Path;

use shardmark_h5::File;
use shardmark_store::Record;

use crate::place::{Place, Ran};

/// What is put in the place of a case's record: its seed, how the file is made, what is said of it.
type Damage = (u32, fn(&Path), &'static str);

/// The seeds are those of cases that fail at once.
const DAMAGES: [Damage; 4] = [
    (3, truncated, "expected a complete HDF5 file, got a truncated one; remove it"),
    (9, foreign, "expected a shardmark record, got an HDF5 file of another kind; remove it"),
    (12, text, "expected a complete HDF5 file, got a file of another kind; check"),
    (13, of_another_version, "expected record schema 1, got 99; read it with the shardmark that wrote it, or run"),
];

fn truncated(path: &Path) {
    let whole = fs::read(path).unwrap();
    fs::write(path, &whole[..whole.len() / 2]).unwrap();
}

fn foreign(path: &Path) {
    File::create(path).unwrap().close().unwrap();
}

fn text(path: &Path) {
    fs::write(path, "no HDF5 here\n").unwrap();
}

fn of_another_version(path: &Path) {
    let file = File::create(path).unwrap();
    file.set_attr("/", "program", "shardmark").unwrap();
    file.set_attr("/", "schema", 99).unwrap();
    file.close().unwrap();
}

/// A sweep of one good record and of every damage; gives the damaged files with what is said of them.
fn damaged(name: &str) -> (Place, Vec<(String, &'static str)>) {
    let place = Place::new(name, &[1, 3, 9, 12, 13], "");
    let good = Record::example("net=2020 width=32 batch=4 grid=1x1x1x1 mode=strong", 1, 3, |_, _, _| 0.25);
    good.write(&place.path("finished.h5")).unwrap();
    assert_eq!(place.run(&["run", "s.toml"]).code, 1);
    let paths = DAMAGES.map(|(seed, ..)| {
        let hash = place.record(seed).unwrap().case.hash;
        place.path("results/runs/s").join(format!("{hash}.h5"))
    });
    let files = DAMAGES.iter().zip(&paths).map(|((_, damage, said), path)| {
        damage(path);
        (path.file_name().unwrap().to_string_lossy().into_owned(), *said)
    });
    let files = files.collect();
    (place, files)
}

/// Each damaged file has one line in the text, which names it and says what to do.
fn assert_told(text: &str, files: &[(String, &str)]) {
    for (file, said) in files {
        let lines: Vec<&str> = text.lines().filter(|line| line.contains(file)).collect();
        assert!(lines.len() == 1 && lines[0].contains(said), "{file}, {said}:\n{text}");
    }
}

#[test]
fn status_counts_them_as_missing() {
    let (place, files) = damaged("broken-status");
    let Ran { code, out, err } = place.run(&["status", "s"]);
    assert_eq!(code, 4, "{out}{err}");
    assert!(out.contains("1 of 5 cases have a result"), "{out}");
    assert_told(&err, &files);
}

#[test]
fn tables_hold_the_good_records_and_name_the_others() {
    let (place, files) = damaged("broken-table");
    for (format, told_in_table) in [("text", true), ("markdown", true), ("csv", false)] {
        let Ran { code, out, err } = place.run(&["table", "s", "--format", format]);
        assert_eq!(code, 0, "{err}");
        assert!(out.contains("1x1x1x1"), "{out}");
        assert_told(if told_in_table { &out } else { &err }, &files);
    }
}

#[test]
fn figures_show_the_good_records_and_name_the_others() {
    let (place, files) = damaged("broken-plot");
    let Ran { code, err, .. } = place.run(&["plot", "time", "s"]);
    assert_eq!(code, 0, "{err}");
    assert!(place.path("results/runs/s/time.svg").is_file());
    assert_told(&err, &files);
}
