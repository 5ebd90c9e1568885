//! A layer alone, for comparison: output, and gradients of input and parameters.

use super::oracle::{Outcome, Subject, convert};
use crate::error::RankError;
use crate::input::{synthetic_gradient, synthetic_input};
use crate::network::gather;
use shardmark_comm::{Comm, Counted};
use shardmark_host::Team;
use shardmark_layers::Float;
use shardmark_networks::{NetPlan, Trainer};
use shardmark_partition::Region;
use shardmark_tensor::Block;

/// Both passes of a layer on a grid. Margins start as NaN: what is not exchanged shows. Collective.
///
/// # Errors
/// When communication fails.
pub fn run<T: Float>(comm: &dyn Comm, team: &Team, plan: &NetPlan, subject: &Subject) -> Result<Outcome, RankError> {
    let counted = Counted::new(comm);
    let optimizer = subject.optimizers[0];
    let mut trainer =
        Trainer::<T>::new(&counted, team, plan.clone(), subject.loss, optimizer, subject.init, subject.seed)?;
    let (x, y) = (trainer.owned_input(), trainer.target_region());
    let input = within(trainer.input_region(), &synthetic_input(plan, &x, subject.seed));
    let region = *trainer.gradient_block().region();
    let dy = within(region, &synthetic_gradient(plan, &y, subject.seed));
    counted.reset();
    trainer.lone_forward(input)?;
    let output = trainer.lone_output().map(|block| Block::from_vec(y, block.pack(&y))).unwrap_or_default();
    trainer.lone_backward(dy)?;
    let counts = counted.counts();

    let wide = |values: Vec<T>| values.into_iter().map(T::to_f64).collect::<Vec<f64>>();
    let output = gather(comm, plan.graph.output(), &output, |rank| plan.own_output(&plan.grid.coords(rank)))?;
    let mut tensors = vec![("output".to_string(), wide(output))];
    if plan.layer(0).needs_dx {
        let owned = |rank: usize| plan.layer(0).own_x(&plan.grid, &plan.grid.coords(rank));
        let dx = gather(comm, plan.graph.input(), trainer.lone_input_gradient(), owned)?;
        tensors.push(("input gradient".to_string(), wide(dx)));
    }
    for parameter in trainer.parameters() {
        let parameter = parameter?;
        tensors.push((format!("grad {}", parameter.name), wide(parameter.grad)));
    }
    Ok(Outcome { tensors, counts })
}

/// A block over `region` with the values of `own` where they are, and NaN elsewhere.
fn within<T: Float>(region: Region, own: &Block<f32>) -> Block<T> {
    let mut block = Block::from_fn(region, |_| T::from_f64(f64::NAN));
    block.copy_from(&convert::<T>(own), own.region());
    block
}

#[cfg(test)]
mod tests {
    use super::super::oracle::Oracle;
    use super::super::{nets, on_grid};
    use super::*;
    use crate::network;
    use shardmark_comm::threads;
    use shardmark_host::SOLO;
    use shardmark_networks::StepOptions;
    use shardmark_partition::Grid;
    use shardmark_plan::Case;

    #[test]
    fn layers_pass_on_every_grid_with_the_messages_of_their_steps() {
        for line in nets::LAYERS {
            let subject = nets::lone(line).expect("a layer");
            let oracle = Oracle::of(&subject).expect("serial runs");
            for grid in (1..=4).flat_map(Grid::factorisations) {
                let plan = NetPlan::new(subject.graph.clone(), grid);
                let verdicts = threads::run(grid.size(), &threads::Options::default(), |comm| {
                    let result = run::<f32>(comm, &SOLO, &plan, &subject)?;
                    let foreseen = plan.expected_counts(comm.rank(), StepOptions::default());
                    assert_eq!(result.counts, foreseen, "{line} on {grid}");
                    on_grid(&subject, Some(&oracle), grid, comm, &SOLO)
                });
                let verdicts = verdicts.unwrap_or_else(|error| panic!("{line} on {grid}: {error}"));
                assert!(verdicts.iter().all(|v| v.passed), "{line} on {grid}: {:?}", verdicts[0]);
            }
        }
    }

    #[test]
    fn a_quick_check_is_of_a_smaller_layer() {
        let line = "layer:conv2d/c=3/k=4/in=64x8/kernel=3/stride=1/pad=1 batch=9 grid=2x1x1x1";
        let quick = Case::parse(line).expect("a case");
        let full = Case::parse(&format!("{line} check=full")).expect("a case");
        let input = |case: &Case| super::super::subject(case).expect("a subject").graph.input();
        assert_eq!((input(&quick), input(&full)), ([4, 1, 32, 8, 3], [9, 1, 64, 8, 3]));
        let steep = "layer:conv2d/c=3/k=4/in=64x64/kernel=40/stride=1/pad=0";
        assert_eq!(input(&Case::parse(steep).expect("a case")), [1, 1, 64, 64, 3]);
        let memory = network::memory(&quick).expect("fits");
        // Input with border and both gradients with margins: four samples or five a rank.
        assert!(memory.len() == 2 && memory[0] < memory[1], "{memory:?}");
    }
}
