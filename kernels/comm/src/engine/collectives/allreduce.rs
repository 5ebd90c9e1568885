//! Allreduce by direct exchange, in pieces.
//!
//! Short payloads and two ranks: every rank sends everything to all and adds in rank order. Else: chunk `j` of every rank
//! goes to rank `j`, which adds in rank order and sends the sum to all, so each rank sends 2 n (P - 1) / P elements, the
//! least possible (Patarasuk and Yuan 2009, 10.1016/j.jpdc.2008.09.002). Each element is summed in rank order
//! either way, so the bits do not depend on the way or on the pieces.
//!
//! Long payloads go piece by piece, a few pieces at a time: messages overlap with sums, and the buffers are small enough
//! to stay in cache and to be used again.

use super::fold::Fold;
use super::{Exchange, Link, Machine, TAGS};
use crate::data::Data;
use crate::error::Result;
use crate::reduce::ReduceOp;
use crate::transport::Transport;
use std::ops::Range;

/// Payloads up to this many bytes go to all ranks in one round.
const ONE_ROUND: usize = 4096;

/// Bytes of one message in a long payload.
const CHUNK: usize = 128 << 10;

pub struct Allreduce<T: Transport> {
    plan: Plan,
    /// This rank's payload; becomes the sum, piece by piece.
    whole: Data,
    /// What runs now: lane `l` takes the pieces `l`, `l + TAGS`, ... one after the other under one tag.
    lanes: Vec<Option<Piece<T>>>,
    /// Buffers to be used again.
    spare: Vec<Data>,
}

/// How a payload is cut; equal on all ranks.
struct Plan {
    len: usize,
    size: usize,
    op: ReduceOp,
    one_round: bool,
    /// Elements of a piece.
    piece: usize,
}

impl Plan {
    fn pieces(&self) -> usize {
        self.len.div_ceil(self.piece).max(1)
    }

    /// Elements of piece `number`.
    fn span(&self, number: usize) -> Range<usize> {
        number * self.piece..((number + 1) * self.piece).min(self.len)
    }

    /// The elements of a piece that rank `rank` adds.
    fn chunk(&self, number: usize, rank: usize) -> Range<usize> {
        let Range { start, end } = self.span(number);
        if self.one_round {
            return start..end;
        }
        let len = end - start;
        start + rank * len / self.size..start + (rank + 1) * len / self.size
    }
}

/// A piece on its way.
struct Piece<T: Transport> {
    number: usize,
    exchange: Exchange<T>,
    stage: Stage,
}

enum Stage {
    /// The own chunk of all ranks comes here and is added.
    Add(Fold),
    /// The sums of the other chunks come here.
    Gather,
    /// All is here; some sends may still run.
    Send,
}

impl<T: Transport> Allreduce<T> {
    pub fn start(link: &Link<'_, T>, data: Data, op: ReduceOp) -> Result<Self> {
        let (len, size) = (data.len(), link.size());
        let one_round = data.bytes() <= ONE_ROUND || size <= 2;
        let chunk = CHUNK / data.dtype().size();
        let plan = Plan { len, size, op, one_round, piece: if one_round { chunk } else { chunk * size } };
        let mut machine = Self { plan, whole: data, lanes: Vec::new(), spare: Vec::new() };
        for number in 0..machine.plan.pieces().min(TAGS as usize) {
            let piece = machine.start_piece(link, number)?;
            machine.lanes.push(Some(piece));
        }
        Ok(machine)
    }

    fn start_piece(&mut self, link: &Link<'_, T>, number: usize) -> Result<Piece<T>> {
        let (plan, dtype) = (&self.plan, self.whole.dtype());
        let own = plan.chunk(number, link.rank());
        let mut exchange = Exchange::new(link, (number % TAGS as usize) as u32);
        for peer in link.others() {
            exchange.receive(link, peer, dtype, own.len())?;
            let copy = self.whole.copy_to(plan.chunk(number, peer), self.spare.pop());
            exchange.send(link, peer, copy)?;
        }
        Ok(Piece { number, exchange, stage: Stage::Add(Fold::new(plan.op)) })
    }

    /// Takes one piece as far as possible; true when it is complete.
    fn advance_piece(&mut self, link: &Link<'_, T>, piece: &mut Piece<T>) -> Result<bool> {
        let (plan, rank, size) = (&self.plan, link.rank(), link.size());
        let through = piece.exchange.advance(link, &mut self.spare)?;
        let own = plan.chunk(piece.number, rank);
        if let Stage::Add(fold) = &mut piece.stage {
            let target = (&mut self.whole, own.start);
            if !fold.advance(&mut piece.exchange, (rank, size), target, &mut self.spare) {
                return Ok(false);
            }
            if plan.one_round {
                piece.stage = Stage::Send;
                return Ok(through);
            }
            for peer in link.others() {
                piece.exchange.receive(link, peer, self.whole.dtype(), plan.chunk(piece.number, peer).len())?;
                piece.exchange.send(link, peer, self.whole.copy_to(own.clone(), self.spare.pop()))?;
            }
            piece.stage = Stage::Gather;
            return self.advance_piece(link, piece);
        }
        if let Stage::Gather = piece.stage {
            for peer in 0..size {
                if let Some(sum) = piece.exchange.take(peer) {
                    self.whole.write(plan.chunk(piece.number, peer).start, &sum);
                    self.spare.push(sum);
                }
            }
        }
        Ok(through)
    }
}

impl<T: Transport> Machine<T> for Allreduce<T> {
    fn advance(&mut self, link: &Link<'_, T>) -> Result<Option<Data>> {
        let mut running = false;
        for lane in 0..self.lanes.len() {
            while let Some(mut piece) = self.lanes[lane].take() {
                if !self.advance_piece(link, &mut piece)? {
                    self.lanes[lane] = Some(piece);
                    running = true;
                    break;
                }
                let next = piece.number + TAGS as usize;
                if next < self.plan.pieces() {
                    self.lanes[lane] = Some(self.start_piece(link, next)?);
                }
            }
        }
        Ok((!running).then(|| self.whole.take()))
    }

    fn missing(&self, ranks: &mut Vec<usize>) {
        self.lanes.iter().flatten().for_each(|piece| piece.exchange.missing(ranks));
        ranks.sort_unstable();
        ranks.dedup();
    }
}
