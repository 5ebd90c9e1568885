//! The data of a problem, ready to run its passes.

use crate::Problem;
use shardmark_host::SOLO;
use shardmark_layers::conv::{Isa, Local};
use shardmark_partition::{Region, SPATIAL};
use shardmark_tensor::{Block, rng};
use std::fmt;

/// A pass of a convolution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pass {
    /// Outputs.
    Forward,
    /// Input gradients.
    BackwardData,
    /// Weight gradients.
    BackwardWeight,
}

/// All passes.
pub const PASSES: [Pass; 3] = [Pass::Forward, Pass::BackwardData, Pass::BackwardWeight];

impl fmt::Display for Pass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Pass::Forward => "forward",
            Pass::BackwardData => "backward_data",
            Pass::BackwardWeight => "backward_weight",
        })
    }
}

/// One rank that owns the whole problem; inputs are seeded, margins zero, weights packed.
pub struct Case {
    local: Local<f32>,
    x: Block<f32>,
    y: Block<f32>,
    dx: Block<f32>,
    dy: Block<f32>,
    dw: Vec<f32>,
    inputs: Region,
    outputs: Region,
}

impl Case {
    /// Allocates and fills everything.
    pub fn new(problem: &Problem, isa: Isa) -> Self {
        let conv = &problem.conv;
        let (inputs, outputs) = (Region::full(problem.x), Region::full(problem.y));
        let (mut around_x, mut around_y) = (inputs, outputs);
        for (window, dim) in conv.windows.iter().zip(SPATIAL) {
            around_x = around_x.with(dim, inputs.span(dim).hull(window.inputs(outputs.span(dim))));
            around_y = around_y.with(dim, outputs.span(dim).hull(window.outputs(inputs.span(dim))));
        }
        let weight = random(2, conv.c * conv.k * conv.taps());
        let mut local = Local::new(conv.clone(), isa);
        local.pack_forward(&SOLO, &weight, &[]);
        local.pack_backward(&SOLO, &weight);
        Case {
            local,
            x: filled(around_x, &inputs, 0),
            y: Block::zeros(outputs),
            dx: Block::zeros(inputs),
            dy: filled(around_y, &outputs, 1),
            dw: vec![0.0; weight.len()],
            inputs,
            outputs,
        }
    }

    /// Runs a pass over the whole problem.
    pub fn run(&mut self, pass: Pass) {
        match pass {
            Pass::Forward => self.local.forward(&SOLO, &self.x, &mut self.y, &self.outputs),
            Pass::BackwardData => self.local.backward_data(&SOLO, &self.dy, &mut self.dx, &self.inputs),
            Pass::BackwardWeight => self.local.backward_weight(&SOLO, &self.x, &self.dy, &self.outputs, &mut self.dw),
        }
    }

    /// What a pass wrote.
    pub fn result(&self, pass: Pass) -> &[f32] {
        match pass {
            Pass::Forward => self.y.data(),
            Pass::BackwardData => self.dx.data(),
            Pass::BackwardWeight => &self.dw,
        }
    }
}

fn random(stream: u64, len: usize) -> Vec<f32> {
    (0..len as u64).map(|i| (rng::uniform(1, stream, i) - 0.5) as f32).collect()
}

fn filled(region: Region, inside: &Region, stream: u64) -> Block<f32> {
    let mut block = Block::from_vec(region, random(stream, region.len()));
    block.fill_outside(inside, 0.0);
    block
}
