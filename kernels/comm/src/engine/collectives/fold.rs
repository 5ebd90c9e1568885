//! The sum in rank order.

use super::Exchange;
use crate::data::Data;
use crate::reduce::{ReduceOp, reduce_into};
use crate::transport::Transport;

/// Reduces the parts of an exchange in rank order, each as soon as those before it are in: the order never depends on
/// which message came first.
pub struct Fold {
    op: ReduceOp,
    next: usize,
    sum: Option<Data>,
    /// Buffers of parts that were added, for reuse.
    pub spare: Vec<Data>,
}

impl Fold {
    pub fn new(op: ReduceOp) -> Self {
        Self { op, next: 0, sum: None, spare: Vec::new() }
    }

    /// Adds what can be added.
    pub fn advance<T: Transport>(&mut self, exchange: &mut Exchange<T>, ranks: usize) {
        while self.next < ranks
            && let Some(part) = exchange.take(self.next)
        {
            match &mut self.sum {
                None => self.sum = Some(part),
                Some(sum) => {
                    reduce_into(sum, &part, self.op);
                    self.spare.push(part);
                }
            }
            self.next += 1;
        }
    }

    /// The result, once all ranks' parts are in.
    pub fn finish(&mut self, ranks: usize) -> Option<Data> {
        if self.next == ranks { self.sum.take() } else { None }
    }
}
