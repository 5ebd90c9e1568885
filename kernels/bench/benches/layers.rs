//! Times every pass of every registered shape: `cargo bench -p shardmark-bench -- peers/`. An element is a floating-point
//! operation; layers that move more than they compute count bytes. `SHARDMARK_THREADS` threads share the work, one by
//! default (an argument would be criterion's). Without `--bench` (that is, under `cargo test`) the smoke shapes run once
//! each.

use criterion::{Criterion, Throughput};
use shardmark_bench::{Amount, Case, ROLES, problems};
use shardmark_host::{HugePages, Team};
use shardmark_layers::conv::Isa;
use std::error::Error;
use std::process::ExitCode;
use std::time::Duration;

#[global_allocator]
static ALLOCATOR: HugePages = HugePages;

fn main() -> ExitCode {
    shardmark_bench::end(bench())
}

fn bench() -> Result<(), Box<dyn Error>> {
    let timing = std::env::args().any(|a| a == "--bench");
    let threads = threads(std::env::var("SHARDMARK_THREADS").ok())?;
    let mut criterion = Criterion::default()
        .sample_size(20)
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(2))
        .configure_from_args();
    if let Some(complaint) = Isa::complaint() {
        eprintln!("{complaint}; {} is used", Isa::selected());
    }
    for (role, text) in ROLES.iter().filter(|(role, _)| timing || *role == "smoke") {
        let mut group = criterion.benchmark_group(*role);
        for problem in problems(text)? {
            for &pass in problem.passes() {
                group.throughput(match problem.amount(pass) {
                    Amount::Flops(flops) => Throughput::Elements(flops),
                    Amount::Bytes(bytes) => Throughput::Bytes(bytes),
                });
                // Data is allocated for the benches that the filter selects only.
                let mut outcome: Result<(), Box<dyn Error>> = Ok(());
                group.bench_function(format!("{problem} {pass}"), |bencher| {
                    let case = Team::new(threads).map_err(Box::from).and_then(|team| Ok(Case::new(&problem, team)?));
                    match case {
                        Ok(mut case) => bencher.iter(|| {
                            if let Err(error) = case.run(pass) {
                                outcome = Err(error.into());
                            }
                        }),
                        Err(error) => outcome = Err(error),
                    }
                });
                outcome?;
            }
        }
        group.finish();
    }
    criterion.final_summary();
    Ok(())
}

fn threads(text: Option<String>) -> Result<usize, String> {
    let Some(text) = text else { return Ok(1) };
    let threads = text.parse().ok().filter(|&n: &usize| n > 0);
    threads.ok_or_else(|| format!("SHARDMARK_THREADS: expected a number of at least 1, got {text}; correct it"))
}
