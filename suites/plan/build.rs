//! Hands the commit, the compiler's version, its flags and the target on to the provenance of results.

use std::path::Path;
use std::process::Command;

/// What the programs are built from; tests, checks and pages are not.
const SOURCES: [&str; 5] =
    [":(top)*.rs", ":(top)*Cargo.toml", ":(top)Cargo.lock", ":(top,exclude)*/tests/*", ":(top,exclude)ci/*"];

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let variable = |name: &str| std::env::var(name).unwrap_or_default();
    let rustc = Command::new(variable("RUSTC")).arg("--version").output();
    let rustc = rustc.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_string()).unwrap_or_default();
    println!("cargo::rustc-env=SHARDMARK_RUSTC={rustc}");
    println!("cargo::rustc-env=SHARDMARK_RUSTFLAGS={}", variable("CARGO_ENCODED_RUSTFLAGS").replace('\x1f', " "));
    println!("cargo::rustc-env=SHARDMARK_TARGET={}", variable("TARGET"));
    println!("cargo::rustc-env=SHARDMARK_OPT_LEVEL={}", variable("OPT_LEVEL"));
    if let Some(commit) = commit() {
        println!("cargo::rustc-env=SHARDMARK_COMMIT={commit}");
    }
}

/// The commit of the source tree, with `-dirty` if a source differs from it; `None` without git or its repository. Asks
/// cargo to run this again when the commit or a source changes, and only then.
fn commit() -> Option<String> {
    let commit = git(&["rev-parse", "HEAD"])?;
    let branch = git(&["rev-parse", "--symbolic-full-name", "HEAD"])?;
    // The branch may be packed into another file; the log of HEAD tells of every commit all the same.
    for name in ["HEAD", "logs/HEAD", &branch] {
        let path = git(&["rev-parse", "--git-path", name])?;
        if Path::new(&path).is_file() {
            println!("cargo::rerun-if-changed={path}");
        }
    }
    let sources = git(&[&["ls-files", "--"], &SOURCES[..]].concat())?;
    // Nothing is known here: an archive unpacked in a repository of others.
    if sources.is_empty() {
        return None;
    }
    for source in sources.lines() {
        println!("cargo::rerun-if-changed={source}");
    }
    let changes = git(&[&["status", "--porcelain", "--untracked-files=no", "--"], &SOURCES[..]].concat())?;
    Some(if changes.is_empty() { commit } else { commit + "-dirty" })
}

/// What git prints, unless it fails. It takes no locks: others may be at work in the repository.
fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").arg("--no-optional-locks").args(arguments).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_string())
}
