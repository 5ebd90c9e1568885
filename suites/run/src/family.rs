//! A child process with everything that it starts: they live and die together.
//!
//! The child leads its own process group, so that one signal reaches the group. Open MPI gives each rank a group of its
//! own; therefore this program is also the *subreaper* of its descendants: what outlives its parent becomes our child
//! and is found and ended in [`Family::end`]. And if this program is killed, the kernel ends the child (and a launcher
//! that is told to terminate ends its ranks).

use std::fs;
use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use shardmark_plan::outcome::Status;

/// How long the members of a family may take to vanish after they were killed.
const REAP: Duration = Duration::from_secs(2);

/// A child and its descendants.
pub struct Family {
    child: Child,
}

impl Family {
    /// Starts the command as the head of a family. `on_our_death` is the signal the child gets if this program is
    /// killed.
    pub fn start(command: &mut Command, on_our_death: i32) -> io::Result<Family> {
        let parent = std::process::id();
        // SAFETY: prctl and getppid are async-signal-safe and touch no memory of the parent.
        unsafe {
            libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1);
            command.process_group(0).pre_exec(move || {
                libc::prctl(libc::PR_SET_PDEATHSIG, on_our_death);
                // This program may have died before the line above.
                if libc::getppid().unsigned_abs() == parent { Ok(()) } else { Err(io::ErrorKind::BrokenPipe.into()) }
            });
        }
        Ok(Family { child: command.spawn()? })
    }

    /// The child itself.
    pub fn child(&mut self) -> &mut Child {
        &mut self.child
    }

    /// How the child ended, if it has.
    pub fn status(&mut self) -> io::Result<Option<Status>> {
        Ok(self.child.try_wait()?.map(|status| match (status.code(), status.signal()) {
            (Some(code), _) => Status::Code(code),
            (None, signal) => Status::Signal(signal.unwrap_or(0)),
        }))
    }

    /// Sends a signal to the child's process group.
    pub fn signal(&self, signal: i32) {
        if let Ok(group) = i32::try_from(self.child.id()) {
            // SAFETY: plain system call. The group exists as long as it has a member; a signal to none is an error we
            // ignore.
            unsafe { libc::kill(-group, signal) };
        }
    }

    /// Whether a process descends from the child (or did, until its parent ended and it became ours).
    pub fn descends(&self, pid: i32) -> bool {
        // Deeper than any launcher; numbers that are given anew meanwhile could make a circle.
        const DEEPEST: usize = 64;
        let ends = [self.child.id().cast_signed(), std::process::id().cast_signed()];
        let parent = |pid: i32| Process::read(pid).map(|process| process.parent);
        let mut ancestors = std::iter::successors(parent(pid), |&pid| parent(pid)).take(DEEPEST);
        ancestors.any(|ancestor| ends.contains(&ancestor))
    }

    /// CPU time that the living members have used, the child's children and theirs included.
    pub fn cpu_time(&self) -> Duration {
        let all = processes();
        let mut family = vec![self.child.id().cast_signed(), std::process::id().cast_signed()];
        loop {
            let known = family.len();
            family.extend(
                all.iter()
                    .filter(|p| family.contains(&p.parent) && !family.contains(&p.pid))
                    .map(|p| p.pid)
                    .collect::<Vec<_>>(),
            );
            if family.len() == known {
                break;
            }
        }
        let us = std::process::id().cast_signed();
        let ticks: u64 = all.iter().filter(|p| p.pid != us && family.contains(&p.pid)).map(|p| p.ticks).sum();
        // SAFETY: plain query.
        let per_second = unsafe { libc::sysconf(libc::_SC_CLK_TCK) }.max(1);
        Duration::from_secs_f64(ticks as f64 / per_second as f64)
    }

    /// Kills what is left of the family after the child has ended (or kills the child too), and waits until it is gone.
    pub fn end(&mut self) {
        self.signal(libc::SIGKILL);
        let _ = self.child.kill();
        let _ = self.child.wait();
        let deadline = Instant::now() + REAP;
        loop {
            let orphans = our_children();
            if orphans.is_empty() || Instant::now() > deadline {
                return;
            }
            for pid in orphans {
                // SAFETY: plain system calls on a child of ours that nobody else waits for.
                unsafe {
                    libc::kill(pid, libc::SIGKILL);
                    libc::waitpid(pid, std::ptr::null_mut(), libc::WNOHANG);
                }
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Family {
    fn drop(&mut self) {
        self.end();
    }
}

/// The processes whose parent is this one.
fn our_children() -> Vec<i32> {
    let us = std::process::id().cast_signed();
    processes().into_iter().filter(|process| process.parent == us).map(|process| process.pid).collect()
}

/// What the kernel tells of a process.
struct Process {
    pid: i32,
    parent: i32,
    /// CPU time so far, in ticks of the kernel's clock.
    ticks: u64,
}

impl Process {
    /// What there is to know of a process that exists.
    fn read(pid: i32) -> Option<Process> {
        // pid (name) state parent ... utime stime; the name may hold spaces and brackets.
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
        let ticks = fields.get(11)?.parse::<u64>().ok()? + fields.get(12)?.parse::<u64>().ok()?;
        Some(Process { pid, parent: fields.get(1)?.parse().ok()?, ticks })
    }
}

/// All processes.
fn processes() -> Vec<Process> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    entries.filter_map(|entry| Process::read(entry.ok()?.file_name().to_str()?.parse().ok()?)).collect()
}
