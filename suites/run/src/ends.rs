//! Which of the ranks on this host ends first, from the kernel: launchers do not always tell.
//!
//! A rank says its process when it starts. Each gets a *pidfd*, a file that is ready to read once its process has ended,
//! in one *epoll*, which lists files in the order in which they became ready. So it need not be looked at in time: when
//! the launcher has ended all other ranks, the first is still the first.

use std::collections::BTreeSet;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// The ranks of a case that are watched.
pub struct Ends {
    epoll: OwnedFd,
    /// Kept open: a file that is closed leaves the list.
    processes: Vec<OwnedFd>,
    ranks: BTreeSet<usize>,
}

impl Ends {
    /// Without ranks.
    ///
    /// # Errors
    /// A system without such files, or no room for another one.
    pub fn new() -> io::Result<Ends> {
        // SAFETY: a plain call; `owned` takes what it gives.
        let epoll = owned(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) }.into())?;
        Ok(Ends { epoll, processes: Vec::new(), ranks: BTreeSet::new() })
    }

    /// Watches the process of a rank. `ours` tells, once the process is held, whether that number is one of this case's
    /// processes: else it is that of another host or container, or was given anew.
    ///
    /// # Errors
    /// No such process, or no room for another file.
    pub fn watch(&mut self, rank: usize, pid: i32, ours: impl FnOnce() -> bool) -> io::Result<()> {
        // SAFETY: a plain call; `owned` takes what it gives.
        let process = owned(unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) })?;
        if !ours() || !self.ranks.insert(rank) {
            return Ok(());
        }
        let mut event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: rank as u64 };
        // SAFETY: both files are open, and the call reads the event only.
        let added = unsafe {
            libc::epoll_ctl(self.epoll.as_raw_fd(), libc::EPOLL_CTL_ADD, process.as_raw_fd(), &raw mut event)
        };
        if added != 0 {
            self.ranks.remove(&rank);
            return Err(io::Error::last_os_error());
        }
        self.processes.push(process);
        Ok(())
    }

    /// The rank that ended first, if all `ranks` of the case are watched and one has ended. To be asked once: the list
    /// turns with each answer.
    pub fn first(self, ranks: usize) -> Option<usize> {
        if self.ranks.len() != ranks {
            return None;
        }
        let mut event = libc::epoll_event { events: 0, u64: 0 };
        // SAFETY: room for the one event that is asked for; the call does not wait.
        let ready = unsafe { libc::epoll_wait(self.epoll.as_raw_fd(), &raw mut event, 1, 0) };
        (ready == 1).then_some(event.u64 as usize)
    }
}

/// A new file, or the call's error.
fn owned(file: libc::c_long) -> io::Result<OwnedFd> {
    match i32::try_from(file) {
        // SAFETY: the system has just opened it for us.
        Ok(file) if file >= 0 => Ok(unsafe { OwnedFd::from_raw_fd(file) }),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Child, Command};

    fn ranks(count: usize) -> (Ends, Vec<Child>) {
        let mut ends = Ends::new().unwrap();
        let children: Vec<Child> = (0..count).map(|_| Command::new("sleep").arg("1000").spawn().unwrap()).collect();
        for (rank, child) in children.iter().enumerate() {
            ends.watch(rank, child.id() as i32, || true).unwrap();
        }
        (ends, children)
    }

    fn end(children: &mut [Child], order: impl IntoIterator<Item = usize>) {
        for rank in order {
            children[rank].kill().unwrap();
            children[rank].wait().unwrap();
        }
    }

    #[test]
    fn the_first_to_end_is_the_first_whenever_it_is_asked() {
        for first in 0..4 {
            let (ends, mut children) = ranks(4);
            end(&mut children, (0..4).map(|i| (first + 3 * i) % 4));
            assert_eq!(ends.first(4), Some(first));
        }
    }

    #[test]
    fn nothing_is_said_of_ranks_that_are_not_all_watched() {
        let (mut ends, mut children) = ranks(2);
        ends.watch(2, std::process::id() as i32, || false).unwrap();
        assert!(ends.watch(3, i32::MAX, || true).is_err());
        end(&mut children, [1, 0]);
        assert_eq!(ends.first(3), None);
        let (ends, mut children) = ranks(2);
        assert_eq!(ends.first(2), None);
        end(&mut children, [0, 1]);
    }
}
