//! Allreduce by direct exchange.
//!
//! Short payloads: every rank sends everything to all and adds in rank order. Long ones: chunk `j` of every rank goes to
//! rank `j`, which adds in rank order and sends the sum to all: 2 n (P - 1) / P elements sent by each rank, the least
//! possible (Patarasuk and Yuan 2009, 10.1016/j.jpdc.2008.09.002). Both give the same bits.

use super::fold::Fold;
use super::{Exchange, Link, Machine};
use crate::data::Data;
use crate::error::Result;
use crate::reduce::ReduceOp;
use crate::transport::Transport;

/// Payloads up to this many bytes go to all ranks in one round.
const ONE_ROUND: usize = 4096;

pub struct Allreduce<T: Transport> {
    exchange: Exchange<T>,
    stage: Stage,
}

enum Stage {
    /// All parts of all ranks come here.
    OneRound(Fold),
    /// Chunk `rank` of all ranks comes here; `whole` is this rank's payload, to be overwritten.
    Scatter { fold: Fold, whole: Data },
    /// The sums of the other chunks come here.
    Gather { whole: Data },
}

/// Elements of chunk `part`.
fn chunk(len: usize, parts: usize, part: usize) -> std::ops::Range<usize> {
    part * len / parts..(part + 1) * len / parts
}

impl<T: Transport> Allreduce<T> {
    pub fn start(link: &Link<'_, T>, data: Data, op: ReduceOp) -> Result<Self> {
        let (rank, size, len, dtype) = (link.rank(), link.size(), data.len(), data.dtype());
        let mut exchange = Exchange::new(link);
        let one_round = data.bytes() <= ONE_ROUND || size == 1;
        let own = if one_round { 0..len } else { chunk(len, size, rank) };
        // Starting with the next rank spreads the load: not everybody talks to rank 0 first.
        for peer in (1..size).map(|i| (rank + i) % size) {
            let part = if one_round { 0..len } else { chunk(len, size, peer) };
            exchange.receive(link, peer, dtype, own.len())?;
            exchange.send(link, peer, data.copy(part))?;
        }
        let fold = Fold::new(op);
        let stage = if one_round {
            exchange.put(rank, data);
            Stage::OneRound(fold)
        } else {
            exchange.put(rank, data.copy(own));
            Stage::Scatter { fold, whole: data }
        };
        Ok(Self { exchange, stage })
    }

    /// Sends this rank's sum to all and writes it in its place.
    fn gather(&mut self, link: &Link<'_, T>, sum: Data, mut whole: Data, mut spare: Vec<Data>) -> Result<Stage> {
        let (rank, size, len) = (link.rank(), link.size(), whole.len());
        for peer in (1..size).map(|i| (rank + i) % size) {
            self.exchange.receive(link, peer, whole.dtype(), chunk(len, size, peer).len())?;
            let copy = match spare.pop() {
                Some(mut buffer) => {
                    buffer.write(0, &sum);
                    buffer
                }
                None => sum.copy(0..sum.len()),
            };
            self.exchange.send(link, peer, copy)?;
        }
        whole.write(chunk(len, size, rank).start, &sum);
        Ok(Stage::Gather { whole })
    }
}

impl<T: Transport> Machine<T> for Allreduce<T> {
    fn advance(&mut self, link: &Link<'_, T>) -> Result<Option<Data>> {
        let size = link.size();
        loop {
            let done = self.exchange.advance(link)?;
            match &mut self.stage {
                Stage::OneRound(fold) => {
                    fold.advance(&mut self.exchange, size);
                    return Ok(if done { fold.finish(size) } else { None });
                }
                Stage::Scatter { fold, whole } => {
                    fold.advance(&mut self.exchange, size);
                    let Some(sum) = fold.finish(size) else { return Ok(None) };
                    let (whole, spare) =
                        (std::mem::replace(whole, Data::empty(sum.dtype())), std::mem::take(&mut fold.spare));
                    self.stage = self.gather(link, sum, whole, spare)?;
                }
                Stage::Gather { whole } => {
                    for peer in 0..size {
                        if let Some(sum) = self.exchange.take(peer) {
                            whole.write(chunk(whole.len(), size, peer).start, &sum);
                        }
                    }
                    let dtype = whole.dtype();
                    return Ok(done.then(|| std::mem::replace(whole, Data::empty(dtype))));
                }
            }
        }
    }

    fn missing(&self, ranks: &mut Vec<usize>) {
        self.exchange.missing(ranks);
    }
}
