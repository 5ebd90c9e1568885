//! The data of a transposed convolution, and a pass over it.

use crate::Pass;
use crate::case::random;
use crate::memory::Regions;
use shardmark_host::Team;
use shardmark_layers::conv::{ConvTranspose, Isa, TransposedLocal};
use shardmark_partition::{Region, Shape};
use shardmark_tensor::Block;

/// One rank that owns the whole problem.
pub(crate) struct TransposedState {
    local: TransposedLocal<f32>,
    weight: Vec<f32>,
    dw: Vec<f32>,
    x: Block<f32>,
    y: Block<f32>,
    dx: Block<f32>,
    dy: Block<f32>,
    inputs: Region,
    outputs: Region,
    needs_dx: bool,
}

impl TransposedState {
    pub fn new(spec: &ConvTranspose, x: Shape, y: Shape, first: bool) -> Self {
        let Regions { inputs, outputs, around_x, around_y } = Regions::transposed(&spec.windows, x, y);
        let weights = spec.c * spec.k * spec.adjoint().taps();
        TransposedState {
            local: TransposedLocal::new(spec, x, Isa::selected()),
            weight: random(2, weights),
            dw: vec![0.0; weights],
            x: Block::from_vec(around_x, random(0, around_x.len())),
            y: Block::zeros(outputs),
            dx: Block::zeros(inputs),
            dy: Block::from_vec(around_y, random(1, around_y.len())),
            inputs,
            outputs,
            needs_dx: !first,
        }
    }

    pub fn run(&mut self, pass: Pass, team: &Team) {
        if pass == Pass::Forward {
            self.x.fill_outside(&self.inputs, 0.0);
            self.local.forget_weights();
            self.local.forward(team, &self.weight, &self.x, &mut self.y, &self.outputs);
            return;
        }
        self.dy.fill_outside(&self.outputs, 0.0);
        if pass == Pass::BackwardData || (pass == Pass::Backward && self.needs_dx) {
            self.local.forget_weights();
            self.local.backward_data(team, &self.weight, &self.dy, &mut self.dx, &self.inputs);
        }
        if pass != Pass::BackwardData {
            self.local.backward_weight(team, &self.x, &self.dy, &self.inputs, &mut self.dw);
        }
    }

    pub fn results(&self, pass: Pass) -> Vec<&[f32]> {
        match pass {
            Pass::Forward => vec![self.y.data()],
            Pass::BackwardData => vec![self.dx.data()],
            Pass::Backward if self.needs_dx => vec![self.dx.data(), &self.dw],
            _ => vec![&self.dw],
        }
    }
}
