//! Allreduce, reduce-scatter and allgather by direct exchange, in pieces.
//!
//! A payload is cut into a part for each rank. Reduce-scatter: part `j` of every rank goes to rank `j`, which adds in rank
//! order. Allgather: every rank sends its part to all. Allreduce is the one and then the other, so that each rank sends
//! 2 n (P - 1) / P elements, the least possible (Patarasuk and Yuan 2009, 10.1016/j.jpdc.2008.09.002); short payloads and
//! two ranks: every rank sends everything to all and adds everything. Each element is summed in rank order in any case,
//! so the bits do not depend on the way or on the pieces.
//!
//! Long parts go piece by piece, a few pieces at a time: messages overlap with sums, and the buffers are small enough to
//! stay in cache and to be used again.

use super::fold::Fold;
use super::{Exchange, Link, Machine, TAGS, offsets};
use crate::data::Data;
use crate::error::Result;
use crate::reduce::ReduceOp;
use crate::transport::Transport;
use std::ops::Range;

/// Payloads up to this many bytes go to all ranks in one round.
const ONE_ROUND: usize = 4096;

/// Bytes of one message in a long payload.
const CHUNK: usize = 128 << 10;

/// One of the three collectives under way.
pub struct Pieces<T: Transport> {
    plan: Plan,
    /// This rank's payload; becomes the result, piece by piece.
    whole: Data,
    /// What runs now: lane `l` takes the pieces `l`, `l + TAGS`, ... one after the other under one tag.
    lanes: Vec<Option<Piece<T>>>,
}

/// What happens to a piece.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    /// All ranks add all of it.
    AddAll(ReduceOp),
    /// Each rank adds its part.
    Add(ReduceOp),
    /// Each rank adds its part and sends the sum to all.
    AddAndGather(ReduceOp),
    /// Each rank sends its part to all.
    Gather,
}

/// How a payload is cut; equal on all ranks.
struct Plan {
    way: Way,
    /// Where each rank's part starts, and the end. With [`Way::AddAll`] there is one part, of everybody.
    parts: Vec<usize>,
    /// Elements of a part in a piece.
    piece: usize,
    /// Number of pieces.
    count: usize,
}

impl Plan {
    fn new(way: Way, parts: Vec<usize>, data: &Data) -> Self {
        let piece = CHUNK / data.dtype().size();
        let longest = parts.windows(2).map(|part| part[1] - part[0]).max().unwrap_or(0);
        Plan { way, parts, piece, count: longest.div_ceil(piece) }
    }

    /// The elements of a piece in the part of rank `rank`.
    fn chunk(&self, number: usize, rank: usize) -> Range<usize> {
        let rank = if let Way::AddAll(_) = self.way { 0 } else { rank };
        let (start, end) = (self.parts[rank], self.parts[rank + 1]);
        let at = |pieces: usize| end.min(start + pieces * self.piece);
        at(number)..at(number + 1)
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
    /// The other chunks come here.
    Gather,
    /// All is here; some sends may still run.
    Send,
}

impl<T: Transport> Pieces<T> {
    /// Reduces `data` on all ranks.
    pub fn allreduce(link: &Link<'_, T>, data: Data, op: ReduceOp) -> Result<Self> {
        let (len, size) = (data.len(), link.size());
        let plan = if data.bytes() <= ONE_ROUND || size <= 2 {
            Plan::new(Way::AddAll(op), vec![0, len], &data)
        } else {
            Plan::new(Way::AddAndGather(op), (0..=size).map(|rank| rank * len / size).collect(), &data)
        };
        Self::start(link, plan, data)
    }

    /// Reduces the part of `counts[rank]` elements of `data` on each rank; the result is `data` with it.
    pub fn reduce_scatter(link: &Link<'_, T>, data: Data, counts: &[usize], op: ReduceOp) -> Result<Self> {
        Self::start(link, Plan::new(Way::Add(op), offsets(counts), &data), data)
    }

    /// Completes `data`, of which the part of `counts[rank]` elements is there on each rank.
    pub fn allgather(link: &Link<'_, T>, data: Data, counts: &[usize]) -> Result<Self> {
        Self::start(link, Plan::new(Way::Gather, offsets(counts), &data), data)
    }

    fn start(link: &Link<'_, T>, plan: Plan, data: Data) -> Result<Self> {
        let mut machine = Self { plan, whole: data, lanes: Vec::new() };
        for number in 0..machine.plan.count.min(TAGS as usize) {
            let piece = machine.start_piece(link, number)?;
            machine.lanes.push(Some(piece));
        }
        Ok(machine)
    }

    fn start_piece(&mut self, link: &Link<'_, T>, number: usize) -> Result<Piece<T>> {
        let exchange = Exchange::new(link, (number % TAGS as usize) as u32);
        let mut piece = Piece { number, exchange, stage: Stage::Send };
        let (Way::AddAll(op) | Way::Add(op) | Way::AddAndGather(op)) = self.plan.way else {
            self.start_gathering(link, &mut piece)?;
            return Ok(piece);
        };
        let own = self.plan.chunk(number, link.rank());
        for peer in link.others() {
            // Both sides know the parts, so an empty one needs no message.
            if !own.is_empty() {
                piece.exchange.receive(link, peer, self.whole.dtype(), own.len())?;
            }
            let theirs = self.plan.chunk(number, peer);
            if !theirs.is_empty() {
                piece.exchange.send(link, peer, self.whole.copy_to(theirs, link.pool))?;
            }
        }
        piece.stage = Stage::Add(Fold::new(op));
        Ok(piece)
    }

    fn start_gathering(&mut self, link: &Link<'_, T>, piece: &mut Piece<T>) -> Result<()> {
        let own = self.plan.chunk(piece.number, link.rank());
        for peer in link.others() {
            let theirs = self.plan.chunk(piece.number, peer);
            if !theirs.is_empty() {
                piece.exchange.receive(link, peer, self.whole.dtype(), theirs.len())?;
            }
            if !own.is_empty() {
                piece.exchange.send(link, peer, self.whole.copy_to(own.clone(), link.pool))?;
            }
        }
        piece.stage = Stage::Gather;
        Ok(())
    }

    /// Takes one piece as far as possible; true when it is complete.
    fn advance_piece(&mut self, link: &Link<'_, T>, piece: &mut Piece<T>) -> Result<bool> {
        let (rank, size) = (link.rank(), link.size());
        let through = piece.exchange.advance(link)?;
        if let Stage::Add(fold) = &mut piece.stage {
            let own = self.plan.chunk(piece.number, rank);
            let target = (&mut self.whole, own.start);
            if !own.is_empty() && !fold.advance(&mut piece.exchange, (rank, size), target, link.pool) {
                return Ok(false);
            }
            if let Way::AddAndGather(_) = self.plan.way {
                self.start_gathering(link, piece)?;
                return self.advance_piece(link, piece);
            }
            piece.stage = Stage::Send;
        }
        if let Stage::Gather = piece.stage {
            for peer in 0..size {
                if let Some(part) = piece.exchange.take(peer) {
                    self.whole.write(self.plan.chunk(piece.number, peer).start, &part);
                    link.pool.give(part);
                }
            }
        }
        Ok(through)
    }
}

impl<T: Transport> Machine<T> for Pieces<T> {
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
                if next < self.plan.count {
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
