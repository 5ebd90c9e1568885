//! The sum in rank order, in place.

use super::Exchange;
use crate::data::Data;
use crate::engine::pool::Pool;
use crate::reduce::{ReduceOp, Side, reduce_into};
use crate::transport::Transport;

/// Reduces the parts of an exchange in rank order, each as soon as those before it are in: the order never depends on
/// which message came first. Parts of lower ranks are collected in the first one's buffer; from this rank's turn on the
/// sum lies in this rank's own payload.
pub struct Fold {
    op: ReduceOp,
    next: usize,
    /// The sum of the lower ranks, until this rank's turn.
    lower: Option<Data>,
}

impl Fold {
    pub fn new(op: ReduceOp) -> Self {
        Self { op, next: 0, lower: None }
    }

    /// Adds what can be added to `whole` from `at` on, where the own part of rank `rank` of `size` lies; true when all
    /// is added. Buffers that are no longer needed go to `pool`.
    pub fn advance<T: Transport>(
        &mut self,
        exchange: &mut Exchange<T>,
        (rank, size): (usize, usize),
        (whole, at): (&mut Data, usize),
        pool: &Pool,
    ) -> bool {
        while self.next < size {
            if self.next == rank {
                if let Some(lower) = self.lower.take() {
                    reduce_into(whole, at, &lower, Side::Left, self.op);
                    pool.give(lower);
                }
            } else {
                let Some(part) = exchange.take(self.next) else { return false };
                match &mut self.lower {
                    _ if self.next > rank => reduce_into(whole, at, &part, Side::Right, self.op),
                    Some(lower) => reduce_into(lower, 0, &part, Side::Right, self.op),
                    None => {
                        self.lower = Some(part);
                        self.next += 1;
                        continue;
                    }
                }
                pool.give(part);
            }
            self.next += 1;
        }
        true
    }
}
