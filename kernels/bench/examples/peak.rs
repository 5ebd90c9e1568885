//! GFLOP/s of every pass of the shapes of a role, best and median, and as a fraction of the measured multiply-add peak:
//! `cargo run --release -p shardmark-bench --example peak -- peers [substring of the line]`.

use shardmark_bench::{Case, PASSES, ROLES, peak, problems};
use shardmark_host::HugePages;
use shardmark_layers::conv::Isa;
use std::time::{Duration, Instant};

#[global_allocator]
static ALLOCATOR: HugePages = HugePages;

/// Samples of a pass: at least `LEAST`, and more until `ENOUGH` is spent.
const LEAST: usize = 5;
const ENOUGH: Duration = Duration::from_millis(500);

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let (role, part) = (args.next().unwrap_or("peers".into()), args.next().unwrap_or_default());
    let Some((_, text)) = ROLES.iter().find(|(name, _)| *name == role) else {
        let names = ROLES.map(|(name, _)| name).join(", ");
        return Err(format!("role: expected one of {names}, got {role}; name a file of kernels/bench/shapes").into());
    };
    if let Some(complaint) = Isa::complaint() {
        eprintln!("{complaint}");
    }
    let isa = Isa::selected();
    let peak = peak::multiply_add_peak(isa, 200);
    println!(
        "{isa}: multiply-add peak {peak:.1} GFLOP/s on one core; best (median) GFLOP/s, best as a share of the peak"
    );
    for problem in problems(text)?.into_iter().filter(|p| p.to_string().contains(&part)) {
        let mut case = Case::new(&problem, isa);
        print!("{:70}", problem.to_string());
        for pass in PASSES {
            let (best, median) = time(|| case.run(pass));
            let [best, median] = [best, median].map(|s| problem.flops() as f64 / s / 1e9);
            print!("  {pass} {best:6.1} ({median:6.1}) {:3.0} %", 100.0 * best / peak);
        }
        println!();
    }
    Ok(())
}

/// Best and median seconds.
fn time(mut run: impl FnMut()) -> (f64, f64) {
    run();
    let (mut seconds, begin) = (Vec::new(), Instant::now());
    while seconds.len() < LEAST || begin.elapsed() < ENOUGH {
        let start = Instant::now();
        run();
        seconds.push(start.elapsed().as_secs_f64());
    }
    seconds.sort_by(f64::total_cmp);
    (seconds[0], seconds[seconds.len() / 2])
}
