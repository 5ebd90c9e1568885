//! The timing server of the layers, which `ci/peers` asks: see `shardmark_bench::server` for what it understands.

use shardmark_bench::server::{self, Request, Session};
use shardmark_bench::stream::Stream;
use shardmark_bench::{Case, Problem, peak};
use shardmark_host::{HugePages, Team};
use shardmark_layers::conv::Isa;
use std::error::Error;
use std::io::{BufRead, Write};
use std::process::ExitCode;
use std::time::Instant;

#[global_allocator]
static ALLOCATOR: HugePages = HugePages;

/// Some tenths of a second each.
const PEAK_SAMPLES: usize = 200;
const STREAM_SAMPLES: usize = 3;

fn main() -> ExitCode {
    server::main(serve)
}

fn serve<R: BufRead, W: Write>(request: &Request, session: &mut Session<R, W>) -> Result<(), Box<dyn Error>> {
    match request {
        Request::Peak { threads } => {
            let team = Team::new(*threads)?;
            session.answer(&peak::multiply_add_peak(Isa::selected(), &team, PEAK_SAMPLES))?;
        }
        Request::Stream { threads } => {
            let team = Team::new(*threads)?;
            session.answer(&Stream::new().bandwidth(&team, STREAM_SAMPLES))?;
        }
        Request::Case { problem, pass, threads } => {
            let problem: Problem = problem.parse()?;
            let pass = problem.pass(pass)?;
            let mut case = Case::new(&problem, Team::new(*threads)?)?;
            case.run(pass)?;
            session.time(problem.amount(pass), || {
                let start = Instant::now();
                case.run(pass).map(|()| start.elapsed().as_secs_f64())
            })?;
        }
    }
    Ok(())
}
