//! The command line and the environment of a case's process.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use shardmark_plan::machine::Machine;
use shardmark_plan::value::Transport;
use shardmark_plan::{Case, provenance};

use crate::error::RunError;

/// The launcher if none is given.
pub const DEFAULT_LAUNCHER: &str = "mpirun -n {ranks}";

/// How rank programs are started here.
pub struct Launcher {
    /// The rank program.
    program: PathBuf,
    /// The words of the launcher's command line; one holds `{ranks}`.
    words: Vec<String>,
    machine: Machine,
    root: bool,
}

impl Launcher {
    /// Takes the launcher's template; the rank program is `$SHARDMARK_RANK_PROGRAM` or stands beside this program.
    ///
    /// # Errors
    /// There is no rank program; the template does not say where the number of ranks goes.
    pub fn new(template: &str) -> Result<Launcher, RunError> {
        let words: Vec<String> = template.split_whitespace().map(String::from).collect();
        if !words.iter().any(|word| word.contains("{ranks}")) {
            return Err(RunError::Launcher { got: template.into() });
        }
        // SAFETY: plain system call.
        let root = unsafe { libc::geteuid() } == 0;
        Ok(Launcher { program: rank_program()?, words, machine: Machine::here(), root })
    }

    /// The rank program.
    pub fn program(&self) -> &Path {
        &self.program
    }

    /// The instruction set of the kernels on this host.
    ///
    /// # Errors
    /// What the rank program says against `SHARDMARK_SIMD`, or why it does not start.
    pub fn simd(&self) -> Result<String, String> {
        let output = Command::new(&self.program).arg("simd").output().map_err(|error| error.to_string())?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).lines().next().unwrap_or_default().to_string();
        if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) }
    }

    /// Where results come from that are made here: see [`shardmark_plan::provenance`], and `simd` if it is known.
    pub fn origin(&self) -> BTreeMap<String, String> {
        let mut map = provenance::collect();
        map.extend(self.simd().ok().map(|simd| ("simd".to_string(), simd)));
        map
    }

    /// The command that runs the rank program with these arguments on so many ranks.
    pub fn command(&self, transport: Transport, ranks: usize, threads: usize, arguments: &[&str]) -> Command {
        let mut command = match transport {
            Transport::Threads => Command::new(&self.program),
            Transport::Mpi => {
                let words: Vec<String> = self.words.iter().map(|w| w.replace("{ranks}", &ranks.to_string())).collect();
                let mut command = Command::new(&words[0]);
                command.args(&words[1..]).arg(&self.program).envs(self.environment(ranks, threads));
                command
            }
        };
        command.args(arguments);
        command
    }

    /// What the process gets if this program is killed: ranks die, a launcher takes its ranks with it.
    pub fn on_our_death(transport: Transport) -> i32 {
        if transport == Transport::Mpi { libc::SIGTERM } else { libc::SIGKILL }
    }

    /// What Open MPI (4 and 5) needs to be told here, and no more: that root may run it; that more ranks than cores are
    /// meant, and that they are not bound then, nor when a rank has several threads (by default it is bound to one
    /// core). What the user has set stays.
    pub fn environment(&self, ranks: usize, threads: usize) -> BTreeMap<&'static str, &'static str> {
        let mut wanted = BTreeMap::new();
        if self.root {
            for name in ["OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"] {
                wanted.insert(name, "1");
            }
            for name in ["PRTE_ALLOW_RUN_AS_ROOT", "PRTE_ALLOW_RUN_AS_ROOT_CONFIRM"] {
                wanted.insert(name, "1");
            }
        }
        // Open MPI counts cores, not hardware threads.
        let oversubscribed = ranks > self.machine.cores.unwrap_or(1).min(self.machine.threads);
        if oversubscribed {
            wanted.insert("OMPI_MCA_rmaps_base_oversubscribe", "1");
            wanted.insert("PRTE_MCA_rmaps_default_mapping_policy", ":oversubscribe");
        }
        if oversubscribed || threads > 1 {
            wanted.insert("OMPI_MCA_hwloc_base_binding_policy", "none");
            wanted.insert("PRTE_MCA_hwloc_default_binding_policy", "none");
        }
        wanted.retain(|name, _| std::env::var_os(name).is_none());
        wanted
    }

    /// Whether the threads of a case's ranks share hardware threads here.
    pub fn oversubscribed(&self, case: &Case) -> bool {
        self.machine.oversubscribed(case.ranks * case.threads_per_rank)
    }

    /// What the record says about how a case was started.
    pub fn provenance(&self, case: &Case) -> Vec<(String, String)> {
        if case.transport == Transport::Threads {
            return Vec::new();
        }
        let environment: Vec<String> =
            self.environment(case.ranks, case.threads_per_rank).iter().map(|(k, v)| format!("{k}={v}")).collect();
        vec![("launcher".into(), self.words.join(" ")), ("launcher_environment".into(), environment.join(" "))]
    }
}

/// The rank program: `$SHARDMARK_RANK_PROGRAM`, or `shardmark-rank` beside this program.
fn rank_program() -> Result<PathBuf, RunError> {
    let path = match std::env::var_os("SHARDMARK_RANK_PROGRAM") {
        Some(path) => PathBuf::from(path),
        None => {
            let here = std::env::current_exe().ok().and_then(|exe| exe.parent().map(Path::to_path_buf));
            here.unwrap_or_default().join("shardmark-rank")
        }
    };
    if path.is_file() { Ok(path) } else { Err(RunError::NoRankProgram { path }) }
}
