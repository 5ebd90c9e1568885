//! Buffers that come and go in every step are kept: fresh pages from the system cost more than many kernels.

use shardmark_partition::Region;
use shardmark_tensor::{Block, Real};
use std::collections::BTreeMap;

/// Freed buffers by length. A step asks for the same lengths as the step before, so after the first one nothing is
/// allocated for blocks.
pub(crate) struct Pool<T> {
    free: BTreeMap<usize, Vec<Vec<T>>>,
}

impl<T: Real> Pool<T> {
    /// An empty pool.
    pub fn new() -> Self {
        Pool { free: BTreeMap::new() }
    }

    /// A block over `region` with stale values: for tensors of which every element is written before it is read.
    pub fn stale(&mut self, region: Region) -> Block<T> {
        match self.free.get_mut(&region.len()).and_then(Vec::pop) {
            Some(data) => Block::from_vec(region, data),
            None => Block::zeros(region),
        }
    }

    /// A block of zeros over `region`.
    pub fn zeros(&mut self, region: Region) -> Block<T> {
        let mut block = self.stale(region);
        block.data_mut().fill(T::ZERO);
        block
    }

    /// Takes a block back.
    pub fn give(&mut self, block: Block<T>) {
        let data = block.into_vec();
        if !data.is_empty() {
            self.free.entry(data.len()).or_default().push(data);
        }
    }
}
