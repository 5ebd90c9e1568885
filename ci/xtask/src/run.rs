//! Running other programs: what is run is printed, what fails is told with its exit code.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::Value;

/// `cargo`, the one that runs us.
pub fn cargo(arguments: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(arguments);
    command
}

/// A program that gets so many seconds; then it is told to end, and killed if it does not.
pub fn limited(seconds: u32, program: &str) -> Command {
    let mut command = Command::new("timeout");
    command.args(["--kill-after=20", &seconds.to_string(), program]);
    command
}

/// Runs to the end.
///
/// # Errors
/// It cannot be started, or its exit code is not 0.
pub fn run(command: &mut Command) -> Result<(), String> {
    println!("$ {}", line(command));
    let status = command.status().map_err(|error| cannot_start(command, &error))?;
    if status.success() { Ok(()) } else { Err(ended(command, status)) }
}

/// Runs to the end and gives what it wrote to its standard output.
///
/// # Errors
/// It cannot be started, its exit code is not 0, or it writes no UTF-8.
pub fn output(command: &mut Command) -> Result<String, String> {
    let output = command.stderr(Stdio::inherit()).output().map_err(|error| cannot_start(command, &error))?;
    if !output.status.success() {
        return Err(ended(command, output.status));
    }
    String::from_utf8(output.stdout).map_err(|error| format!("{}: expected text, got {error}", line(command)))
}

/// `cargo metadata` of the workspace, without its external dependencies.
///
/// # Errors
/// A manifest is wrong.
pub fn metadata() -> Result<Value, String> {
    let text = output(&mut cargo(&["metadata", "--format-version=1", "--no-deps"]))?;
    serde_json::from_str(&text).map_err(|error| format!("cargo metadata: expected JSON, got {error}"))
}

/// A program of the workspace, as built by the step `build`.
///
/// # Errors
/// There is no such file.
pub fn program(name: &str) -> Result<PathBuf, String> {
    let target =
        metadata()?["target_directory"].as_str().map(PathBuf::from).ok_or("cargo metadata: no target directory")?;
    let path = target.join("release").join(name);
    if path.is_file() {
        Ok(path)
    } else {
        Err(format!("{}: expected a program, got none; run `cargo xtask build`", path.display()))
    }
}

fn line(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

fn cannot_start(command: &Command, error: &std::io::Error) -> String {
    format!("{}: expected to start it, got: {error}; install it (ci/setup)", command.get_program().to_string_lossy())
}

fn ended(command: &Command, status: std::process::ExitStatus) -> String {
    let why = if status.code() == Some(124) { " (took too long)" } else { "" };
    format!("{}: expected exit code 0, got {status}{why}", line(command))
}
