//! The program with the real rank program, if that is built (`cargo build --release` in the workspace): faults on
//! purpose, at rank 1 in step 2, on threads and under mpirun. A case of one rank beside them shows that the sweep goes
//! on.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::place::{Place, Ran, has_mpi, names_killed_rank};
use shardmark_plan::event::Memory;
use shardmark_store::Outcome;

const SUITE: &str = "batch = 2\nwidth = 16\nranks = [2, 1]\ngrid = 'auto:d'\nsteps = 3\nhang_limit = 2\ncheck = 'none'";

/// Stands for what is told of a killed MPI rank.
const KILLED: &str = "exit code 137 (killed)";

/// The rank program beside this one.
fn rank_program() -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_BIN_EXE_shardmark")).with_file_name("shardmark-rank");
    let here = path.is_file();
    if !here {
        eprintln!("skipped: no {}", path.display());
    }
    here.then_some(path)
}

/// Runs the suite with a fault: what was printed, and how long it took.
fn with_fault(place: &Place, program: &Path, fault: &str, transport: &str) -> (Ran, Duration) {
    let start = Instant::now();
    let mut command = place.command(&["run", "s.toml", "--fresh", "--transport", transport]);
    let output = command.env("SHARDMARK_RANK_PROGRAM", program).env("SHARDMARK_FAULT", fault).output().unwrap();
    (Ran::new(output), start.elapsed())
}

/// Each fault on each transport with the outcome and the note that it gives.
fn each(name: &str, fault: &str, rows: &[(&str, &str, &str)]) {
    let Some(program) = rank_program() else { return };
    let place = Place::new(name, &[1], SUITE);
    for &(transport, outcome, note) in rows.iter().filter(|(transport, ..)| *transport == "threads" || has_mpi()) {
        let (ran, time) = with_fault(&place, &program, fault, transport);
        assert_eq!(ran.code, 1, "{}{}", ran.out, ran.err);
        // Between them stands the time of the steps before.
        let row = ran.row(&format!("1x2x1x1 2 {outcome}"));
        let told = if note == KILLED { names_killed_rank(&row) } else { row.contains(note) };
        assert!(told, "{row}");
        ran.row("1x1x1x1 1 ok");
        assert!(time < Duration::from_secs(60), "{time:?}");
    }
}

#[test]
fn a_panic_is_a_failure_of_its_rank() {
    each("panic", "panic@1:2", &[("threads", "failed", "rank 1: panicked"), ("mpi", "failed", "rank 1: panicked")]);
}

#[test]
fn a_rank_that_is_killed_is_told_under_mpi() {
    each("kill", "kill@1:2", &[("threads", "failed", "signal 9 (killed)"), ("mpi", "failed", KILLED)]);
}

#[test]
fn a_rank_that_stops_answering_is_a_hang_with_operation_and_peers() {
    each("stop", "hang@1:2", &[("threads", "hang", "rank 0 waits in"), ("mpi", "hang", "rank 0 waits in")]);
}

#[test]
fn a_stopped_rank_is_a_hang_of_the_rank_that_waits_for_it() {
    each("suspend", "stop@1:2", &[("mpi", "hang", "rank 0 waits in")]);
}

#[test]
fn a_rank_that_leaves_is_a_failure() {
    each("leave", "exit@1:2", &[("threads", "failed", "exit code 7"), ("mpi", "failed", "7")]);
}

#[test]
fn results_are_recorded_checked_and_tabulated() {
    let Some(program) = rank_program() else { return };
    let place = Place::new("real", &[1], "batch = 2\nranks = [1, 2]\ngrid = 'auto:d'\nsteps = 2");
    let run = |arguments: &[&str]| {
        Ran::new(place.command(arguments).env("SHARDMARK_RANK_PROGRAM", &program).output().unwrap())
    };
    let ran = run(&["run", "s.toml"]);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    let record = place.record(1).unwrap();
    assert_eq!(record.outcome, Outcome::Ok);
    assert!(record.check.is_some_and(|check| check.passed));
    assert!(record.provenance.contains_key("rustc"));
    let environment = run(&["env"]);
    environment.row(&format!("kernels {}", record.provenance["simd"]));
    assert!(run(&["table", "s"]).out.contains("1x2x1x1"));
    assert_eq!(run(&["plot", "strong", "s"]).code, 0);
    assert!(place.path("results/runs/s/strong.svg").is_file());
    run(&["run", "s.toml", "--dry-run"]).row("tensors: 0.");
    let large = run(&["run", "cosmoflow width=4096 batch=100", "--results", "large"]);
    let told = format!("GiB of tensors by the plan for the ranks of this host (not counted: {})", Memory::UNCOUNTED);
    assert!(large.out.contains("wont-fit") && large.out.contains(&told), "{}", large.out);
}

#[test]
fn what_verify_and_check_refuse_is_told_once() {
    let Some(program) = rank_program() else { return };
    let place = Place::new("refused", &[1], "");
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../ci/reference/files/2020-w32-norm.h5");
    let file = file.to_string_lossy();
    for transport in ["threads", "mpi"].into_iter().filter(|&transport| transport == "threads" || has_mpi()) {
        for (arguments, told) in [
            (&["verify", "none.h5"][..], "none.h5: expected a readable file, got No such file"),
            (&["verify", &file, "--grid", "1x99x1x1"], "grid 1x99x1x1: expected at most 32 parts along D, got 99; use"),
            (&["check", "--ranks", "1", "--", "--ranks", "257"], "--ranks: expected 1 to 256 ranks, got 257; stay"),
        ] {
            let arguments = [&arguments[..1], &["--transport", transport], &arguments[1..]].concat();
            let ran = Ran::new(place.command(&arguments).env("SHARDMARK_RANK_PROGRAM", &program).output().unwrap());
            assert!(ran.code == 2 && ran.out.is_empty(), "{}{}", ran.out, ran.err);
            assert!(ran.err.lines().count() == 1 && ran.err.contains(told), "{}", ran.err);
        }
    }
}

#[test]
fn layers_and_bare_communication_are_workloads() {
    let Some(program) = rank_program() else { return };
    let suite = "ranks = [1, 2]\ngrid = 'auto:h'\nsteps = 2\nwidth = 8\nbytes = '4KiB'\n\
                 workload = ['layer:conv2d c=3 k=8 in=9x8 kernel=3 stride=2 pad=1', 'comm:allreduce', 'comm:halo']";
    let place = Place::new("layers", &[1], suite);
    let run = |arguments: &[&str]| {
        Ran::new(place.command(arguments).env("SHARDMARK_RANK_PROGRAM", &program).output().unwrap())
    };
    for (transport, ranks, row) in [("threads", "1,2", "6 cases: 6 ok"), ("mpi", "2", "3 cases: 3 ok")] {
        if transport == "threads" || has_mpi() {
            let ran = run(&["run", "s.toml", "--transport", transport, "--ranks", ranks]);
            assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
            ran.row(row);
        }
    }
    let table = run(&["table", "s"]).out;
    assert!(table.contains("layer:conv2d/c=3/k=8/in=9x8/kernel=3/stride=2/pad=1 batch=1 transport=threads"), "{table}");
    assert!(table.contains("GB/s") && table.contains("comm:halo width=8 channels=4 batch=1"), "{table}");
    assert_eq!(run(&["plot", "layers", "s"]).code, 0);
    assert!(place.path("results/runs/s/layers.svg").is_file());
    let dry = run(&["run", "layer:dense/c=64/k=32 batch=2 grid=2x1x1x1", "--dry-run"]);
    dry.row("layer:dense/c=64/k=32 batch=2 grid=2x1x1x1 ranks=2");
    dry.row("tensors: 0.");
    let wrong = run(&["run", "layer:dense/c=64 batch=2"]);
    assert!(wrong.code == 2 && wrong.err.contains("k of `dense c=64 n=2`: expected a whole number"), "{}", wrong.err);
}

#[test]
fn the_instruction_set_is_recorded_and_a_wrong_one_fails_the_case() {
    let Some(program) = rank_program() else { return };
    let place = Place::new("simd", &[1], "workload = 'comm:allreduce'\nbytes = 4\ngrid = '2x1x1x1'\nsteps = 1");
    let run = |simd: &str, transport: &str| {
        let mut command = place.command(&["run", "s.toml", "--fresh", "--mix", "--transport", transport]);
        command.env("SHARDMARK_RANK_PROGRAM", &program).env("SHARDMARK_SIMD", simd);
        Ran::new(command.output().unwrap())
    };
    for transport in ["threads", "mpi"].into_iter().filter(|&transport| transport == "threads" || has_mpi()) {
        assert_eq!(run("portable", transport).code, 0);
        let records = shardmark_store::list(&place.path("results/runs/s")).unwrap();
        assert!(records.iter().flatten().all(|record| record.provenance["simd"] == "portable"));
        let wrong = run("neon9", transport);
        let row = wrong.row("2x1x1x1 2 failed rank ");
        assert!(row.contains("SHARDMARK_SIMD: expected one of ") && row.contains(", got neon9; correct or"), "{row}");
        assert_eq!(run("portable", transport).code, 0);
    }
}

#[test]
fn the_memory_of_a_network_names_its_parameters() {
    let Some(program) = rank_program() else { return };
    let told = |line: &str| {
        let output = std::process::Command::new(&program).args(["memory", line]).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    // The count that the paper publishes, four bytes each.
    assert!(told("cosmoflow net=2020 width=128 norm=none").contains(r#""parameter_bytes":37750544"#));
    assert!(told("layer:dense/c=3/k=2 batch=1").contains(r#""parameter_bytes":32"#));
    assert!(told("comm:allreduce bytes=4KiB").contains(r#""parameter_bytes":0"#));
}
