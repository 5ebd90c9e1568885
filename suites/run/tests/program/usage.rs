//! What the program says about arguments and suites, right ones and wrong ones.

use std::fs;

use shardmark_plan::event::Memory;

use crate::place::{Place, Ran};

/// Standard error and exit code.
fn refused(place: &Place, arguments: &[&str]) -> String {
    let ran = place.run(arguments);
    assert_eq!(ran.code, 2, "{arguments:?}: {}{}", ran.out, ran.err);
    assert!(place.starts().is_empty());
    ran.err
}

#[test]
fn mistakes_are_refused_before_anything_runs() {
    let place = Place::new("mistakes", &[1], "");
    let file = place.path("s.toml");
    assert!(refused(&place, &["run", "nothing"]).contains("suite nothing: expected a TOML file, or"));
    assert!(refused(&place, &["run", "s.toml", "-S", "wdth=1"]).contains("-S: expected one of the keys workload net"));
    assert!(refused(&place, &["run", "s.toml", "-S", "width"]).contains("expected key=value, got \"width\""));
    assert!(
        refused(&place, &["run", "s.toml", "--ranks", "x"]).contains("--ranks: ranks: expected a number, got \"x\"")
    );
    assert!(refused(&place, &["run", "s.toml", "--transport", "tcp"]).contains("expected threads | mpi, got \"tcp\""));
    assert!(
        refused(&place, &["run", "s.toml", "--where", "seed=2"]).contains("expected to keep at least one of 1 cases")
    );
    assert!(
        refused(&place, &["run", "s.toml", "--launcher", "mpirun"]).contains("expected a command with {ranks} in it")
    );
    assert!(refused(&place, &["run", "cosmoflow wdth=2"]).contains("case line: expected one of the keys"));
    assert!(refused(&place, &["run", "cosmoflow width=32", "--ranks", "2"]).contains("--ranks: expected a suite"));
    assert!(
        refused(&place, &["resume", "nowhere"]).contains("nowhere: expected the results of a sweep, got no cases.txt")
    );
    fs::write(&file, "mode = 'strong'\nwidht = 3").unwrap();
    assert!(refused(&place, &["run", "s.toml"]).starts_with("shardmark: s.toml:2: expected one of the keys"));
    fs::write(&file, "width = 3").unwrap();
    assert!(refused(&place, &["run", "s.toml"]).contains("expected mode = \"strong\" or \"weak\", got no mode"));
    assert!(!place.path("results").exists());
}

#[test]
fn outside_of_the_source_tree_it_says_where_it_looked_for_suites() {
    let place = Place::new("outside", &[1], "");
    let program = place.path("shardmark");
    // Not by this process: a child of another test, between its fork and its exec, would hold the copy open for writing, and
    // what is open for writing cannot be run.
    let copied = std::process::Command::new("cp").arg(env!("CARGO_BIN_EXE_shardmark")).arg(&program).status().unwrap();
    assert!(copied.success());
    let folder = place.path("").canonicalize().unwrap();
    let looked = format!("{} or the folders above {}", folder.display(), folder.join("shardmark").display());
    let run = |arguments: &[&str]| {
        let mut command = std::process::Command::new(&program);
        Ran::new(command.args(arguments).current_dir(&folder).output().unwrap())
    };
    let ran = run(&["run", "smoke"]);
    let told =
        format!("suite smoke: expected a TOML file, or a suite of a folder suites (with smoke.toml in it) in {looked}");
    assert!(ran.code == 2 && ran.err.contains(&told), "{}", ran.err);
    let ran = run(&["list"]);
    assert!(ran.code == 0 && ran.out.contains(&looked), "{}", ran.out);
}

#[test]
fn a_missing_rank_program_is_told_with_the_remedy() {
    let place = Place::new("missing", &[1], "");
    let ran = Ran::new(place.command(&["run", "s.toml"]).env("SHARDMARK_RANK_PROGRAM", "/nowhere").output().unwrap());
    assert_eq!(ran.code, 1);
    assert!(ran.err.contains("rank program: expected /nowhere, got no such file; run `cargo build"), "{}", ran.err);
}

#[test]
fn a_missing_launcher_fails_its_case_only() {
    let place = Place::new("launcher", &[1], "transport = ['mpi', 'threads']");
    let ran = place.run(&["run", "s.toml", "--launcher", "no-such-launcher {ranks}"]);
    ran.row("1x1x1x1 1 mpi failed no-such-launcher: expected to start, got: No such file");
    ran.row("1x1x1x1 1 threads ok");
    assert_eq!(ran.code, 1);
}

#[test]
fn dry_run_lists_cases_with_memory_and_runs_nothing() {
    let place = Place::new("dry", &[1], "ranks = [1, 64]");
    let ran = place.run(&["run", "s.toml", "--dry-run", "-S", "width=16"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    ran.row("cosmoflow net=2020 width=16 norm=none batch=1 grid=1x1x1x1 ranks=1");
    ran.row(&format!(
        "tensors: 2.00 GiB on the largest rank by the plan, 3.00 GiB in all, without {};",
        Memory::UNCOUNTED
    ));
    assert!(place.starts().is_empty());
    assert!(!place.path("results").exists());
    let ran = place.run(&["run", "s.toml", "--dry-run", "-S", "grid=auto:d"]);
    assert!(
        ran.out.contains("# skipped: grid 1x64x1x1: expected at most 32 parts along D (extent 32), got 64"),
        "{}",
        ran.out
    );
}

#[test]
fn skipped_cases_are_recorded_and_no_failure() {
    let place = Place::new("skipped", &[1], "ranks = [1, 64]\ngrid = 'auto:d'");
    let ran = place.run(&["run", "s.toml"]);
    ran.row("1x64x1x1 64 skipped grid 1x64x1x1: expected at most 32");
    assert_eq!(ran.code, 0, "{}", ran.out);
    assert_eq!(place.starts(), [1]);
}

#[test]
fn a_case_line_is_run_as_it_stands() {
    let place = Place::new("line", &[1], "");
    let ran = place.run(&["run", "cosmoflow width=16 grid=1x2x1x1", "--results", "out"]);
    ran.row("1x2x1x1 2 ok");
    assert_eq!(ran.code, 0);
    assert!(fs::read_to_string(place.path("out/cases.txt")).unwrap().starts_with("cosmoflow net=2020 width=16"));
}

#[test]
fn the_environment_stands_between_flag_and_file() {
    let place = Place::new("environment", &[1], "width = 16");
    let list = |arguments: &[&str]| {
        let mut command = place.command(arguments);
        Ran::new(command.env("SHARDMARK_WIDTH", "24").env("SHARDMARK_STEPS", "9").output().unwrap()).out
    };
    assert!(list(&["list", "s.toml"]).contains("width=24 "));
    let both = list(&["list", "s.toml", "-S", "width=8"]);
    assert!(both.contains("width=8 ") && both.contains("steps=9 "), "{both}");
}

#[test]
fn checks_have_rows_and_a_verdict() {
    let place = Place::new("checks", &[1], "");
    let ran = place.run(&["check"]);
    ran.row("passed 0.250 grid 1x1x1x1: loss");
    ran.row("1 passed, 0 failed");
    assert_eq!(ran.code, 0);
    let ran = place.run(&["check", "--", "bad"]);
    ran.row("FAILED 1.500 grid 1x2x1x1: conv1.weight");
    ran.row("1 passed, 1 failed");
    assert_eq!(ran.code, 1);
    let ran = place.run(&["check", "--", "crash"]);
    ran.row("failed exit code 1: no such network");
    assert!(ran.code == 1 && ran.out.matches("no such network").count() == 1, "{}", ran.out);
    assert_eq!(place.run(&["verify", "x.h5", "--grid", "1x2x1x1"]).code, 0);
    assert_eq!(place.run(&["verify", "x.h5", "--grid", "2"]).code, 2);
}

#[test]
fn what_checks_refuse_is_told_once_and_is_wrong_usage() {
    let place = Place::new("refusals", &[1], "");
    for (arguments, told) in [
        (&["check", "--ranks", "100000"][..], "--ranks: expected 1 to 256 ranks, got 100000; stay in that range"),
        (&["check", "--ranks", "2,0"], "--ranks: expected 1 to 256 ranks, got 0; stay"),
        (&["check", "--ranks", "x", "--transport", "mpi"], "--ranks: expected 1 to 256 ranks, got x; stay"),
        (&["verify", "x.h5", "--grid", "1x32x32x32"], "--grid: expected 1 to 256 ranks, got 1x32x32x32; stay"),
        (&["verify", "refuse.h5"], "refuse.h5: expected a readable file, got none; check it\n"),
        (&["check", "--", "parse"], "unexpected argument found\n"),
    ] {
        let Ran { code, out, err } = place.run(arguments);
        assert!(code == 2 && out.is_empty(), "{arguments:?}: {code} {out}{err}");
        assert!(err.starts_with(&format!("shardmark: {told}")) && err.lines().count() == 1, "{err}");
    }
}

#[test]
fn datasets_that_cannot_be_made_are_refused_by_one_rule() {
    let place = Place::new("data", &[1], "");
    let make = |more: &[&str]| refused(&place, &[&["data", "make", "d"], more].concat());
    let cells = |count| format!("shardmark: cells: expected 4 to 4096, got {count}; change the value\n");
    assert_eq!(make(&["--cells", "0", "--train", "1"]), cells("0"));
    assert_eq!(make(&["--cells", "1000000"]), cells("1000000"));
    for train in ["10000001", &usize::MAX.to_string()] {
        let told = make(&["--cells", "4", "--train", train]);
        assert!(told.starts_with("shardmark: samples: expected 1 to 10000000 universes in all, got"), "{told}");
    }
    assert!(!place.path("d").exists());
    let few = ["data", "make", "d", "--cells", "4", "--train", "1", "--validation", "0", "--test", "0"];
    assert_eq!(place.run(&few).code, 0);
    assert!(refused(&place, &few.map(|word| if word == "4" { "8" } else { word })).contains("expected cells = 4"));
}

#[test]
fn env_and_lists_work_without_a_rank_program() {
    let place = Place::new("env", &[1], "");
    for arguments in [&["env"][..], &["list"], &["list", "--keys"], &["--help"], &["run", "--help"]] {
        let output = place.command(arguments).env("SHARDMARK_RANK_PROGRAM", "/nowhere").output().unwrap();
        assert!(output.status.success(), "{arguments:?}");
    }
    let keys = place.run(&["list", "--keys"]);
    keys.row("hang_limit auto | seconds auto longest wait");
}
