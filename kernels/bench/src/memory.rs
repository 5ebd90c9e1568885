//! What a problem takes of the host's memory, told by its sizes before anything is allocated.

use crate::Work;
use shardmark_layers::Op;
use shardmark_partition::{Region, SPATIAL, Shape, Window};
use shardmark_problem::elements;

/// Input and output of a layer, each alone and with the margins that the passes read.
pub(crate) struct Regions {
    pub inputs: Region,
    pub outputs: Region,
    pub around_x: Region,
    pub around_y: Region,
}

impl Regions {
    /// Those of windows that read `x` and write `y`.
    pub fn of(windows: &[Window; 3], x: Shape, y: Shape) -> Self {
        let (inputs, outputs) = (Region::full(x), Region::full(y));
        let (mut around_x, mut around_y) = (inputs, outputs);
        for (window, dim) in windows.iter().zip(SPATIAL) {
            around_x = around_x.with(dim, inputs.span(dim).hull(window.inputs(outputs.span(dim))));
            around_y = around_y.with(dim, outputs.span(dim).hull(window.outputs(inputs.span(dim))));
        }
        Regions { inputs, outputs, around_x, around_y }
    }

    /// Those of a transposed convolution: the windows are its adjoint's, which reads `y` and writes `x`.
    pub fn transposed(windows: &[Window; 3], x: Shape, y: Shape) -> Self {
        let Regions { inputs, outputs, around_x, around_y } = Regions::of(windows, y, x);
        Regions { inputs: outputs, outputs: inputs, around_x: around_y, around_y: around_x }
    }

    /// Values of `x`, `y` and their gradients, of which none is larger than the tensor with its margins.
    fn values(&self) -> u128 {
        let len = |region: &Region| elements(region.shape());
        2u128.saturating_mul(len(&self.around_x).saturating_add(len(&self.around_y)))
    }
}

/// Bytes that a case of some work holds at once, about: tensors, parameters and what layers derive from both. Sizes may be
/// beyond any machine, so nothing overflows.
pub(crate) fn bytes(work: &Work) -> u64 {
    // Value, gradient, and packed for the forward pass and for the data gradient.
    let weights = |values: usize| 4 * values as u128;
    let values = match work {
        Work::Layer { op, x, y, .. } => {
            let regions = Regions::of(&op.windows(), *x, *y);
            let params = op.params().iter().map(|spec| weights(spec.len())).sum();
            regions.values().saturating_add(params).saturating_add(tables(op, &regions))
        }
        Work::Transposed { conv, x, y, .. } => {
            let regions = Regions::transposed(&conv.windows, *x, *y);
            regions.values().saturating_add(weights(conv.c * conv.k * conv.adjoint().taps()))
        }
        Work::Update { optimizer, len } => (2 + optimizer.state_names().len() as u128) * *len as u128,
    };
    u64::try_from(values.saturating_mul(size_of::<f32>() as u128)).unwrap_or(u64::MAX)
}

/// What the gradient of a pool looks up, in values: of each tap its place and its number, and of each column of a line
/// three numbers and the outputs that read it. Of a window as wide as the input it is more than the tensors.
fn tables(op: &Op, regions: &Regions) -> u128 {
    let Op::Pool(pool) = op else { return 0 };
    let [taps, columns] = [pool.taps(), regions.around_x.shape()[3]].map(|n| n as u128);
    let row = &pool.windows[2];
    let words = taps + columns * (3 + row.kernel.div_ceil(row.stride) as u128);
    2 * words + taps
}
