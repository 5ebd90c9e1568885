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
}

impl<T: Transport> ReduceScatter<T> {
    pub fn start(link: &Link<'_, T>, data: Data, counts: &[usize], op: ReduceOp) -> Result<Self> {
        let (rank, size, at) = (link.rank(), link.size(), offsets(counts));
        let mut exchange = Exchange::new(link);
        for peer in (1..size).map(|i| (rank + i) % size) {
            exchange.receive(link, peer, data.dtype(), counts[rank])?;
            exchange.send(link, peer, data.copy(at[peer]..at[peer + 1]))?;
        }
        exchange.put(rank, data.copy(at[rank]..at[rank + 1]));
        Ok(Self { exchange, fold: Fold::new(op) })
    }
}

impl<T: Transport> Machine<T> for ReduceScatter<T> {
    fn advance(&mut self, link: &Link<'_, T>) -> Result<Option<Data>> {
        let done = self.exchange.advance(link)?;
        self.fold.advance(&mut self.exchange, link.size());
        Ok(if done { self.fold.finish(link.size()) } else { None })
    }

    fn missing(&self, ranks: &mut Vec<usize>) {
        self.exchange.missing(ranks);
    }
}
