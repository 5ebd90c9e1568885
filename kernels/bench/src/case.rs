//! The data of a problem on one rank, and a pass over it.

use crate::memory::{self, Regions};
use crate::transposed::TransposedState;
use crate::{Pass, Problem, ProblemError, Work};
use shardmark_comm::Comm;
use shardmark_host::{Memory, Team};
use shardmark_layers::optim::Optimizer;
use shardmark_layers::{Env, GradientHalo, Groups, Layer, LayerError, Op};
use shardmark_partition::{AxisSet, Region, Shape};
use shardmark_tensor::{Block, rng};
use std::cell::Cell;

/// One rank that owns a whole problem; values are random, and the same in every run.
pub struct Case {
    team: Team,
    state: State,
}

enum State {
    Layer(Box<LayerState>),
    Transposed(Box<TransposedState>),
    Update { optimizer: Optimizer<f32>, value: Vec<f32>, grad: Vec<f32> },
}

impl Case {
    /// Allocates and fills everything, and runs the forward pass once: gradients may need what it left behind.
    ///
    /// # Errors
    /// A problem that the memory of this host cannot hold, and those of the layer.
    pub fn new(problem: &Problem, team: Team) -> Result<Self, ProblemError> {
        let needed = memory::bytes(&problem.work);
        Memory::here()
            .holds(needed)
            .map_err(|shortage| ProblemError::Memory { line: problem.to_string(), shortage })?;
        let state = match &problem.work {
            Work::Layer { op, x, y, first } => {
                let mut layer = LayerState::new(op, *x, *y, *first);
                layer.run(Pass::Forward, &team)?;
                State::Layer(Box::new(layer))
            }
            Work::Transposed { conv, x, y, first } => {
                State::Transposed(Box::new(TransposedState::new(conv, *x, *y, *first)))
            }
            &Work::Update { ref optimizer, len } => {
                let optimizer = Optimizer::new(*optimizer, &[len]);
                State::Update { optimizer, value: random(0, len), grad: random(1, len) }
            }
        };
        Ok(Case { team, state })
    }

    /// Runs a pass over the whole problem. As in a training step, parameters count as changed since the last forward
    /// pass, so that what a layer derives from them (packed weights) is derived anew, and margins are filled.
    ///
    /// # Errors
    /// Those of the layer.
    pub fn run(&mut self, pass: Pass) -> Result<(), LayerError> {
        match &mut self.state {
            State::Layer(layer) => layer.run(pass, &self.team)?,
            State::Transposed(layer) => layer.run(pass, &self.team),
            State::Update { optimizer, value, grad } => {
                optimizer.begin_step();
                optimizer.step(&self.team, 0, value, grad);
            }
        }
        Ok(())
    }

    /// What a pass wrote.
    pub fn results(&self, pass: Pass) -> Vec<&[f32]> {
        match &self.state {
            State::Layer(layer) => layer.results(pass),
            State::Transposed(layer) => layer.results(pass),
            State::Update { value, .. } => vec![value],
        }
    }
}

struct LayerState {
    layer: Box<dyn Layer<f32>>,
    x: Block<f32>,
    y: Block<f32>,
    dx: Block<f32>,
    dy: Block<f32>,
    inputs: Region,
    outputs: Region,
    border: f32,
    gradient_halo: GradientHalo,
    needs_dx: bool,
}

impl LayerState {
    fn new(op: &Op, x: Shape, y: Shape, first: bool) -> Self {
        let Regions { inputs, outputs, around_x, around_y } = Regions::of(&op.windows(), x, y);
        let mut layer = op.build(x);
        for (stream, spec) in (2..).zip(op.params()) {
            let i = stream as usize - 2;
            layer.params_mut()[i].value = op.layer_layout(i, &random(stream, spec.len()));
        }
        let gradient_halo = op.gradient_halo();
        LayerState {
            layer,
            x: Block::from_vec(around_x, random(0, around_x.len())),
            y: Block::zeros(outputs),
            dx: Block::zeros(match gradient_halo {
                GradientHalo::Gather => inputs,
                GradientHalo::Scatter => around_x,
            }),
            dy: Block::from_vec(around_y, random(1, around_y.len())),
            inputs,
            outputs,
            border: op.border(),
            gradient_halo,
            needs_dx: !first,
        }
    }

    fn run(&mut self, pass: Pass, team: &Team) -> Result<(), LayerError> {
        let env =
            Env { groups: &Alone, seed: 1, step: 0, layer: 0, training: true, team, communication_s: Cell::new(0.0) };
        match pass {
            Pass::Forward => self.forward(&env),
            Pass::BackwardData => self.backward_data(&env),
            Pass::BackwardParams => self.backward_params(&env),
            Pass::Backward => {
                if self.needs_dx {
                    self.backward_data(&env)?;
                }
                self.backward_params(&env)
            }
            Pass::Update => Ok(()),
        }
    }

    fn forward(&mut self, env: &Env) -> Result<(), LayerError> {
        // Whoever asks for them may change them.
        let _ = self.layer.params_mut();
        self.x.fill_outside(&self.inputs, self.border);
        self.layer.forward(env, &self.x, &mut self.y, &self.outputs)
    }

    fn backward_data(&mut self, env: &Env) -> Result<(), LayerError> {
        let _ = self.layer.params_mut();
        let part = match self.gradient_halo {
            GradientHalo::Gather => {
                self.dy.fill_outside(&self.outputs, 0.0);
                self.inputs
            }
            GradientHalo::Scatter => self.outputs,
        };
        self.layer.backward_data(env, &self.x, &self.y, &self.dy, &mut self.dx, &part)
    }

    fn backward_params(&mut self, env: &Env) -> Result<(), LayerError> {
        self.layer.backward_params(env, &self.x, &self.dy, &self.outputs)
    }

    fn results(&self, pass: Pass) -> Vec<&[f32]> {
        let params = self.layer.params().iter().map(|p| &p.grad[..]);
        match pass {
            Pass::Forward => vec![self.y.data()],
            Pass::BackwardData => vec![self.dx.data()],
            Pass::BackwardParams => params.collect(),
            Pass::Backward if self.needs_dx => std::iter::once(self.dx.data()).chain(params).collect(),
            Pass::Backward => params.collect(),
            Pass::Update => Vec::new(),
        }
    }
}

/// This rank alone.
struct Alone;

impl Groups for Alone {
    fn group(&self, _axes: AxisSet) -> Option<&dyn Comm> {
        None
    }
}

pub(crate) fn random(stream: u64, len: usize) -> Vec<f32> {
    (0..len as u64).map(|i| (rng::uniform(1, stream, i) - 0.5) as f32).collect()
}
