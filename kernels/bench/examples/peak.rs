//! The speed of every pass of the shapes of a role, best and median, and as a fraction of the measured multiply-add peak
//! or, for layers that move more than they compute, of the measured memory bandwidth:
//! `cargo run --release -p shardmark-bench --example peak -- peers [substring of the line] [--threads N]`.

use shardmark_bench::stream::Stream;
use shardmark_bench::{Amount, Case, Problem, ROLES, peak, problems};
use shardmark_host::{HugePages, Team};
use shardmark_layers::conv::Isa;
use std::error::Error;
use std::process::ExitCode;
use std::time::{Duration, Instant};

#[global_allocator]
static ALLOCATOR: HugePages = HugePages;

/// Samples of a pass: at least `LEAST`, and more until `ENOUGH` is spent.
const LEAST: usize = 5;
const ENOUGH: Duration = Duration::from_millis(500);

fn main() -> ExitCode {
    shardmark_bench::end(tell())
}

fn tell() -> Result<(), Box<dyn Error>> {
    let mut args: Vec<String> = std::env::args().skip(1).collect();
    let threads = threads(&mut args)?;
    let mut args = args.into_iter();
    let (role, part) = (args.next().unwrap_or("peers".into()), args.next().unwrap_or_default());
    let Some((_, text)) = ROLES.iter().find(|(name, _)| *name == role) else {
        let names = ROLES.map(|(name, _)| name).join(", ");
        return Err(format!("role: expected one of {names}, got {role}; name a file of kernels/bench/shapes").into());
    };
    if let Some(complaint) = Isa::complaint() {
        eprintln!("{complaint}; {} is used", Isa::selected());
    }
    let (isa, team) = (Isa::selected(), Team::new(threads)?);
    let peak = peak::multiply_add_peak(isa, &team, 200);
    let stream = Stream::new().bandwidth(&team, 5);
    println!(
        "{isa}, threads {threads}: multiply-add peak {peak:.1} GFLOP/s, memory {stream:.1} GB/s; \
         best (median) GFLOP/s or GB/s, best as a share of the peak or the memory's"
    );
    for problem in problems(text)?.into_iter().filter(|p| p.to_string().contains(&part)) {
        report(&problem, threads, peak, stream)?;
    }
    Ok(())
}

/// Takes `--threads N` out of the arguments; 1 if it is not there.
fn threads(args: &mut Vec<String>) -> Result<usize, String> {
    let Some(at) = args.iter().position(|arg| arg == "--threads") else { return Ok(1) };
    let value = args.get(at + 1).cloned().unwrap_or("nothing".into());
    let threads = value.parse().ok().filter(|&n: &usize| n > 0);
    args.drain(at..(at + 2).min(args.len()));
    threads.ok_or_else(|| format!("--threads: expected a number of at least 1, got {value}; correct it"))
}

fn report(problem: &Problem, threads: usize, peak: f64, stream: f64) -> Result<(), Box<dyn Error>> {
    let mut case = Case::new(problem, Team::new(threads)?)?;
    print!("{:70}", problem.to_string());
    for &pass in problem.passes() {
        let (best, median) = time(|| case.run(pass))?;
        let (amount, limit) = match problem.amount(pass) {
            Amount::Flops(flops) => (flops, peak),
            Amount::Bytes(bytes) => (bytes, stream),
        };
        let [best, median] = [best, median].map(|s| amount as f64 / s / 1e9);
        print!("  {pass} {best:6.1} ({median:6.1}) {:3.0} %", 100.0 * best / limit);
    }
    println!();
    Ok(())
}

/// Best and median seconds.
fn time<E>(mut run: impl FnMut() -> Result<(), E>) -> Result<(f64, f64), E> {
    run()?;
    let (mut seconds, begin) = (Vec::new(), Instant::now());
    while seconds.len() < LEAST || begin.elapsed() < ENOUGH {
        let start = Instant::now();
        run()?;
        seconds.push(start.elapsed().as_secs_f64());
    }
    seconds.sort_by(f64::total_cmp);
    Ok((seconds[0], seconds[seconds.len() / 2]))
}
