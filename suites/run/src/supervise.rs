//! One case's process from start to end: its log, its events, its limits, its outcome.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, BufRead, BufReader, LineWriter, Read, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use shardmark_plan::outcome::{Outcome, Status, Stopped, classify};
use shardmark_plan::{Event, machine};

use crate::blame;
use crate::ends::Ends;
use crate::family::Family;
use crate::signals::Signals;

/// How often signals and limits are looked at.
const TICK: Duration = Duration::from_millis(20);
/// How long a process may take to end by itself after it was told to, or after it said that it fails.
const GRACE: Duration = Duration::from_secs(4);
/// How long the output of an ended process is waited for.
const DRAIN: Duration = Duration::from_secs(1);
/// The shortest automatic hang limit.
const HANG_FLOOR: Duration = Duration::from_secs(60);
/// A process that works is given this many hang limits without an event (the ranks' own watchdog sees earlier what
/// hangs).
const LIMITS_AT_WORK: u32 = 10;
/// A process works if it uses at least this share of one CPU.
const AT_WORK: f64 = 0.01;
/// How often the CPU time of a silent process is looked at.
const LOOK: Duration = Duration::from_secs(1);
/// How many lines of the log are kept for the message.
const TAIL: usize = 20;

/// What to run and within what limits.
pub struct Job {
    /// The command; its standard streams are set here.
    pub command: Command,
    /// How many ranks it has.
    pub ranks: usize,
    /// What the process gets if this program is killed: a launcher `SIGTERM`, ranks `SIGKILL`.
    pub on_our_death: i32,
    /// The text at the top of the log.
    pub title: String,
    /// Where its output goes.
    pub log: PathBuf,
    /// Longest silence; `None`: from the slowest finished step.
    pub hang_limit: Option<Duration>,
    /// Longest time in all.
    pub timeout: Option<Duration>,
}

/// How a process ended.
#[derive(Debug)]
pub struct Ended {
    /// In one word.
    pub outcome: Outcome,
    /// In one line; empty if all went well.
    pub message: String,
    /// How the process ended; `None` if it was not started.
    pub status: Option<Status>,
    /// The last lines of its log.
    pub tail: Vec<String>,
    /// What it said.
    pub events: Vec<Event>,
}

impl Ended {
    /// Of a case whose process was not started.
    pub fn before_start(outcome: Outcome, message: String) -> Ended {
        Ended { outcome, message, status: None, tail: Vec::new(), events: Vec::new() }
    }
}

/// Runs a job to its end. `on_event` sees every event as it comes.
///
/// # Errors
/// The command cannot be started, or the log cannot be written.
pub fn supervise(mut job: Job, signals: &Signals, on_event: &mut dyn FnMut(&Event)) -> io::Result<Ended> {
    let memory_kills = machine::memory_kills();
    let mut log = LineWriter::new(File::create(&job.log)?);
    writeln!(log, "{}", job.title)?;
    job.command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let family = Family::start(&mut job.command, job.on_our_death)?;
    let mut watch = Watch::new(family, &job, log);
    let lines = watch.read_streams();
    let status = loop {
        match lines.recv_timeout(TICK) {
            Ok(line) => watch.line(&line, on_event)?,
            Err(RecvTimeoutError::Timeout) => {}
            // Both streams are closed; the process ends soon.
            Err(RecvTimeoutError::Disconnected) => std::thread::sleep(TICK),
        }
        if let Some(status) = watch.family.status()? {
            break status;
        }
        watch.limits(signals);
    };
    watch.family.end();
    let deadline = Instant::now() + DRAIN;
    while let Ok(line) = lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
        watch.line(&line, on_event)?;
    }
    Ok(watch.ended(status, machine::memory_kills() > memory_kills))
}

/// What is known of a running process.
struct Watch {
    family: Family,
    /// Absent where the system has no means for it.
    ends: Option<Ends>,
    ranks: usize,
    log: LineWriter<File>,
    hang_limit: Option<Duration>,
    timeout: Option<Duration>,
    start: Instant,
    /// The last event.
    last_event: Instant,
    /// The last event, or the last look at which the process had worked.
    last_sign: Instant,
    /// When the CPU time was looked at, and what it was.
    cpu: (Instant, Duration),
    slowest_step: Option<Duration>,
    events: Vec<Event>,
    tail: VecDeque<String>,
    /// Why it was told to end.
    stopped: Option<Stopped>,
    /// When it is told to end (if it was not yet), or killed (if it was).
    deadline: Option<Instant>,
}

impl Watch {
    fn new(family: Family, job: &Job, log: LineWriter<File>) -> Watch {
        let now = Instant::now();
        Watch {
            family,
            ends: Ends::new().ok(),
            ranks: job.ranks,
            log,
            hang_limit: job.hang_limit,
            timeout: job.timeout,
            start: now,
            last_event: now,
            last_sign: now,
            cpu: (now, Duration::ZERO),
            slowest_step: None,
            events: Vec::new(),
            tail: VecDeque::new(),
            stopped: None,
            deadline: None,
        }
    }

    /// Reads both output streams, each on its own thread, into one channel of lines.
    fn read_streams(&mut self) -> Receiver<String> {
        let (sender, receiver) = mpsc::channel();
        let child = self.family.child();
        let out = child.stdout.take().map(|out| Box::new(out) as Box<dyn Read + Send>);
        let err = child.stderr.take().map(|err| Box::new(err) as Box<dyn Read + Send>);
        for stream in [out, err].into_iter().flatten() {
            let sender = sender.clone();
            std::thread::spawn(move || {
                let mut reader = BufReader::new(stream);
                let mut bytes = Vec::new();
                while reader.read_until(b'\n', &mut bytes).is_ok_and(|count| count > 0) {
                    let line = String::from_utf8_lossy(&bytes).trim_end_matches(['\n', '\r']).to_string();
                    if sender.send(line).is_err() {
                        return;
                    }
                    bytes.clear();
                }
            });
        }
        receiver
    }

    /// Takes one line of output: an event, or a line of the log.
    fn line(&mut self, line: &str, on_event: &mut dyn FnMut(&Event)) -> io::Result<()> {
        writeln!(self.log, "{line}")?;
        let Some(event) = Event::parse(line) else {
            if self.tail.len() == TAIL {
                self.tail.pop_front();
            }
            self.tail.push_back(line.into());
            return Ok(());
        };
        self.last_event = Instant::now();
        self.last_sign = self.last_event;
        match &event {
            Event::Step { seconds, .. } => {
                let step = Duration::try_from_secs_f64(*seconds).unwrap_or_default();
                self.slowest_step = self.slowest_step.max(Some(step));
            }
            Event::Started { rank, pid, host } => self.started(*rank, *pid, host),
            // The ranks end the job themselves; if they cannot, they are helped.
            Event::Hang { .. } | Event::Failed { .. } if self.deadline.is_none() => {
                self.deadline = Some(Instant::now() + GRACE);
            }
            _ => {}
        }
        on_event(&event);
        self.events.push(event);
        Ok(())
    }

    /// Watches a rank that a launcher has started on this host. What cannot be watched stays unknown, to be told by the
    /// launcher.
    fn started(&mut self, rank: usize, pid: u32, host: &str) {
        let launched = pid != self.family.child().id() && host == machine::host();
        if let (true, Some(ends), Ok(pid)) = (launched, &mut self.ends, i32::try_from(pid)) {
            let _ = ends.watch(rank, pid, || self.family.descends(pid));
        }
    }

    /// Tells the process to end if a signal came or a limit is reached, and kills it if it does not.
    fn limits(&mut self, signals: &Signals) {
        let now = Instant::now();
        if let Some(signal) = signals.take() {
            if self.stopped == Some(Stopped::Interrupted) {
                // Asked twice: at once.
                self.deadline = Some(now);
            } else {
                self.stop(Stopped::Interrupted, signal);
            }
        }
        let overdue = self.deadline.is_some_and(|deadline| now >= deadline);
        if self.stopped.is_some() {
            if overdue {
                self.family.signal(libc::SIGKILL);
                self.deadline = Some(now + GRACE);
            }
        } else if overdue {
            self.stop(Stopped::Lingering, libc::SIGTERM);
        } else if self.timeout.is_some_and(|limit| now - self.start > limit) {
            self.stop(Stopped::Timeout, libc::SIGTERM);
        } else if self.silent(now) {
            self.stop(Stopped::Silent, libc::SIGTERM);
        }
    }

    /// Whether there was no sign of life for too long. The ranks' own watchdog knows more and speaks first; this is for
    /// what it cannot tell: a process that is stopped, blocked in the system, or spinning outside of communication.
    fn silent(&mut self, now: Instant) -> bool {
        let automatic = || HANG_FLOOR.max(self.slowest_step.unwrap_or_default() * 10);
        let limit = self.hang_limit.unwrap_or_else(automatic);
        // Looking at all processes costs time that is being measured: only what is silent is looked at.
        if now - self.last_event > limit / 2 && now - self.cpu.0 > LOOK {
            let used = self.family.cpu_time();
            let share = used.saturating_sub(self.cpu.1).as_secs_f64() / (now - self.cpu.0).as_secs_f64();
            if share > AT_WORK {
                self.last_sign = now;
            }
            self.cpu = (now, used);
        }
        now - self.last_sign > limit + GRACE || now - self.last_event > limit * LIMITS_AT_WORK + GRACE
    }

    fn stop(&mut self, why: Stopped, signal: i32) {
        self.stopped = Some(why);
        self.deadline = Some(Instant::now() + GRACE);
        self.family.signal(signal);
    }

    fn ended(self, status: Status, killed_for_memory: bool) -> Ended {
        let outcome = classify(self.stopped, &self.events, status, killed_for_memory);
        let tail = Vec::from(self.tail);
        let first = self.ends.and_then(|ends| ends.first(self.ranks));
        let message = blame::message(outcome, self.stopped, &self.events, status, &blame::Heard { log: &tail, first });
        Ended { outcome, message, status: Some(status), tail, events: self.events }
    }
}
