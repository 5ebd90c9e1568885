//! A folder with a suite, a fake rank program and a finished record, and the program run in it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use shardmark_store::{Outcome, Record};

/// A place for one test; removed at its end.
pub struct Place {
    path: PathBuf,
}

impl Place {
    /// An empty place with a suite of these seeds (see `fake_rank.sh`) and further lines.
    pub fn new(name: &str, seeds: &[u32], more: &str) -> Place {
        let path = std::env::temp_dir().join(format!("shardmark-test-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        let place = Place { path };
        place.suite(seeds, more);
        let record = Record::without_samples(Default::default(), Outcome::Ok, "");
        record.write(&place.path.join("finished.h5")).unwrap();
        place
    }

    /// Writes the suite anew.
    pub fn suite(&self, seeds: &[u32], more: &str) {
        fs::write(self.path.join("s.toml"), format!("mode = 'strong'\nseed = {seeds:?}\n{more}")).unwrap();
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// The program with these arguments, in the place.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_shardmark"));
        command
            .args(arguments)
            .current_dir(&self.path)
            .env("SHARDMARK_RANK_PROGRAM", Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/program/fake_rank.sh"))
            .env("FAKE_RECORD", self.path("finished.h5"))
            .env("FAKE_LOG", self.path("starts"))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// Runs it to its end.
    pub fn run(&self, arguments: &[&str]) -> Ran {
        Ran::new(self.command(arguments).output().unwrap())
    }

    /// Starts it.
    pub fn spawn(&self, arguments: &[&str]) -> Child {
        self.command(arguments).spawn().unwrap()
    }

    /// The seeds of the cases that were started, in order.
    pub fn starts(&self) -> Vec<u32> {
        let text = fs::read_to_string(self.path("starts")).unwrap_or_default();
        text.lines().map(|line| line.parse().unwrap()).collect()
    }

    /// Waits until so many cases were started.
    pub fn wait_for_starts(&self, count: usize) {
        wait_until(|| self.starts().len() >= count);
    }

    /// The record of the case with that seed in the default folder.
    pub fn record(&self, seed: u32) -> Option<Record> {
        let wanted = seed.to_string();
        let records = shardmark_store::list(&self.path("results/runs/s")).unwrap();
        records.into_iter().map(Result::unwrap).find(|record| record.setting("seed") == Some(wanted.as_str()))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// What a run of the program gave.
pub struct Ran {
    pub code: i32,
    pub out: String,
    pub err: String,
}

impl Ran {
    pub fn new(output: Output) -> Ran {
        Ran {
            code: output.status.code().unwrap_or(-1),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// The row of the table whose cells begin with `start`, with single blanks.
    pub fn row(&self, start: &str) -> String {
        let rows = self.out.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "));
        rows.into_iter()
            .find(|row| row.starts_with(start))
            .unwrap_or_else(|| panic!("no row {start:?} in\n{}", self.out))
    }
}

/// Whether there is a launcher.
pub fn has_mpi() -> bool {
    Command::new("mpirun").arg("--version").output().is_ok_and(|output| output.status.success())
}

/// Whether a note says that rank 1 was killed: in the launcher's words, or, since Open MPI does not always tell, as the
/// first to end.
pub fn names_killed_rank(note: &str) -> bool {
    ["rank 1 ended by signal 9 (Killed)", "rank 1 ended first"]
        .iter()
        .any(|end| note.ends_with(&format!(" exit code 137 (killed): {end}")))
}

/// Waits until it is so; a test that waits in vain fails.
pub fn wait_until(so: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !so() {
        assert!(Instant::now() < deadline, "waited in vain");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Sends a signal.
pub fn signal(pid: u32, signal: i32) {
    // SAFETY: plain system call.
    assert_eq!(unsafe { libc::kill(pid as i32, signal) }, 0);
}
