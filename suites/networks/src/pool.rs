//! Buffers that come and go in every step are kept: fresh pages from the system cost more than many kernels.

use shardmark_partition::Region;
use shardmark_tensor::{Block, Real};
use std::collections::BTreeMap;

/// Freed buffers by length. A step asks for the same lengths as the step before, so after the first one nothing is
/// allocated for blocks.
pub(crate) struct Pool<T> {
    shelves: BTreeMap<usize, Shelf<T>>,
    lent: usize,
    most_lent: usize,
}

/// Buffers of one length.
struct Shelf<T> {
    free: Vec<Vec<T>>,
    lent: usize,
}

impl<T: Real> Pool<T> {
    /// An empty pool.
    pub fn new() -> Self {
        Pool { shelves: BTreeMap::new(), lent: 0, most_lent: 0 }
    }

    /// Most elements that were lent at once.
    pub fn most_lent(&self) -> usize {
        self.most_lent
    }

    /// A buffer of `len` stale values: every element is to be written before it is read.
    pub fn stale_vec(&mut self, len: usize) -> Vec<T> {
        if len == 0 {
            return Vec::new();
        }
        self.lent += len;
        self.most_lent = self.most_lent.max(self.lent);
        let shelf = self.shelves.entry(len).or_insert(Shelf { free: Vec::new(), lent: 0 });
        shelf.lent += 1;
        shelf.free.pop().unwrap_or_else(|| vec![T::ZERO; len])
    }

    /// A block of stale values over `region`.
    pub fn stale(&mut self, region: Region) -> Block<T> {
        Block::from_vec(region, self.stale_vec(region.len()))
    }

    /// Takes a block back.
    pub fn give(&mut self, block: Block<T>) {
        self.give_vec(block.into_vec());
    }

    /// Takes a buffer back. One that did not come from here is dropped, or the pool would grow with every step.
    pub fn give_vec(&mut self, data: Vec<T>) {
        if let Some(shelf) = self.shelves.get_mut(&data.len()).filter(|shelf| shelf.lent > 0) {
            shelf.lent -= 1;
            self.lent -= data.len();
            shelf.free.push(data);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_come_back_and_strangers_are_dropped() {
        let mut pool = Pool::<f32>::new();
        let region = Region::full([1, 2, 3, 4, 5]);
        let first = pool.stale(region);
        let place = first.data().as_ptr();
        pool.give(first);
        pool.give(Block::zeros(region));
        let again = pool.stale(region);
        assert_eq!(again.data().as_ptr(), place);
        assert!(pool.shelves[&120].free.is_empty());
    }
}
