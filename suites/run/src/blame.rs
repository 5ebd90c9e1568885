//! What went wrong with a case, in one line that names the rank where it can be known.

use shardmark_plan::Event;
use shardmark_plan::outcome::{Outcome, Status, Stopped};

/// What is known beside the events.
pub struct Heard<'a> {
    /// The last lines of the log.
    pub log: &'a [String],
    /// The launched rank that ended first.
    pub first: Option<usize>,
}

/// The message of a case that did not end well: what the ranks said, else what the launcher said, else who ended first,
/// else how the process ended.
pub fn message(
    outcome: Outcome,
    stopped: Option<Stopped>,
    events: &[Event],
    status: Status,
    Heard { log, first }: &Heard<'_>,
) -> String {
    let wrong = events.iter().find_map(|event| match event {
        Event::Check { passed: false, used, message } => {
            Some(format!("check failed at {used:.3} of the tolerance: {message}"))
        }
        _ => None,
    });
    // A rank that was stopped and is woken to be ended may find then that it has waited for long: the first one is right.
    let hang = events.iter().find_map(hang);
    let said = if outcome == Outcome::Wrong { wrong.or(hang) } else { hang.or(wrong) };
    // The first failure is the cause; the others follow from it.
    let failed = events.iter().find_map(|event| match event {
        Event::Failed { rank, message } => Some(format!("rank {rank}: {message}")),
        _ => None,
    });
    match (outcome, stopped) {
        (Outcome::Ok, _) => String::new(),
        (_, Some(Stopped::Timeout)) => with("longer than its timeout", said),
        (_, Some(Stopped::Silent)) => said.unwrap_or_else(|| "no sign of life for the hang limit".into()),
        (_, Some(Stopped::Interrupted)) => "stopped by a signal".into(),
        _ => failed.or(said).unwrap_or_else(|| {
            // A launcher that is killed itself takes its ranks with it, and one that ends well had no rank that failed.
            let first = first.filter(|_| matches!(status, Status::Code(code) if code != 0));
            let first = || first.map(|rank| format!("rank {rank} ended first"));
            let named = killed_rank(log).or_else(first);
            with(&ended(status), named.or_else(|| unnamed_rank(status, log)).or_else(|| last(log)))
        }),
    }
}

/// A rank that waits, for whom and since when.
fn hang(event: &Event) -> Option<String> {
    const SHOWN: usize = 8;
    let Event::Hang { rank, operation, peers, seconds } = event else { return None };
    let shown: Vec<String> = peers.iter().take(SHOWN).map(usize::to_string).collect();
    let more = peers.len().checked_sub(SHOWN + 1).map_or(String::new(), |more| format!(" and {} more", more + 1));
    let from = if peers.is_empty() { String::new() } else { format!(" for rank {}{more}", shown.join(", ")) };
    Some(format!("rank {rank} waits in {operation}{from} since {seconds:.1} s"))
}

fn with(what: &str, more: Option<String>) -> String {
    more.map_or(what.to_string(), |more| format!("{what}: {more}"))
}

/// How a process ended, in words.
fn ended(status: Status) -> String {
    let name = |signal| match signal {
        libc::SIGKILL => " (killed)",
        libc::SIGSEGV => " (segmentation fault)",
        libc::SIGABRT => " (aborted)",
        libc::SIGBUS => " (bus error)",
        libc::SIGILL => " (illegal instruction)",
        libc::SIGTERM => " (terminated)",
        _ => "",
    };
    match status {
        Status::Code(0) => "ended without a record".into(),
        Status::Code(code) if code > 128 => format!("exit code {code}{}", name(code - 128)),
        Status::Code(code) => format!("exit code {code}"),
        Status::Signal(signal) => format!("signal {signal}{}", name(signal)),
    }
}

/// The rank that a launcher names as the first to end: Open MPI and PRRTE (`process rank 1 with PID ... exited on
/// signal 9`), MPICH (`=   RANK 1 PID ... RUNNING AT`), Slurm (`srun: error: node7: task 1: Killed`).
fn killed_rank(log: &[String]) -> Option<String> {
    log.iter().find_map(|line| {
        let after = ["process rank ", "=   RANK ", ": task "].iter().find_map(|mark| line.split_once(mark))?.1;
        let rank: usize = after.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()?;
        let how = after.split_once("exited on ").map_or("ended first", |(_, how)| how.trim_end_matches('.'));
        Some(format!("rank {rank} {}", if how == "ended first" { how.into() } else { format!("ended by {how}") }))
    })
}

/// Open MPI ends with a notice of the rank that was killed, but often (4.1.4: more than half of the time on a busy machine)
/// only with the one before it; ranks of other hosts are not watched.
fn unnamed_rank(status: Status, log: &[String]) -> Option<String> {
    let killed = matches!(status, Status::Code(code) if code > 128);
    let notice = log.iter().any(|line| line.contains("Per user-direction, the job has been aborted"));
    (killed && notice).then(|| "one of the ranks, the launcher does not say which".into())
}

/// The last line of the log that says something.
fn last(log: &[String]) -> Option<String> {
    log.iter().rev().find(|line| line.chars().any(char::is_alphanumeric)).map(|line| line.trim().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn say(status: Status, events: &[Event], log: &str) -> String {
        let log: Vec<String> = log.lines().map(String::from).collect();
        message(Outcome::Failed, None, events, status, &Heard { log: &log, first: None })
    }

    const NOTHING: Heard<'_> = Heard { log: &[], first: None };

    #[test]
    fn the_rank_is_named_where_it_is_known() {
        let first = Event::Failed { rank: 2, message: "index out of bounds".into() };
        let second = Event::Failed { rank: 0, message: "rank 2 is gone".into() };
        assert_eq!(say(Status::Code(1), &[first, second], ""), "rank 2: index out of bounds");
        let open_mpi =
            "noise\nmpirun noticed that process rank 1 with PID 77 on node n exited on signal 9 (Killed).\n---";
        assert_eq!(say(Status::Code(137), &[], open_mpi), "exit code 137 (killed): rank 1 ended by signal 9 (Killed)");
        let notice = "1 process returned\na non-zero exit code. Per user-direction, the job has been aborted.\n---";
        assert_eq!(
            say(Status::Code(137), &[], notice),
            "exit code 137 (killed): one of the ranks, the launcher does not say which"
        );
        assert_eq!(
            say(Status::Code(137), &[], &format!("{notice}\n{open_mpi}")),
            "exit code 137 (killed): rank 1 ended by signal 9 (Killed)"
        );
        let code = format!("{notice}\nProcess name: [[1,1],1]\nExit code:    7");
        assert_eq!(say(Status::Code(7), &[], &code), "exit code 7: Exit code:    7");
        let mpich = "=   BAD TERMINATION\n=   RANK 3 PID 99 RUNNING AT host\n=   EXIT CODE: 9";
        assert_eq!(say(Status::Code(9), &[], mpich), "exit code 9: rank 3 ended first");
        assert_eq!(say(Status::Code(1), &[], "srun: error: n7: task 12: Killed"), "exit code 1: rank 12 ended first");
    }

    #[test]
    fn the_first_to_end_is_named_if_nobody_else_says_more() {
        let notice = ["Per user-direction, the job has been aborted.".to_string()];
        let say = |status, log| message(Outcome::Failed, None, &[], status, &Heard { log, first: Some(2) });
        assert_eq!(say(Status::Code(137), &notice), "exit code 137 (killed): rank 2 ended first");
        let slurm = ["srun: error: n7: task 12: Killed".to_string()];
        assert_eq!(say(Status::Code(137), &slurm), "exit code 137 (killed): rank 12 ended first");
        assert_eq!(say(Status::Signal(9), &[]), "signal 9 (killed)");
        assert_eq!(say(Status::Code(0), &[]), "ended without a record");
    }

    #[test]
    fn without_a_rank_the_end_and_the_last_line_are_told() {
        assert_eq!(say(Status::Signal(9), &[], ""), "signal 9 (killed)");
        assert_eq!(say(Status::Code(7), &[], "first\nno such file\n----\n"), "exit code 7: no such file");
        assert_eq!(say(Status::Code(0), &[], ""), "ended without a record");
    }

    #[test]
    fn a_hang_names_rank_operation_and_peers() {
        let hang = Event::Hang { rank: 2, operation: "recv".into(), peers: vec![1, 3], seconds: 5.0 };
        // A rank that was stopped wakes when the job is ended.
        let woken = Event::Hang { rank: 1, operation: "barrier".into(), peers: vec![2], seconds: 9.0 };
        assert_eq!(
            message(Outcome::Hang, None, &[hang, woken], Status::Code(11), &NOTHING),
            "rank 2 waits in recv for rank 1, 3 since 5.0 s"
        );
        let all = Event::Hang { rank: 0, operation: "split".into(), peers: (1..11).collect(), seconds: 5.0 };
        assert_eq!(
            super::hang(&all).unwrap(),
            "rank 0 waits in split for rank 1, 2, 3, 4, 5, 6, 7, 8 and 2 more since 5.0 s"
        );
    }

    #[test]
    fn a_check_that_failed_is_told_unless_the_case_hangs_afterwards() {
        let check = || Event::Check { passed: false, used: 2.0, message: "loss".into() };
        let hang = || Event::Hang { rank: 0, operation: "recv".into(), peers: vec![1], seconds: 5.0 };
        let said = |outcome| message(outcome, None, &[check(), hang()], Status::Code(11), &NOTHING);
        assert_eq!(said(Outcome::Hang), "rank 0 waits in recv for rank 1 since 5.0 s");
        assert_eq!(said(Outcome::Wrong), "check failed at 2.000 of the tolerance: loss");
    }
}
