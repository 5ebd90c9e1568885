//! The program with a fake rank program that ends in every way a case can end.

use std::fs;
use std::time::{Duration, Instant};

use crate::place::{Place, Ran, has_mpi, names_killed_rank, signal, wait_until};
use shardmark_store::Outcome;

#[test]
fn every_ending_has_its_outcome_and_the_sweep_goes_on() {
    let place = Place::new("endings", &[3, 4, 2, 6, 9, 12, 13, 1], "");
    let ran = place.run(&["run", "s.toml"]);
    assert_eq!(ran.code, 1, "{}{}", ran.out, ran.err);
    let grid = "1x1x1x1 1 ";
    for row in [
        format!("{grid}3 failed exit code 7: something broke"),
        format!("{grid}4 failed signal 9 (killed)"),
        format!("{grid}2 wrong check failed at 3.000 of the tolerance: loss"),
        format!("{grid}6 hang rank 2 waits in recv for rank 1 since 5.0 s"),
        format!("{grid}9 failed ended without a record"),
        format!("{grid}12 wont-fit"),
        format!("{grid}13 oom"),
        format!("{grid}1 ok 250 ms"),
    ] {
        ran.row(&row);
    }
    ran.row("8 cases: 1 ok, 1 wrong, 3 failed, 1 oom, 1 hang, 1 wont-fit in");
    assert_eq!(place.starts(), [3, 4, 2, 6, 9, 12, 13, 1]);
    let record = place.record(3).unwrap();
    assert_eq!((record.outcome, record.setting("width")), (Outcome::Failed, Some("32")));
    assert_eq!(record.message, "exit code 7: something broke\nsomething broke");
    assert!(record.provenance.contains_key("rustc") && record.case.suite.contains("mode = \"strong\""));
    // Nothing but what belongs there.
    let logs = fs::read_dir(place.path("results/runs/s/logs")).unwrap().count();
    assert_eq!(logs, 8);
    assert!(
        fs::read_dir(place.path("results/runs/s"))
            .unwrap()
            .all(|entry| { entry.unwrap().path().extension().is_none_or(|extension| extension != "part") })
    );
}

#[test]
fn what_has_a_result_is_not_run_again_unless_asked() {
    let place = Place::new("again", &[1, 3], "");
    assert_eq!(place.run(&["run", "s.toml"]).code, 1);
    let ran = place.run(&["run", "s.toml"]);
    ran.row("1x1x1x1 1 3 failed done before");
    assert_eq!((ran.code, place.starts()), (1, vec![1, 3]));
    place.run(&["run", "s.toml", "--retry"]);
    assert_eq!(place.starts(), [1, 3, 3]);
    place.run(&["run", "s.toml", "--fresh", "--where", "seed=1"]);
    assert_eq!(place.starts(), [1, 3, 3, 1]);
    assert_eq!(place.run(&["status", "s"]).code, 0);
}

#[test]
fn silence_beyond_the_hang_limit_is_a_hang_and_time_a_timeout() {
    let place = Place::new("silence", &[5], "hang_limit = 0.2");
    let ran = place.run(&["run", "s.toml"]);
    ran.row("1x1x1x1 1 hang no sign of life");
    assert_eq!((ran.code, place.record(5).unwrap().outcome), (1, Outcome::Hang));
    place.suite(&[5], "timeout = 0.3");
    let ran = place.run(&["run", "s.toml"]);
    ran.row("1x1x1x1 1 timeout longer than its timeout");
    assert_eq!(ran.code, 124);
}

#[test]
fn ranks_that_fail_and_stay_are_ended() {
    let start = Instant::now();
    let place = Place::new("stay", &[7], "");
    place.run(&["run", "s.toml"]).row("1x1x1x1 1 failed rank 3: index out of bounds");
    assert!(start.elapsed() < Duration::from_secs(10));
}

#[test]
fn a_killed_case_process_is_a_failure() {
    let place = Place::new("killed", &[5, 1], "");
    let child = place.spawn(&["run", "s.toml"]);
    place.wait_for_starts(1);
    let pid = started_pid(&place);
    let start = Instant::now();
    signal(pid, libc::SIGKILL);
    let ran = Ran::new(child.wait_with_output().unwrap());
    ran.row("1x1x1x1 1 5 failed signal 9 (killed)");
    ran.row("1x1x1x1 1 1 ok");
    assert!(start.elapsed() < Duration::from_secs(10));
}

#[test]
fn an_interrupted_sweep_is_resumed_without_repeating() {
    let place = Place::new("interrupt", &[1, 8, 12], "");
    let child = place.spawn(&["run", "s.toml"]);
    place.wait_for_starts(2);
    let pid = started_pid(&place);
    signal(child.id(), libc::SIGINT);
    // This fake ignores the signal once; asked twice, it is killed.
    std::thread::sleep(Duration::from_millis(200));
    signal(child.id(), libc::SIGINT);
    let ran = Ran::new(child.wait_with_output().unwrap());
    assert_eq!(ran.code, 130, "{}", ran.out);
    ran.row("interrupted; finish with `shardmark resume results/runs/s`");
    wait_until(|| !alive(pid));
    assert!(place.record(8).is_none());
    assert_eq!(place.run(&["status", "s"]).code, 4);

    // What hung before ends well now.
    let script = place.path("rank.sh");
    // Written by a child: see `usage::outside_of_the_source_tree_it_says_where_it_looked_for_suites`.
    let fake = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/program/fake_rank.sh");
    let edit = r#"sed 's/^    1) say/    1|8) say/' "$0" > "$1" && chmod +x "$1""#;
    let edited = std::process::Command::new("sh").args(["-c", edit, fake]).arg(&script).status().unwrap();
    assert!(edited.success());
    let resumed = place.command(&["resume", "results/runs/s"]).env("SHARDMARK_RANK_PROGRAM", &script).output().unwrap();
    let resumed = Ran::new(resumed);
    assert_eq!(resumed.code, 0, "{}{}", resumed.out, resumed.err);
    assert_eq!(place.starts(), [1, 8, 8, 12]);
    resumed.row("1x1x1x1 1 1 ok done before");
}

#[test]
fn the_ranks_die_with_a_killed_supervisor() {
    for (name, more) in [("orphan", ""), ("orphan-mpi", "transport = 'mpi'\ngrid = '1x2x1x1'")] {
        if !more.is_empty() && !has_mpi() {
            return;
        }
        let place = Place::new(name, &[5], more);
        let mut child = place.spawn(&["run", "s.toml"]);
        place.wait_for_starts(1);
        let pid = started_pid(&place);
        child.kill().unwrap();
        child.wait().unwrap();
        wait_until(|| !alive(pid));
    }
}

#[test]
fn results_of_another_host_are_not_mixed() {
    let place = Place::new("mix", &[1], "");
    place.run(&["run", "s.toml"]);
    let context = place.path("results/runs/s/context.json");
    let text = fs::read_to_string(&context).unwrap();
    let line = text.lines().find(|line| line.contains("\"host\"")).unwrap();
    fs::write(&context, text.replace(line, "\"host\": \"f00\",")).unwrap();
    for arguments in [["run", "s.toml"], ["resume", "s"]] {
        let ran = place.run(&arguments);
        assert_eq!(ran.code, 2);
        assert!(ran.err.contains("expected results of the same host (f00), got"), "{}", ran.err);
    }
    assert_eq!(place.run(&["resume", "s", "--mix"]).code, 0);
    let other = place.command(&["run", "s.toml"]).env("SHARDMARK_SIMD", "portable").output().unwrap();
    let other = Ran::new(other);
    assert!(other.err.contains("expected results of the same simd (avx2), got portable"), "{}", other.err);
}

#[test]
fn only_one_run_works_in_a_folder() {
    let place = Place::new("busy", &[5], "");
    let child = place.spawn(&["run", "s.toml"]);
    place.wait_for_starts(1);
    let ran = place.run(&["run", "s.toml"]);
    assert!(ran.err.contains("expected no other run in this folder"), "{}", ran.err);
    signal(child.id(), libc::SIGTERM);
    assert_eq!(child.wait_with_output().unwrap().status.code(), Some(130));
}

#[test]
fn a_killed_mpi_rank_is_told_and_nothing_is_left() {
    if !has_mpi() {
        return;
    }
    let place = Place::new("mpi", &[20, 1], "transport = 'mpi'\ngrid = '1x3x1x1'");
    let start = Instant::now();
    let ran = place.run(&["run", "s.toml"]);
    assert!(names_killed_rank(&ran.row("1x3x1x1 3 20 failed exit code 137")));
    ran.row("1x3x1x1 3 1 ok");
    // It takes three seconds; a rank that waited for the killed one would wait for its hang limit of a minute.
    assert!(start.elapsed() < Duration::from_secs(50));
    assert!(place.record(20).unwrap().provenance["launcher"].starts_with("mpirun"));
}

/// The process of the last case that was started, from its log.
fn started_pid(place: &Place) -> u32 {
    let find = || {
        let logs = fs::read_dir(place.path("results/runs/s/logs")).ok()?;
        let newest = logs
            .filter_map(|entry| Some(entry.ok()?.path()))
            .max_by_key(|path| fs::metadata(path).unwrap().modified().unwrap())?;
        let text = fs::read_to_string(newest).ok()?;
        // The log may end within the number.
        text.split_once("\"pid\":")?.1.split_once(',')?.0.parse().ok()
    };
    wait_until(|| find().is_some());
    find().unwrap()
}

fn alive(pid: u32) -> bool {
    // A zombie has ended too.
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with('Z'))
}
