//! Allgather and all-to-all end alike: the parts of all ranks, concatenated.

use super::{Exchange, Link, Machine};
use crate::data::{Data, Dtype};
use crate::error::Result;
use crate::transport::Transport;

/// Waits for the parts and concatenates them.
pub struct Concatenate<T: Transport> {
    pub exchange: Exchange<T>,
    pub dtype: Dtype,
    /// Elements of all parts together.
    pub len: usize,
}

/// Every rank sends its part to all.
pub fn start<T: Transport>(link: &Link<'_, T>, data: Data, counts: &[usize]) -> Result<Concatenate<T>> {
    let (rank, dtype) = (link.rank(), data.dtype());
    let mut exchange = Exchange::new(link, 0);
    for peer in link.others() {
        // Both sides know the counts, so an empty part needs no message.
        if counts[peer] > 0 {
            exchange.receive(link, peer, dtype, counts[peer])?;
        }
        if counts[rank] > 0 {
            exchange.send(link, peer, data.copy(0..data.len()))?;
        }
    }
    exchange.put(rank, data);
    Ok(Concatenate { exchange, dtype, len: counts.iter().sum() })
}

impl<T: Transport> Machine<T> for Concatenate<T> {
    fn advance(&mut self, link: &Link<'_, T>) -> Result<Option<Data>> {
        let done = self.exchange.advance(link, &mut Vec::new())?;
        Ok(done.then(|| self.exchange.concatenate(self.dtype, self.len)))
    }

    fn missing(&self, ranks: &mut Vec<usize>) {
        self.exchange.missing(ranks);
    }
}
