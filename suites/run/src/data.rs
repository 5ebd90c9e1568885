//! `shardmark data`: simulate universes, look at datasets.

use shardmark_datasets::cosmoflow::{self, DatasetSpec, Samples};
use shardmark_host::Memory;
use shardmark_plan::exit::Exit;
use shardmark_plan::machine::Machine;

use crate::cli::{Data, Make};
use crate::error::RunError;
use crate::progress::Progress;

/// `shardmark data make` and `shardmark data inspect`.
pub fn run(arguments: &Data) -> Result<Exit, RunError> {
    match arguments {
        Data::Make(make) => self::make(make),
        Data::Inspect { dir } => {
            let summary = cosmoflow::inspect(dir)?;
            print!("{summary}");
            Ok(if summary.broken.is_empty() && summary.missing == 0 { Exit::Ok } else { Exit::Failed })
        }
    }
}

fn make(arguments: &Make) -> Result<Exit, RunError> {
    let spec = DatasetSpec {
        cells: arguments.cells,
        side_mpc_h: arguments.side,
        redshifts: arguments.redshifts.clone(),
        seed: arguments.seed,
        dtype: arguments.dtype,
        samples: Samples { train: arguments.train, validation: arguments.validation, test: arguments.test },
        ..DatasetSpec::default()
    };
    // What can never be made is told as such, and not by this host's memory.
    spec.check()?;
    fits(&spec)?;
    let threads = arguments.threads.unwrap_or_else(|| Machine::here().threads);
    let progress = Progress::new("universes");
    let made = cosmoflow::make(&spec, &arguments.dir, threads, &mut |done, total| progress.count(done, total))?;
    drop(progress);
    println!("{made} universes simulated, {} in {}", spec.total(), arguments.dir.display());
    Ok(Exit::Ok)
}

/// Refuses a universe that the memory of this host cannot hold while it is simulated.
fn fits(spec: &DatasetSpec) -> Result<(), RunError> {
    /// A complex field in f64 is the least of it.
    const BYTES_PER_CELL: u64 = 48;
    let needed = (spec.cells as u64).saturating_pow(3).saturating_mul(BYTES_PER_CELL);
    Memory::here().holds(needed).map_err(RunError::Universe)
}
