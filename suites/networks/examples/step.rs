//! The timing server of whole training steps, which `ci/peers --steps` asks: `shardmark_bench::server` says how.
//! A case is `cosmoflow width=128 batch=1 norm=none | step | threads=1`: the 2020 network on one rank, `norm=global` with
//! batch norm; the step is forward, loss, backward and update by SGD.

use shardmark_bench::Amount;
use shardmark_bench::server::{self, Request, Session};
use shardmark_comm::solo;
use shardmark_host::{HugePages, Memory, Team};
use shardmark_layers::Op;
use shardmark_layers::loss::Loss;
use shardmark_layers::optim::OptimSpec;
use shardmark_networks::{Cosmoflow, Graph, InitScheme, NetPlan, StepOptions, Trainer, Variant};
use shardmark_partition::{AxisSet, Grid};
use shardmark_problem::{Fields, LineError, too_many};
use shardmark_tensor::{Block, rng};
use std::error::Error;
use std::io::{BufRead, Write};
use std::process::ExitCode;
use std::time::Instant;

#[global_allocator]
static ALLOCATOR: HugePages = HugePages;

/// Redshifts of a universe.
const CHANNELS: usize = 4;
const SGD: OptimSpec = OptimSpec::Sgd { lr: 1e-3, momentum: 0.0, weight_decay: 0.0 };

fn main() -> ExitCode {
    server::main(serve)
}

fn serve<R: BufRead, W: Write>(request: &Request, session: &mut Session<R, W>) -> Result<(), Box<dyn Error>> {
    let Request::Case { problem, pass, threads } = request else {
        return Err("request: expected a step, got a yardstick; ask the server of the layers".into());
    };
    if pass != "step" {
        return Err(format!("pass of `{problem}`: expected step, got {pass}; name that").into());
    }
    let plan = plan(problem)?;
    let flops = Amount::Flops(flops(&plan.graph));
    let (comm, team) = (solo(), Team::new(*threads)?);
    let mut trainer = Trainer::<f32>::new(&comm, &team, plan, Loss::Mse, SGD, InitScheme::He, 1)?;
    let target = Block::zeros(trainer.target_region());
    let mut run = || {
        // A step takes the block and gives its memory back.
        let mut input = trainer.input_block();
        for (i, x) in (0..).zip(input.data_mut()) {
            *x = (rng::uniform(1, 0, i) - 0.5) as f32;
        }
        let start = Instant::now();
        trainer.train_step(input, &target).map(|_| start.elapsed().as_secs_f64())
    };
    run()?;
    session.time(flops, run)?;
    Ok(())
}

/// The network of a line on one rank, if the memory of this host can hold its step.
fn plan(line: &str) -> Result<NetPlan, Box<dyn Error>> {
    let plan = NetPlan::new(network(line)?.graph()?, Grid::new([1; 5]));
    let state = SGD.state_names().len() as u64;
    let needed = plan.peak_bytes(0, StepOptions { optimizer_state: state, ..StepOptions::default() });
    match Memory::here().holds(needed) {
        Ok(()) => Ok(plan),
        Err(shortage) => Err(format!("memory of `{line}`: {shortage}; lower batch or width").into()),
    }
}

fn network(line: &str) -> Result<Cosmoflow, LineError> {
    let fields = Fields::split(line, &["width", "batch", "norm"])?;
    if line.split_whitespace().next() != Some("cosmoflow") {
        return Err(fields.error("network", "cosmoflow", line));
    }
    let norm = match fields.text("norm") {
        "none" => None,
        "global" => Some(AxisSet::ALL),
        other => return Err(fields.error("norm", "none or global", other)),
    };
    let (batch, width) = (fields.count("batch")?, fields.count("width")?);
    if let Some(elements) = too_many([batch, width, width, width, CHANNELS]) {
        return Err(fields.error("width", "an input of at most 2^46 elements", &elements.to_string()));
    }
    Ok(Cosmoflow {
        variant: Variant::Paper2020,
        batch,
        volume: [width; 3],
        channels: CHANNELS,
        norm,
        dropout: None,
        tail: None,
    })
}

/// Operations of a step's convolutions and dense layers: forward, parameter gradients, and data gradients of all but the
/// first.
fn flops(graph: &Graph) -> u64 {
    let passes = |i: usize| if i == 0 { 2 } else { 3 };
    let outputs = |i: usize| graph.shapes[i + 1].iter().map(|&e| e as u64).product();
    let multiply = |op: &Op| matches!(op, Op::Conv(_) | Op::Dense(_));
    let nodes = graph.nodes.iter().enumerate().filter(|(_, node)| multiply(&node.op));
    nodes.map(|(i, node)| passes(i) * node.op.forward_flops(outputs(i))).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The answers to some requests.
    fn answers(requests: &str) -> String {
        let mut answers = Vec::new();
        Session::new(requests.as_bytes(), &mut answers).run(serve).expect("memory is read and written");
        String::from_utf8(answers).expect("text")
    }

    #[test]
    fn networks_that_no_memory_holds_are_refused_and_the_next_is_served() {
        let answers = answers(
            "cosmoflow width=999999999 batch=999999999 norm=none | step | threads=1\n\
             cosmoflow width=16384 batch=1 norm=global | step | threads=1\n\
             cosmoflow width=32 batch=1 norm=none | step | threads=1000000\n\
             cosmoflow width=128 batch=8388608 norm=none | step | threads=1\n\
             cosmoflow width=32 batch=1 norm=none | step | threads=1\nrun\n",
        );
        let lines: Vec<&str> = answers.lines().collect();
        assert!(lines[0].starts_with("error: width of `cosmoflow"), "{answers}");
        assert!(lines[1].starts_with("error: memory of `cosmoflow"), "{answers}");
        assert!(lines[2].starts_with("error: threads: expected at most"), "{answers}");
        assert!(lines[3].starts_with("error: memory of `cosmoflow"), "{answers}");
        assert!(lines[4].starts_with("ready flops="), "{answers}");
        assert!(lines[5].parse::<f64>().is_ok_and(|seconds| seconds > 0.0), "{answers}");
        assert_eq!(lines.len(), 6);
    }
}
