//! Training for whole epochs with a look at held-out samples after each.

use crate::error::RankError;
use crate::fault::Fault;
use crate::input::Source;
use crate::measure::{Measured, report_step, timed_step};
use crate::network;
use crate::ranks::Watch;
use crate::samples::Samples;
use shardmark_comm::{Comm, CommExt, Counted, ReduceOp};
use shardmark_host::Team;
use shardmark_networks::{TARGETS, Trainer};
use shardmark_partition::Dim;
use shardmark_plan::{Case, Event};
use shardmark_store::Validation;

/// Trains for `epochs` passes over the dataset.
///
/// # Errors
/// When a rank fails, a sample cannot be read or the loss is not finite.
pub fn train(case: &Case, comm: &dyn Comm, team: &Team, watch: &Watch) -> Result<Measured, RankError> {
    let counted = Counted::new(comm);
    let plan = network::plan(case)?;
    let mut source = Source::open(case, &plan, comm)?;
    let mut trainer = network::trainer(case, plan, &counted, team)?;
    let Source::Files(samples) = &source else {
        return Err(RankError::Other(
            "epochs: expected a dataset, got synthetic input; set input to a directory".into(),
        ));
    };
    let per_epoch = samples.steps_per_epoch();
    let mut curve = Validation {
        parameters: shardmark_datasets::cosmoflow::NAMES.map(String::from).to_vec(),
        label_std: label_std(samples.validation_labels()),
        ..Validation::default()
    };
    if comm.rank() == 0 {
        Event::Plan { steps: case.epochs * per_epoch }.emit();
    }
    let fault = Fault::from_environment();
    let (mut steps, mut losses) = (Vec::new(), Vec::new());
    counted.reset();
    for epoch in 0..case.epochs {
        for step in 0..per_epoch {
            let number = epoch * per_epoch + step;
            if let Some(fault) = &fault {
                fault.strike(comm, number);
            }
            let (sample, loss) = timed_step(&mut trainer, &mut source, comm, number)?;
            report_step(comm, watch, number, &sample, loss)?;
            steps.push(sample);
            losses.push(loss);
        }
        let recent = &losses[epoch * per_epoch..];
        let train_loss = recent.iter().sum::<f64>() / recent.len() as f64;
        if let Source::Files(samples) = &mut source {
            validate(&mut trainer, samples, comm, &mut curve, epoch + 1, train_loss)?;
        }
    }
    let validation = (!curve.epoch.is_empty()).then_some(curve);
    Ok(Measured { samples: vec![steps], losses: vec![losses], counts: counted.counts(), validation })
}

/// Adds a row to the curve, unless nothing is held out.
fn validate(
    trainer: &mut Trainer<'_, f32>,
    samples: &mut Samples,
    comm: &dyn Comm,
    curve: &mut Validation,
    epoch: usize,
    train_loss: f64,
) -> Result<(), RankError> {
    let held_out = samples.validation_labels().len();
    if held_out == 0 {
        return Ok(());
    }
    trainer.average_running_statistics()?;
    let mut squares = vec![0.0; TARGETS];
    for batch in 0..samples.validation_batches() {
        let mut input = trainer.input_block();
        let target = samples.load_validation(comm, batch, &mut input)?;
        let size = trainer.plan().graph.input()[Dim::N as usize];
        let got = trainer.predict(input)?;
        let own = got.region().span(Dim::N);
        for n in own.lo..own.hi {
            // The last batch repeats its last sample.
            if batch * size + n as usize >= held_out {
                continue;
            }
            let pairs = got.channels([n, 0, 0, 0]).iter().zip(target.channels([n, 0, 0, 0]));
            for (sum, (g, t)) in squares.iter_mut().zip(pairs) {
                *sum += f64::from(g - t).powi(2);
            }
        }
    }
    let squares = comm.allreduce_vec(squares, ReduceOp::Sum)?;
    let count = held_out as f64;
    curve.epoch.push(epoch as i64);
    curve.train_loss.push(train_loss);
    curve.loss.push(squares.iter().sum::<f64>() / (count * TARGETS as f64));
    curve.rmse.push(squares.iter().map(|sum| (sum / count).sqrt()).collect());
    Ok(())
}

/// Standard deviation of each label: the error of the best constant guess.
fn label_std(labels: &[[f32; 4]]) -> Vec<f64> {
    let count = labels.len().max(1) as f64;
    (0..TARGETS)
        .map(|i| {
            let mean = labels.iter().map(|l| f64::from(l[i])).sum::<f64>() / count;
            (labels.iter().map(|l| (f64::from(l[i]) - mean).powi(2)).sum::<f64>() / count).sqrt()
        })
        .collect()
}
