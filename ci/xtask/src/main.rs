//! The checks of the repository. `cargo xtask check` runs them all, `cargo xtask NAME` runs one; continuous integration
//! calls nothing else.

mod run;
mod steps;
mod tidy;
mod tree;

use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

use steps::{STEPS, Step};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let wanted: Vec<&Step> = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["check"] => STEPS.iter().collect(),
        [name] => STEPS.iter().filter(|step| step.name == name).collect(),
        _ => Vec::new(),
    };
    if wanted.is_empty() {
        eprint!("{}", usage());
        return ExitCode::from(2);
    }
    // This file's crate is two folders below the root.
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    if let Err(error) = std::env::set_current_dir(&root) {
        eprintln!("xtask: {}: expected the repository's root, got {error}; build xtask again", root.display());
        return ExitCode::FAILURE;
    }
    let outcomes: Vec<Outcome> = wanted.iter().fold(Vec::new(), |mut outcomes, step| {
        outcomes.push(attempt(step, &outcomes));
        outcomes
    });
    print!("{}", summary(&outcomes));
    if outcomes.iter().all(|outcome| outcome.verdict == Verdict::Passed) {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

fn usage() -> String {
    let mut text = String::from("usage: cargo xtask check | NAME\n\n  check        all of these, in this order\n");
    for step in STEPS {
        text += &format!("  {:<12} {}\n", step.name, step.what);
    }
    text
}

#[derive(Clone, Copy, PartialEq)]
enum Verdict {
    Passed,
    Failed,
    Skipped,
}

struct Outcome {
    name: &'static str,
    seconds: f64,
    verdict: Verdict,
}

/// Runs one step, unless a step that it needs has failed. The other steps go on: one run tells everything.
fn attempt(step: &Step, before: &[Outcome]) -> Outcome {
    println!("\n== {}: {}", step.name, step.what);
    let blocked = before.iter().any(|outcome| outcome.verdict != Verdict::Passed && step.needs.contains(&outcome.name));
    if blocked {
        println!("skipped: {} did not pass", step.needs.join(" or "));
        return Outcome { name: step.name, seconds: 0.0, verdict: Verdict::Skipped };
    }
    let start = Instant::now();
    let verdict = match (step.run)() {
        Ok(()) => Verdict::Passed,
        Err(message) => {
            println!("{}: {message}", step.name);
            Verdict::Failed
        }
    };
    Outcome { name: step.name, seconds: start.elapsed().as_secs_f64(), verdict }
}

fn summary(outcomes: &[Outcome]) -> String {
    let count = |verdict| outcomes.iter().filter(|outcome| outcome.verdict == verdict).count();
    let mut text = String::from("\nstep         seconds  verdict\n");
    for Outcome { name, seconds, verdict } in outcomes {
        let verdict = match verdict {
            Verdict::Passed => "passed",
            Verdict::Failed => "FAILED",
            Verdict::Skipped => "skipped",
        };
        text += &format!("{name:<12} {seconds:>7.1}  {verdict}\n");
    }
    let (passed, failed, skipped) = (count(Verdict::Passed), count(Verdict::Failed), count(Verdict::Skipped));
    text + &format!("{passed} passed, {failed} failed, {skipped} skipped\n")
}
