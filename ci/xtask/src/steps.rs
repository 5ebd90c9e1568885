//! The steps of `cargo xtask check`, from the quick to the slow.

use std::process::Command;

use serde_json::Value;

use crate::run::{cargo, limited, output, program, run};
use crate::tidy;
use crate::tree::Tree;

/// One check of the repository.
pub struct Step {
    /// As given on the command line.
    pub name: &'static str,
    /// One line for people.
    pub what: &'static str,
    /// Steps without which this one cannot work.
    pub needs: &'static [&'static str],
    /// Does it.
    pub run: fn() -> Result<(), String>,
}

/// All of them. Each cargo command takes the whole workspace: chosen packages would resolve other features and build twice.
pub const STEPS: &[Step] = &[
    Step { name: "fmt", what: "rustfmt has nothing to change", needs: &[], run: fmt },
    Step { name: "tidy", what: "rules that no compiler knows", needs: &[], run: tidy::tidy },
    Step { name: "scripts", what: "scripts of ci/ parse, and the arithmetic in them", needs: &[], run: scripts },
    Step { name: "build", what: "the programs", needs: &[], run: build },
    Step { name: "clippy", what: "no warning of the compiler or of clippy", needs: &[], run: clippy },
    Step { name: "test", what: "all tests, ranks as threads", needs: &["build"], run: test },
    Step { name: "mpi", what: "the communicator under mpirun, 1 to 4 ranks", needs: &["test"], run: mpi },
    Step {
        name: "program",
        what: "shardmark check: grids against the serial run, threads and MPI",
        needs: &["build"],
        run: check_grids,
    },
    Step { name: "reference", what: "shardmark verify: files of PyTorch", needs: &["build"], run: verify_files },
    Step { name: "readme", what: "the programs know every command of README", needs: &["build"], run: readme },
    Step { name: "bench-smoke", what: "every benchmark once, untimed", needs: &["build"], run: bench_smoke },
];

/// What Open MPI needs to run more ranks than cores, unbound, also for root. Of no effect on other MPIs.
const MPI_ENVIRONMENT: [(&str, &str); 8] = [
    ("OMPI_ALLOW_RUN_AS_ROOT", "1"),
    ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"),
    ("OMPI_MCA_rmaps_base_oversubscribe", "1"),
    ("OMPI_MCA_hwloc_base_binding_policy", "none"),
    ("PRTE_ALLOW_RUN_AS_ROOT", "1"),
    ("PRTE_ALLOW_RUN_AS_ROOT_CONFIRM", "1"),
    ("PRTE_MCA_rmaps_default_mapping_policy", ":oversubscribe"),
    ("PRTE_MCA_hwloc_default_binding_policy", "none"),
];

fn fmt() -> Result<(), String> {
    run(&mut cargo(&["fmt", "--all", "--check"]))
}

/// Shell scripts by bash, Python files and their tests by python3 where there is one: what needs more than cargo and a C
/// compiler (PyTorch above all) is not run.
fn scripts() -> Result<(), String> {
    let tree = Tree::read()?;
    let is_shell = |path: &&str| tree.text(path).is_some_and(|text| text.starts_with("#!/usr/bin/env bash\n"));
    for script in tree.paths().filter(is_shell) {
        run(Command::new("bash").args(["-n", script]))?;
    }
    if Command::new("python3").arg("--version").output().is_err() {
        println!("no python3 here: Python files are not looked at");
        return Ok(());
    }
    const PARSE: &str = "import ast, sys\nfor path in sys.argv[1:]: ast.parse(open(path).read(), path)";
    run(Command::new("python3").args(["-c", PARSE]).args(tree.paths().filter(|path| path.ends_with(".py"))))?;
    // In processes of their own: both folders have a `compare` and a `table`.
    ["ci/scale", "ci/pytorch"].into_iter().try_for_each(|folder| {
        let tests = ["-B", "-m", "unittest", &format!("{folder}/tests.py")];
        run(Command::new("python3").args(tests).env("PYTHONPATH", format!("ci/measure:{folder}")))
    })
}

fn build() -> Result<(), String> {
    run(&mut cargo(&["build", "--workspace", "--release"]))
}

fn clippy() -> Result<(), String> {
    run(&mut cargo(&["clippy", "--workspace", "--release", "--all-targets", "--", "-D", "warnings"]))
}

fn test() -> Result<(), String> {
    run(cargo(&["test", "--workspace", "--release", "--no-fail-fast"]).envs(MPI_ENVIRONMENT))
}

/// Runs every test program named `mpi` (they have no harness: MPI starts once in a process).
fn mpi() -> Result<(), String> {
    let built = output(&mut cargo(&["test", "--workspace", "--release", "--no-run", "--message-format=json"]))?;
    let programs = mpi_tests(&built);
    if programs.is_empty() {
        return Err("cargo test: expected a test program named mpi, got none; see kernels/comm-mpi".into());
    }
    for program in &programs {
        for ranks in 1..=4 {
            run(limited(300, "mpirun").args(["-n", &ranks.to_string(), program]).envs(MPI_ENVIRONMENT))?;
        }
    }
    Ok(())
}

/// The executables of the test targets named `mpi` in cargo's messages.
fn mpi_tests(messages: &str) -> Vec<String> {
    let messages = messages.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let wanted =
        messages.filter(|message| message["target"]["name"] == "mpi" && message["target"]["kind"][0] == "test");
    wanted.filter_map(|message| message["executable"].as_str().map(String::from)).collect()
}

/// Every network to 4 ranks; more ranks and MPI with those that are quick. `shardmark check` alone does all of them on
/// threads, in about ten minutes.
fn check_grids() -> Result<(), String> {
    let shardmark = program("shardmark")?;
    for arguments in [
        "--ranks 1,2,3,4",
        "--ranks 6,8 -- --only small",
        "--transport mpi --ranks 1,2,3,4 -- --only small",
        "--transport mpi --ranks 4 -- --only 36x41x33",
    ] {
        run(Command::new(&shardmark).arg("check").args(arguments.split(' ')))?;
    }
    Ok(())
}

fn verify_files() -> Result<(), String> {
    let shardmark = program("shardmark")?;
    let tree = Tree::read()?;
    let files: Vec<&str> =
        tree.paths().filter(|path| path.starts_with("ci/reference/") && path.ends_with(".h5")).collect();
    if files.is_empty() {
        return Err("ci/reference: expected files *.h5, got none; see its README".into());
    }
    for file in files {
        for grid in ["1x1x1x1", "1x2x2x1", "1x1x1x3"] {
            run(Command::new(&shardmark).args(["verify", file, "--grid", grid]))?;
        }
    }
    Ok(())
}

/// Each command of README, with `--help` added: parsed to the end, but not carried out.
fn readme() -> Result<(), String> {
    let tree = Tree::read()?;
    let commands = tidy::commands(tree.text("README.md").unwrap_or_default());
    for command in commands {
        if let Some((name @ ("shardmark" | "shardmark-rank"), arguments)) = command.split_once(' ') {
            println!("$ {command} --help");
            output(Command::new(program(name)?).args(words(arguments)).arg("--help"))?;
        }
    }
    Ok(())
}

/// The words of a shell line in which only single quotes are used.
fn words(line: &str) -> Vec<&str> {
    let quoted = line.split('\'').enumerate();
    quoted.flat_map(|(i, part)| if i % 2 == 1 { vec![part] } else { part.split_whitespace().collect() }).collect()
}

fn bench_smoke() -> Result<(), String> {
    // Not `--benches`, which would run the unit tests once more.
    run(&mut cargo(&["test", "--workspace", "--release", "--bench", "*"]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mpi_tests_are_found_in_cargos_messages() {
        let messages = concat!(
            r#"{"reason":"compiler-artifact","target":{"kind":["test"],"name":"mpi"},"executable":"/t/mpi-1"}"#,
            "\n",
            r#"{"reason":"compiler-artifact","target":{"kind":["lib"],"name":"mpi"},"executable":null}"#,
            "\n",
            r#"{"reason":"compiler-artifact","target":{"kind":["test"],"name":"other"},"executable":"/t/other-1"}"#,
            "\nnot JSON\n",
        );
        assert_eq!(mpi_tests(messages), ["/t/mpi-1"]);
    }

    #[test]
    fn quoted_words_stay_together() {
        assert_eq!(words("run 'cosmoflow ranks=2' --fresh"), ["run", "cosmoflow ranks=2", "--fresh"]);
    }
}
