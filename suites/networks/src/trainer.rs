//! A rank's replica of the network and the training step.

use crate::bucket::Bucket;
use crate::clock::{Clock, lap};
use crate::error::TrainError;
use crate::exchange::Outbox;
use crate::graph::Node;
use crate::groups::GroupMap;
use crate::init::{InitScheme, initial_values};
use crate::plan::NetPlan;
use crate::pool::Pool;
use crate::slabs::Sums;
use crate::stage::{Stage, fuse};
use crate::update::{Flight, Goal};
use shardmark_comm::{Comm, CommExt, ReduceOp};
use shardmark_host::Team;
use shardmark_layers::loss::Loss;
use shardmark_layers::optim::{OptimSpec, Optimizer};
use shardmark_layers::{Env, Float, Layer, Op, Samples};
use shardmark_partition::{Coords, Region};
use shardmark_tensor::Block;
use std::cell::Cell;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

/// A parameter as PyTorch has it.
#[derive(Clone, Debug, PartialEq)]
pub struct Parameter<T> {
    /// Full name: `conv1.weight`.
    pub name: String,
    /// Values in PyTorch's layout.
    pub value: Vec<T>,
    /// Gradients in PyTorch's layout.
    pub grad: Vec<T>,
}

/// One rank of a training run: parameters, tensors of the current step, optimizer state.
pub struct Trainer<'c, T: Float> {
    pub(crate) comm: &'c dyn Comm,
    pub(crate) team: &'c Team,
    pub(crate) groups: GroupMap<'c>,
    pub(crate) plan: NetPlan,
    pub(crate) at: Coords,
    /// What this rank does, layer by layer; shared, since a pass walks it while it changes the rest.
    pub(crate) stages: Arc<[Stage]>,
    pub(crate) layers: Vec<Box<dyn Layer<T>>>,
    /// Input of layer `i`, as it consumes it; the prediction last.
    pub(crate) tensors: Vec<Block<T>>,
    /// Tensors that were redistributed, as their producer left them.
    pub(crate) moved_away: Vec<Option<Block<T>>>,
    /// Gradient of a lone layer's input.
    pub(crate) input_gradient: Block<T>,
    /// By layer.
    pub(crate) buckets: Vec<Bucket>,
    /// Gathers what the ranks made of their shares of the buckets; `None` on one rank.
    pub(crate) gather: Option<Box<dyn Comm>>,
    pub(crate) goal: Goal,
    pub(crate) outbox: Outbox,
    /// Sums under way, in the order of the backward pass.
    pub(crate) sums: VecDeque<Flight>,
    pub(crate) gathers: VecDeque<Flight>,
    pub(crate) pool: Pool<T>,
    pub(crate) slab_sums: Sums<T>,
    pub(crate) seed: u64,
    pub(crate) step: u64,
    pub(crate) training: bool,
    /// Seconds of the current step.
    pub clock: Clock,
    loss: Loss,
    prediction: Block<T>,
    pub(crate) optimizer: Optimizer<T>,
}

impl<'c, T: Float> Trainer<'c, T> {
    /// Builds the layers with their start values; `team` is the threads that share this rank's work. Collective: groups of
    /// ranks are split off.
    ///
    /// # Errors
    /// When the communicator's size is not the grid's, or a split fails.
    pub fn new(
        comm: &'c dyn Comm,
        team: &'c Team,
        plan: NetPlan,
        loss: Loss,
        optimizer: OptimSpec,
        init: InitScheme,
        seed: u64,
    ) -> Result<Self, TrainError> {
        if comm.size() != plan.grid.size() {
            let (expected, grid) = (plan.grid.size(), plan.grid.to_string());
            return Err(TrainError::Ranks { expected, grid, got: comm.size() });
        }
        let at = plan.grid.coords(comm.rank());
        let groups = GroupMap::new(comm, &plan, &at)?;
        let mut layers = build::<T>(&plan, comm.rank(), init, seed);
        let mut stages: Vec<Stage> = (0..layers.len()).map(|i| Stage::new(&plan, i, &at)).collect();
        fuse(&plan, &mut stages, &mut layers);
        let clock = Clock::new(layers.len());
        let mut slot = 0;
        let lens = layers.iter().map(|layer| layer.params().iter().map(|p| p.value.len()).collect::<Vec<_>>());
        let buckets: Vec<Bucket> = lens
            .zip(&stages)
            .map(|(lens, stage)| {
                slot += lens.len();
                let first = slot - lens.len();
                // What is divided already is all this rank's own.
                let place = if stage.divides { (0, 1) } else { (comm.rank(), comm.size()) };
                Bucket::new(lens, place, first)
            })
            .collect();
        let own_lens: Vec<usize> = buckets.iter().flat_map(|b| b.own.iter().map(|own| own.len())).collect();
        Ok(Trainer {
            comm,
            team,
            groups,
            at,
            stages: stages.into(),
            tensors: Vec::new(),
            moved_away: vec![None; layers.len() + 1],
            prediction: Block::zeros(plan.own_output(&at)),
            plan,
            layers,
            buckets,
            input_gradient: Block::default(),
            gather: if comm.size() > 1 { comm.split(Some(0), comm.rank() as u32)? } else { None },
            goal: Goal::Gradients,
            outbox: Outbox::default(),
            sums: VecDeque::new(),
            gathers: VecDeque::new(),
            pool: Pool::new(),
            slab_sums: Sums::default(),
            seed,
            step: 0,
            training: true,
            clock,
            loss,
            optimizer: Optimizer::new(optimizer, &own_lens),
        })
    }

    /// The network on its grid.
    pub fn plan(&self) -> &NetPlan {
        &self.plan
    }

    /// Region of the input block that [`Trainer::train_step`] takes: what the rank owns, its halo and the border.
    pub fn input_region(&self) -> Region {
        self.plan.layer(0).x_block(&self.plan.grid, &self.at)
    }

    /// Region of the targets that the rank needs.
    pub fn target_region(&self) -> Region {
        self.plan.own_output(&self.at)
    }

    /// A block over [`Trainer::input_region`] to be filled with samples, halo and border included; its values are stale.
    /// Passes that take it give its memory back.
    pub fn input_block(&mut self) -> Block<T> {
        let region = self.input_region();
        self.pool.stale(region)
    }

    /// Forward, loss, backward and update. `input` covers [`Trainer::input_region`], `target`
    /// [`Trainer::target_region`].
    ///
    /// # Errors
    /// When communication fails.
    pub fn train_step(&mut self, input: Block<T>, target: &Block<T>) -> Result<f64, TrainError> {
        let start = Instant::now();
        self.goal = Goal::Update;
        self.optimizer.begin_step();
        let loss = self.passes(input, target)?;
        self.step += 1;
        lap(start, &mut self.clock.phases.step);
        Ok(loss)
    }

    /// Forward, loss and backward: leaves the reduced gradients in the parameters and returns the loss over the whole
    /// batch, equal on all ranks.
    ///
    /// # Errors
    /// When communication fails.
    pub fn gradients(&mut self, input: Block<T>, target: &Block<T>) -> Result<f64, TrainError> {
        self.goal = Goal::Gradients;
        self.passes(input, target)
    }

    fn passes(&mut self, input: Block<T>, target: &Block<T>) -> Result<f64, TrainError> {
        self.forward(input, true)?;
        let (loss, dpred) = self.evaluate_loss(target)?;
        self.backward(dpred)?;
        self.release_tensors();
        self.land_all()?;
        Ok(loss)
    }

    /// Prediction of the last training step for the samples that this rank owns at the end of the network, before the
    /// update.
    pub fn prediction(&self) -> &Block<T> {
        &self.prediction
    }

    /// Most bytes of blocks that this rank held at once: activations, gradients and gradient buckets.
    pub fn peak_block_bytes(&self) -> u64 {
        (self.pool.most_lent() * T::BYTES) as u64
    }

    /// Prediction of this rank's samples in evaluation mode (no dropout, running statistics).
    ///
    /// # Errors
    /// When communication fails.
    pub fn predict(&mut self, input: Block<T>) -> Result<Block<T>, TrainError> {
        self.forward(input, false)?;
        self.outbox.clear(self.comm)?;
        let prediction = self.tensors.pop().unwrap_or_default();
        self.release_tensors();
        Ok(prediction)
    }

    /// Gives all ranks the mean of their running statistics where batch norm took them over fewer than all ranks, so that
    /// an evaluation does not depend on which rank a sample falls to. Collective.
    ///
    /// # Errors
    /// When communication fails.
    pub fn average_running_statistics(&mut self) -> Result<(), TrainError> {
        let ranks = T::from_f64(self.comm.size() as f64);
        for (node, layer) in self.plan.graph.nodes.iter().zip(&mut self.layers) {
            if !matches!(&node.op, Op::Norm(norm) if norm.group.parts(&self.plan.grid) < self.comm.size()) {
                continue;
            }
            for (_, values) in layer.buffers_mut() {
                *values = self.comm.allreduce_vec(std::mem::take(values), ReduceOp::Sum)?;
                values.iter_mut().for_each(|v| *v = *v / ranks);
            }
        }
        Ok(())
    }

    fn evaluate_loss(&mut self, target: &Block<T>) -> Result<(f64, Block<T>), TrainError> {
        let last = self.plan.graph.nodes.len() - 1;
        let count = self.plan.graph.output().iter().product::<usize>();
        let (pred, own) = (&self.tensors[last + 1], *self.prediction.region());
        self.prediction.copy_from(pred, &own);
        let mut dpred = self.pool.stale(self.plan.gradient_block(last, &self.at));
        let sum = self.loss.sum_and_gradient(pred, target, &mut dpred, &own, count);
        let start = Instant::now();
        let total = if self.comm.size() > 1 { self.comm.allreduce_value(sum, ReduceOp::Sum)? } else { sum };
        self.clock.phases.add_halo(start.elapsed().as_secs_f64());
        Ok((total / count as f64, dpred))
    }

    /// Takes all tensors of a pass back.
    pub(crate) fn release_tensors(&mut self) {
        let moved = self.moved_away.iter_mut().filter_map(Option::take);
        let dx = std::mem::take(&mut self.input_gradient);
        self.tensors.drain(..).chain(moved).chain([dx]).for_each(|block| self.pool.give(block));
    }

    pub(crate) fn env<'e>(
        groups: &'e GroupMap<'c>,
        team: &'e Team,
        seed: u64,
        step: u64,
        layer: usize,
        training: bool,
    ) -> Env<'e> {
        Env { groups, seed, step, layer: layer as u64, training, team, communication_s: Cell::new(0.0) }
    }

    /// Parameters in PyTorch's order, one after the other; divided ones are gathered as they are asked for. Collective: all
    /// ranks take all of them.
    ///
    /// # Errors
    /// When communication fails.
    pub fn parameters(&self) -> impl Iterator<Item = Result<Parameter<T>, TrainError>> + '_ {
        self.plan.graph.params().map(|(i, j, name, _)| {
            let (op, param) = (&self.plan.graph.nodes[i].op, &self.layers[i].params()[j]);
            let ranks = self.comm.size();
            let whole = |own: &Vec<T>| match self.plan.divides(i) {
                true => {
                    let counts: Vec<usize> = (0..ranks).map(|rank| op.share(j, rank, ranks).len()).collect();
                    Ok::<_, TrainError>(op.torch_layout(j, &self.comm.allgatherv_vec(own.clone(), &counts)?))
                }
                false => Ok(op.torch_layout(j, own)),
            };
            Ok(Parameter { name, value: whole(&param.value)?, grad: whole(&param.grad)? })
        })
    }

    /// What layers keep beside parameters, by full name (`bn1.running_mean`) in PyTorch's order: this rank's replica.
    pub fn buffers(&self) -> Vec<(String, &[T])> {
        let nodes = self.plan.graph.nodes.iter().zip(&self.layers);
        nodes
            .flat_map(|(node, layer)| {
                layer.buffers().into_iter().map(|(name, values)| (format!("{}.{name}", node.name), values))
            })
            .collect()
    }

    /// Overwrites a parameter by its full name with values in PyTorch's layout.
    ///
    /// # Errors
    /// When there is no such parameter or its size differs.
    pub fn set_parameter(&mut self, name: &str, values: &[f64]) -> Result<(), TrainError> {
        let found = self.plan.graph.params().find(|(_, _, n, _)| n == name);
        let expected = found.as_ref().map_or(0, |(_, _, _, spec)| spec.len());
        let Some((i, j, _, _)) = found.filter(|_| expected == values.len()) else {
            return Err(TrainError::Parameter { name: name.to_string(), expected, got: values.len() });
        };
        let values: Vec<T> = values.iter().map(|&v| T::from_f64(v)).collect();
        self.layers[i].params_mut()[j].value = own_values(&self.plan, self.comm.rank(), (i, j), &values);
        Ok(())
    }
}

/// The layers of a rank with their start values.
fn build<T: Float>(plan: &NetPlan, rank: usize, init: InitScheme, seed: u64) -> Vec<Box<dyn Layer<T>>> {
    let (graph, samples) = (&plan.graph, plan.tail_samples());
    let layer = |(i, node): (usize, &Node)| {
        let samples = plan.divides(i).then(|| Samples::new(rank, samples.clone()));
        let share = samples.and_then(|samples| node.op.build_share::<T>(graph.shapes[i], samples));
        share.map_or_else(|| node.op.build(graph.shapes[i]), |share| Box::new(share) as Box<dyn Layer<T>>)
    };
    let mut layers: Vec<Box<dyn Layer<T>>> = graph.nodes.iter().enumerate().map(layer).collect();
    for (i, j, _, spec) in graph.params() {
        let values: Vec<T> = initial_values(&spec, init, seed, i, j).into_iter().map(T::from_f64).collect();
        layers[i].params_mut()[j].value = own_values(plan, rank, (i, j), &values);
    }
    layers
}

/// What a rank keeps of parameter `j` of layer `i`, given in PyTorch's layout, in the layer's.
fn own_values<T: Float>(plan: &NetPlan, rank: usize, (i, j): (usize, usize), values: &[T]) -> Vec<T> {
    let op = &plan.graph.nodes[i].op;
    let whole = op.layer_layout(j, values);
    if plan.divides(i) { whole[op.share(j, rank, plan.grid.size())].to_vec() } else { whole }
}
