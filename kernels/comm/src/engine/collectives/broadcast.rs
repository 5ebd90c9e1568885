//! Broadcast along a binomial tree.

use super::{Exchange, Link, Machine};
use crate::data::{Data, Dtype};
use crate::error::Result;
use crate::transport::Transport;

/// Positions count from the root: the parent of a position clears its lowest set bit, its children set a lower one.
pub struct Broadcast<T: Transport> {
    exchange: Exchange<T>,
    root: usize,
    stage: Stage,
}

enum Stage {
    /// The payload comes from this rank of the communicator.
    FromParent(usize),
    /// The payload is here and on its way to the children.
    ToChildren(Data),
}

impl<T: Transport> Broadcast<T> {
    /// The payload of `root`; the others' tells the type and length, and its buffer is used again.
    pub fn start(link: &Link<'_, T>, root: usize, data: Data) -> Result<Self> {
        if link.rank() != root {
            let (dtype, len) = (data.dtype(), data.len());
            link.pool.give(data);
            return Self::receive(link, root, dtype, len);
        }
        let mut exchange = Exchange::new(link, 0);
        exchange.put(root, data);
        Ok(Self { exchange, root, stage: Stage::FromParent(root) })
    }

    /// A payload of `len` elements from another rank, `root`.
    pub fn receive(link: &Link<'_, T>, root: usize, dtype: Dtype, len: usize) -> Result<Self> {
        let size = link.size();
        let position = (link.rank() + size - root) % size;
        let parent = ((position & position.wrapping_sub(1)) + root) % size;
        let mut exchange = Exchange::new(link, 0);
        exchange.receive(link, parent, dtype, len)?;
        Ok(Self { exchange, root, stage: Stage::FromParent(parent) })
    }

    /// Sends to the children, the one with most ranks behind it first.
    fn forward(&mut self, link: &Link<'_, T>, data: &Data) -> Result<()> {
        let size = link.size();
        let position = (link.rank() + size - self.root) % size;
        let limit = if position == 0 { size.next_power_of_two() } else { 1 << position.trailing_zeros() };
        let mut bit = limit >> 1;
        while bit > 0 {
            if position + bit < size {
                self.exchange.send(
                    link,
                    (position + bit + self.root) % size,
                    data.copy_to(0..data.len(), link.pool),
                )?;
            }
            bit >>= 1;
        }
        Ok(())
    }
}

impl<T: Transport> Machine<T> for Broadcast<T> {
    fn advance(&mut self, link: &Link<'_, T>) -> Result<Option<Data>> {
        let mut done = self.exchange.advance(link)?;
        if let Stage::FromParent(parent) = self.stage {
            let Some(data) = self.exchange.take(parent) else { return Ok(None) };
            self.forward(link, &data)?;
            self.stage = Stage::ToChildren(data);
            done = self.exchange.advance(link)?;
        }
        let Stage::ToChildren(data) = &mut self.stage else { return Ok(None) };
        Ok(done.then(|| data.take()))
    }

    fn missing(&self, ranks: &mut Vec<usize>) {
        self.exchange.missing(ranks);
    }
}
