//! How much memory the tensors of a case take, by the rank program's plan.

use shardmark_plan::Case;
use shardmark_plan::event::Memory;
use shardmark_plan::machine::Machine;
use shardmark_plan::value::Transport;

use crate::columns::gib;
use crate::launch::Launcher;

/// The plan's tensors in words, and what they leave out; also that there is no plan, and why.
pub fn text(launcher: &Launcher, case: &Case) -> String {
    match estimate(launcher, case) {
        Ok(memory) => {
            let (most, all) = (memory.rank_bytes.iter().max().copied().unwrap_or(0), memory.rank_bytes.iter().sum());
            let available = Machine::here().available.map(|bytes| format!("; {} available here", gib(bytes)));
            format!(
                "tensors: {} on the largest rank by the plan, {} in all, without {}{}",
                gib(most),
                gib(all),
                Memory::UNCOUNTED,
                available.unwrap_or_default()
            )
        }
        Err(reason) => format!("tensors: no plan ({reason})"),
    }
}

/// Asks the rank program, in one process whatever the transport.
fn estimate(launcher: &Launcher, case: &Case) -> Result<Memory, String> {
    let output = launcher.command(Transport::Threads, 1, 1, &["memory", &case.resolved()]).output();
    let output = output.map_err(|error| error.to_string())?;
    let text = String::from_utf8_lossy(if output.status.success() { &output.stdout } else { &output.stderr });
    let last = text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("no output");
    serde_json::from_str(last).map_err(|_| last.to_string())
}
