//! All-to-all by direct exchange; empty parts need no message.

use super::{Exchange, Link, Machine, offsets};
use crate::data::{Data, Dtype};
use crate::error::Result;
use crate::transport::Transport;

/// Waits for the parts and concatenates them.
pub struct Concatenate<T: Transport> {
    exchange: Exchange<T>,
    dtype: Dtype,
    /// Elements of all parts together.
    len: usize,
}

/// Sends part `j` to rank `j`.
pub fn start<T: Transport>(
    link: &Link<'_, T>,
    data: Data,
    send_counts: &[usize],
    recv_counts: &[usize],
) -> Result<Concatenate<T>> {
    let (rank, dtype, at) = (link.rank(), data.dtype(), offsets(send_counts));
    let mut exchange = Exchange::new(link, 0);
    for peer in link.others() {
        if recv_counts[peer] > 0 {
            exchange.receive(link, peer, dtype, recv_counts[peer])?;
        }
        if send_counts[peer] > 0 {
            exchange.send(link, peer, data.copy(at[peer]..at[peer + 1]))?;
        }
    }
    exchange.put(rank, data.copy(at[rank]..at[rank + 1]));
    Ok(Concatenate { exchange, dtype, len: recv_counts.iter().sum() })
}

impl<T: Transport> Machine<T> for Concatenate<T> {
    fn advance(&mut self, link: &Link<'_, T>) -> Result<Option<Data>> {
        let done = self.exchange.advance(link)?;
        Ok(done.then(|| self.exchange.concatenate(self.dtype, self.len)))
    }

    fn missing(&self, ranks: &mut Vec<usize>) {
        self.exchange.missing(ranks);
    }
}
