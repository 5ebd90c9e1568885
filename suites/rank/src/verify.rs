//! `verify`: runs a network from a reference file on a grid of ranks and compares it tensor by tensor.

#[cfg(test)]
mod tests;

use crate::error::RankError;
use crate::expectation::Row;
use crate::network::gather_prediction;
use crate::ranks::{self, Rank};
use crate::reference_file::{ReferenceError, ReferenceFile};
use shardmark_comm::{Comm, CommError, CommExt, ReduceOp, agree};
use shardmark_host::SOLO;
use shardmark_layers::{Float, Op, ParamSpec};
use shardmark_networks::{InitScheme, NetPlan, Parameter, Trainer};
use shardmark_partition::{DIMS, Grid};
use shardmark_plan::Event;
use shardmark_plan::check_ranks;
use shardmark_plan::exit::RankExit;
use shardmark_plan::value::{Setting, Transport};
use shardmark_tensor::{Block, rng};
use std::path::Path;

/// `shardmark-rank verify`: compares the run of `file` on the grid in the text and tells each tensor's verdict as an
/// event; with `look` it only refuses what is wrong with them.
pub fn command(file: &Path, grid: &str, transport: Transport, look: bool) -> RankExit {
    let grid: Grid = match grid.parse() {
        Ok(grid) => grid,
        Err(error) => return ranks::refuse(error.to_string()),
    };
    if let Err(error) = fits(file, grid) {
        return ranks::refuse(error.to_string());
    }
    if look {
        return RankExit::Ok;
    }
    let rows = ranks::run(transport, grid.size(), Setting::Auto, |Rank { comm, .. }| {
        let rows = verify::<f32>(comm, file, grid)?;
        if comm.rank() == 0 {
            rows.iter().for_each(tell);
        }
        Ok(rows)
    });
    match rows {
        Ok(rows) if rows.iter().all(Row::passed) => RankExit::Ok,
        Ok(_) => RankExit::Wrong,
        Err(exit) => exit,
    }
}

/// Refuses a grid of too many ranks, or with ranks that own nothing of the input.
fn fits(path: &Path, grid: Grid) -> Result<(), RankError> {
    check_ranks::allow(grid.size(), "grid", &grid.to_string())?;
    let input = ReferenceFile::open(path)?.network.graph()?.input();
    for (dim, extent) in DIMS.into_iter().zip(input) {
        let parts = grid.parts(dim);
        if parts > extent {
            let text = "use another grid";
            let what = format!("grid {grid}: expected at most {extent} parts along {dim}, got {parts}; {text}");
            return Err(RankError::Other(what));
        }
    }
    Ok(())
}

fn tell(row: &Row) {
    // JSON has no infinity.
    Event::Check { passed: row.passed(), used: row.used.min(f64::MAX), message: row.to_string() }.emit();
}

/// Runs the network of the file at `path` on `grid` in elements of type `T` (f64 only for files with an f64 run) and
/// compares everything the file holds.
/// Collective; every rank reads its own part and compares its own replica, and the rows, one a tensor, are the worst of
/// all ranks.
///
/// # Errors
/// On all ranks together: when the file is not right, the grid is not the communicator's, or communication fails.
pub fn verify<T: Float>(comm: &dyn Comm, path: &Path, grid: Grid) -> Result<Vec<Row>, RankError> {
    let file = agree(comm, ReferenceFile::open(path))?;
    let plan = NetPlan::new(file.network.graph()?, grid);
    // Where the file does not store weights, they follow Glorot's rule.
    let init = InitScheme::Glorot;
    let mut trainer = Trainer::<T>::new(comm, &SOLO, plan, file.loss, file.optimizer(), init, file.seed())?;
    let (input, target) = agree(comm, start(&file, &mut trainer))?;
    let mut rows = Vec::new();
    let mut losses = Vec::new();
    for step in 0..file.steps.max(1) {
        losses.push(T::from_f64(trainer.gradients(input.clone(), &target)?));
        if step == 0 {
            let output = gather_prediction(comm, trainer.plan(), trainer.prediction())?;
            let evaluation = trainer.predict(input.clone())?;
            let evaluation = gather_prediction(comm, trainer.plan(), &evaluation)?;
            let parameters = trainer.parameters().collect::<Result<Vec<_>, _>>()?;
            rows.extend(agree(comm, first_step(&file, &trainer, &parameters, [&output, &evaluation]))?);
        }
        if file.steps > 0 {
            trainer.update()?;
        }
    }
    let parameters = trainer.parameters().collect::<Result<Vec<_>, _>>()?;
    rows.extend(agree(comm, after(&file, &trainer, &parameters, &losses))?);
    Ok(worst_of_ranks(comm, rows)?)
}

/// Sets the stored weights and reads this rank's part of input and target.
fn start<T: Float>(file: &ReferenceFile, trainer: &mut Trainer<'_, T>) -> Result<(Block<T>, Block<T>), RankError> {
    let graph = trainer.plan().graph.clone();
    if file.stored {
        for (_, _, name, spec) in graph.params() {
            trainer.set_parameter(&name, &file.weights(&name, &spec)?)?;
        }
        for (i, node) in graph.nodes.iter().enumerate() {
            if let Op::Dropout(dropout) = &node.op {
                let layer = i as u64;
                let key = |step| rng::bits(file.seed(), layer, step);
                let kept = |step, index| rng::uniform(key(step), layer, index) < dropout.keep;
                file.check_masks(&node.name, graph.shapes[i][4], kept)?;
            }
        }
    }
    Ok((file.input(trainer.input_region())?, file.target(trainer.target_region())?))
}

/// Predictions of all samples, gradients and, where the file has them, running statistics of the first step.
fn first_step<T: Float>(
    file: &ReferenceFile,
    trainer: &Trainer<'_, T>,
    found: &[Parameter<T>],
    [output, evaluation]: [&[T]; 2],
) -> Result<Vec<Row>, ReferenceError> {
    let mut rows = vec![file.prediction("output")?.check(output), file.prediction("evaluation")?.check(evaluation)];
    rows.extend(parameters(file, trainer, "grads", found.iter().map(|p| (&p.name, &p.grad)))?);
    if file.has_buffers() {
        for (index, (name, values)) in trainer.buffers().into_iter().enumerate() {
            rows.push(file.expected("buffers", index, &name, &[values.len()])?.check(values));
        }
    }
    Ok(rows)
}

/// Losses of all steps and weights after the last.
fn after<T: Float>(
    file: &ReferenceFile,
    trainer: &Trainer<'_, T>,
    found: &[Parameter<T>],
    losses: &[T],
) -> Result<Vec<Row>, ReferenceError> {
    let mut rows = vec![file.losses()?.check(losses)];
    if file.steps > 0 {
        rows.extend(parameters(file, trainer, "weights_after", found.iter().map(|p| (&p.name, &p.value)))?);
    }
    Ok(rows)
}

/// One row for each parameter: its name and what was found, against the tensor of that name in `group`.
fn parameters<'p, T: Float>(
    file: &ReferenceFile,
    trainer: &Trainer<'_, T>,
    group: &str,
    found: impl Iterator<Item = (&'p String, &'p Vec<T>)>,
) -> Result<Vec<Row>, ReferenceError> {
    let specs = trainer.plan().graph.params().map(|(_, _, _, spec)| spec);
    let row = |(index, ((name, values), spec)): (usize, ((&String, &Vec<T>), ParamSpec))| {
        Ok(file.expected(group, index, name, &spec.shape)?.check(values))
    };
    found.zip(specs).enumerate().map(row).collect()
}

/// Every rank compared its own replica; what counts is the worst.
fn worst_of_ranks(comm: &dyn Comm, mut rows: Vec<Row>) -> Result<Vec<Row>, CommError> {
    let numbers = rows.iter().flat_map(|row| [row.max_error, row.used]).collect();
    let worst = comm.allreduce_vec::<f64>(numbers, ReduceOp::Max)?;
    for (row, worst) in rows.iter_mut().zip(worst.chunks_exact(2)) {
        if worst[1] > row.used {
            row.note = "on another rank".into();
        }
        [row.max_error, row.used] = [worst[0], worst[1]];
    }
    Ok(rows)
}
