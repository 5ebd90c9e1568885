//! A timing server: it prepares a case when asked, and runs it once for every further request, so that whoever asks can
//! alternate between several servers and no two of them run at once.
//!
//! A request is a line, and so is its answer:
//!
//! ```text
//! conv3d n=1 c=16 .. pad=1 | forward | threads=2     ready flops=57982058496
//! run                                                0.0123       (seconds)
//! run after=0.02                                     0.0119       (seconds, after runs of 0.02 s that do not count)
//! peak threads=2                                     355.1        (GFLOP/s)
//! stream threads=2                                   25.3         (GB/s)
//! ```
//!
//! or `error: ..`, after which the server goes on. It ends with its input, or when nobody takes its answers.

use crate::Amount;
use shardmark_layers::conv::Isa;
use std::error::Error;
use std::fmt::Display;
use std::io::{self, BufRead, StdinLock, StdoutLock, Write};
use std::process::ExitCode;

/// Most seconds of runs before the one that counts: whoever asks waits for them.
const MOST_AFTER: f64 = 60.0;

/// What is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// To prepare a case and run it on demand.
    Case {
        /// What the case is.
        problem: String,
        /// Which pass of it.
        pass: String,
        /// Threads that share its work.
        threads: usize,
    },
    /// The multiply-add peak.
    Peak {
        /// Threads that compute at once.
        threads: usize,
    },
    /// The bandwidth of main memory.
    Stream {
        /// Threads that copy at once.
        threads: usize,
    },
}

/// A request that is none.
#[derive(Debug, PartialEq, thiserror::Error)]
#[error(
    "request: expected `PROBLEM | PASS | threads=N`, `peak threads=N`, `stream threads=N` or `run [after=S]` with S from 0 \
     to {MOST_AFTER}, got `{0}`{1}"
)]
pub struct RequestError(String, &'static str);

impl std::str::FromStr for Request {
    type Err = RequestError;

    fn from_str(line: &str) -> Result<Self, RequestError> {
        let parts: Vec<&str> = line.split('|').map(str::trim).collect();
        let threads = |text: &str| text.strip_prefix("threads=")?.parse().ok().filter(|&n: &usize| n > 0);
        let request = match parts[..] {
            [problem, pass, last] => threads(last).map(|threads| {
                let (problem, pass) = (problem.to_string(), pass.to_string());
                Request::Case { problem, pass, threads }
            }),
            [line] => match line.split_once(' ') {
                Some(("peak", rest)) => threads(rest).map(|threads| Request::Peak { threads }),
                Some(("stream", rest)) => threads(rest).map(|threads| Request::Stream { threads }),
                _ => None,
            },
            _ => None,
        };
        let hint = if warm_up(line).is_some() { "; prepare a case first" } else { "; correct the request" };
        request.ok_or_else(|| RequestError(line.to_string(), hint))
    }
}

/// Seconds of runs that come before the one that a `run` asks for; `None` where it is no `run`.
fn warm_up(line: &str) -> Option<f64> {
    if line == "run" {
        return Some(0.0);
    }
    line.strip_prefix("run after=")?.parse().ok().filter(|seconds| (0.0..=MOST_AFTER).contains(seconds))
}

/// A whole server: answers on standard output to what standard input asks.
pub fn main(
    serve: impl Fn(&Request, &mut Session<StdinLock<'static>, StdoutLock<'static>>) -> Result<(), Box<dyn Error>>,
) -> ExitCode {
    let Err(error) = Session::new(io::stdin().lock(), io::stdout().lock()).run(serve) else {
        return ExitCode::SUCCESS;
    };
    // Whoever closed the output may have closed this one too: then there is nobody to tell.
    let _ = writeln!(
        io::stderr(),
        "server: expected requests on standard input and room for answers on standard output, got '{error}'; start it anew"
    );
    ExitCode::FAILURE
}

/// A conversation.
pub struct Session<R, W> {
    input: R,
    output: W,
    /// A request that ended a case.
    next: Option<String>,
}

impl<R: BufRead, W: Write> Session<R, W> {
    /// Reads requests from `input` and answers to `output`.
    pub fn new(input: R, output: W) -> Self {
        Session { input, output, next: None }
    }

    /// Serves requests until the input ends; what `serve` cannot do is refused.
    ///
    /// # Errors
    /// Those of reading and writing.
    pub fn run(mut self, serve: impl Fn(&Request, &mut Self) -> Result<(), Box<dyn Error>>) -> io::Result<()> {
        if let Some(complaint) = Isa::complaint() {
            eprintln!("{complaint}; {} is used", Isa::selected());
        }
        while let Some(request) = self.next_request()? {
            if let Err(error) = serve(&request, &mut self) {
                self.refuse(&error)?;
            }
        }
        Ok(())
    }

    /// The next request; `None` at the end of the input. What is no request is refused.
    ///
    /// # Errors
    /// Those of reading and writing.
    pub fn next_request(&mut self) -> io::Result<Option<Request>> {
        while let Some(line) = self.line()? {
            match line.parse() {
                Ok(request) => return Ok(Some(request)),
                Err(error) => self.refuse(&error)?,
            }
        }
        Ok(None)
    }

    /// Answers that a case is ready, and each `run` with what `run` returns (seconds, more than 0), until something else is
    /// asked for.
    ///
    /// # Errors
    /// Those of reading and writing.
    pub fn time<E: Display>(&mut self, amount: Amount, mut run: impl FnMut() -> Result<f64, E>) -> io::Result<()> {
        self.answer(&format_args!("ready {amount}"))?;
        while let Some(line) = self.line()? {
            let Some(after) = warm_up(&line) else {
                self.next = Some(line);
                break;
            };
            let mut spent = 0.0;
            let mut warm = || -> Result<f64, E> {
                while spent < after {
                    spent += run()?;
                }
                run()
            };
            match warm() {
                Ok(seconds) => self.answer(&seconds)?,
                Err(error) => self.refuse(&error)?,
            }
        }
        Ok(())
    }

    /// Answers with a value.
    ///
    /// # Errors
    /// Those of writing.
    pub fn answer(&mut self, value: &dyn Display) -> io::Result<()> {
        writeln!(self.output, "{value}")?;
        self.output.flush()
    }

    /// Answers that a request cannot be served.
    ///
    /// # Errors
    /// Those of writing.
    pub fn refuse(&mut self, error: &dyn Display) -> io::Result<()> {
        self.answer(&format_args!("error: {error}"))
    }

    fn line(&mut self) -> io::Result<Option<String>> {
        if let Some(line) = self.next.take() {
            return Ok(Some(line));
        }
        let mut line = Vec::new();
        let read = self.input.read_until(b'\n', &mut line)?;
        // What is no text does not end the server: no request holds the mark that stands for it, so it is refused.
        Ok((read > 0).then(|| String::from_utf8_lossy(&line).trim().to_string()))
    }
}
