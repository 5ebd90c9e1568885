//! Reduce-scatter by direct exchange: part `j` of every rank goes to rank `j`, which adds in rank order.

use super::fold::Fold;
use super::{Exchange, Link, Machine, offsets};
use crate::data::Data;
use crate::error::Result;
use crate::reduce::ReduceOp;
use crate::transport::Transport;

pub struct ReduceScatter<T: Transport> {
    exchange: Exchange<T>,
    fold: Fold,
    /// This rank's own part, to become the sum.
    own: Data,
}

impl<T: Transport> ReduceScatter<T> {
    pub fn start(link: &Link<'_, T>, data: Data, counts: &[usize], op: ReduceOp) -> Result<Self> {
        let (rank, at) = (link.rank(), offsets(counts));
        let mut exchange = Exchange::new(link, 0);
        for peer in link.others() {
            exchange.receive(link, peer, data.dtype(), counts[rank])?;
            exchange.send(link, peer, data.copy(at[peer]..at[peer + 1]))?;
        }
        Ok(Self { exchange, fold: Fold::new(op), own: data.copy(at[rank]..at[rank + 1]) })
    }
}

impl<T: Transport> Machine<T> for ReduceScatter<T> {
    fn advance(&mut self, link: &Link<'_, T>) -> Result<Option<Data>> {
        let through = self.exchange.advance(link, &mut Vec::new())?;
        let place = (link.rank(), link.size());
        let added = self.fold.advance(&mut self.exchange, place, (&mut self.own, 0), &mut Vec::new());
        Ok((through && added).then(|| self.own.take()))
    }

    fn missing(&self, ranks: &mut Vec<usize>) {
        self.exchange.missing(ranks);
    }
}
