//! Times every pass of every registered shape: `cargo bench -p shardmark-bench -- peers/`. An element is a
//! floating-point operation. Without `--bench` (that is, under `cargo test`) the smoke shapes run once each.

use criterion::{Criterion, Throughput};
use shardmark_bench::{Case, PASSES, ROLES, problems};
use shardmark_host::HugePages;
use shardmark_layers::conv::Isa;
use std::time::Duration;

#[global_allocator]
static ALLOCATOR: HugePages = HugePages;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let timing = std::env::args().any(|a| a == "--bench");
    let mut criterion = Criterion::default()
        .sample_size(20)
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(2))
        .configure_from_args();
    if let Some(complaint) = Isa::complaint() {
        eprintln!("{complaint}");
    }
    for (role, text) in ROLES.iter().filter(|(role, _)| timing || *role == "smoke") {
        let mut group = criterion.benchmark_group(*role);
        for problem in problems(text)? {
            group.throughput(Throughput::Elements(problem.flops()));
            for pass in PASSES {
                // Data is allocated for the benches that the filter selects only.
                group.bench_function(format!("{problem} {pass}"), |bencher| {
                    let mut case = Case::new(&problem, Isa::selected());
                    bencher.iter(|| case.run(pass));
                });
            }
        }
        group.finish();
    }
    criterion.final_summary();
    Ok(())
}
