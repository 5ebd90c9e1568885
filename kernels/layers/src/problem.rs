//! Layers that a problem line names.

use crate::Op;
use crate::activation::LeakyRelu;
use crate::conv::{Algorithm, Conv};
use crate::dense::Dense;
use crate::norm::BatchNorm;
use crate::pool::{Pool, PoolMode};
use shardmark_partition::AxisSet;
use shardmark_problem::{Kind, LayerLine};

impl Op {
    /// The layer of a line; batch norm's statistics are a rank's own. `None` for what can stand in no graph: transposed
    /// convolutions.
    pub fn of_line(line: &LayerLine) -> Option<Op> {
        let (c, k, windows) = (line.x[4], line.k, line.windows);
        Some(match line.kind {
            Kind::Conv => Op::Conv(Conv { c, k, windows, bias: false, algorithm: Algorithm::Auto }),
            Kind::ConvTranspose => return None,
            Kind::Dense => Op::Dense(Dense { c, k, bias: true, bias_init: 0.0 }),
            Kind::PoolAverage => Op::Pool(Pool { mode: PoolMode::Average, windows }),
            Kind::PoolMax => Op::Pool(Pool { mode: PoolMode::Max, windows }),
            Kind::BatchNorm => Op::Norm(BatchNorm { channels: c, eps: 1e-5, momentum: 0.1, group: AxisSet::NONE }),
            Kind::LeakyRelu => Op::LeakyRelu(LeakyRelu { slope: 0.01 }),
        })
    }
}
