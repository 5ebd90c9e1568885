//! The communicator with vectors of a type instead of payloads.

use crate::comm::{Comm, Request};
use crate::data::{Data, Elem};
use crate::error::Result;
use crate::reduce::ReduceOp;

/// Typed calls for every communicator; each does what the call of [`Comm`] without `_vec` does.
pub trait CommExt: Comm {
    /// Starts sending a vector.
    fn isend_vec<T: Elem>(&self, peer: usize, key: u32, vec: Vec<T>) -> Result<Request> {
        self.isend(peer, key, T::wrap(vec))
    }

    /// Starts receiving `len` elements.
    fn irecv_vec<T: Elem>(&self, peer: usize, key: u32, len: usize) -> Result<Request> {
        self.irecv(peer, key, T::DTYPE, len)
    }

    /// A vector for a send, with room for `len` elements.
    fn buffer_vec<T: Elem>(&self, len: usize) -> Vec<T> {
        T::unwrap(self.buffer(T::DTYPE, len)).unwrap_or_default()
    }

    /// Keeps the memory of a vector for later messages.
    fn recycle_vec<T: Elem>(&self, vec: Vec<T>) {
        self.recycle(T::wrap(vec));
    }

    /// Ends an operation.
    fn wait_vec<T: Elem>(&self, request: Request) -> Result<Vec<T>> {
        T::unwrap(self.wait(request)?)
    }

    /// Ends operations in the order given.
    fn wait_all(&self, requests: impl IntoIterator<Item = Request>) -> Result<Vec<Data>> {
        requests.into_iter().map(|r| self.wait(r)).collect()
    }

    /// Receives `len` elements and waits for them.
    fn recv_vec<T: Elem>(&self, peer: usize, key: u32, len: usize) -> Result<Vec<T>> {
        self.wait_vec(self.irecv_vec::<T>(peer, key, len)?)
    }

    /// Starts a reduction.
    fn iallreduce_vec<T: Elem>(&self, vec: Vec<T>, op: ReduceOp) -> Result<Request> {
        self.iallreduce(T::wrap(vec), op)
    }

    /// Starts a reduction that leaves `counts[rank]` sums here.
    fn ireduce_scatter_vec<T: Elem>(&self, vec: Vec<T>, counts: &[usize], op: ReduceOp) -> Result<Request> {
        self.ireduce_scatter(T::wrap(vec), counts, op)
    }

    /// Starts the completion of a vector of which `counts[rank]` elements are here.
    fn iallgatherv_vec<T: Elem>(&self, vec: Vec<T>, counts: &[usize]) -> Result<Request> {
        self.iallgatherv(T::wrap(vec), counts)
    }

    /// Element-wise reduction over all ranks.
    fn allreduce_vec<T: Elem>(&self, vec: Vec<T>, op: ReduceOp) -> Result<Vec<T>> {
        T::unwrap(self.allreduce(T::wrap(vec), op)?)
    }

    /// Reduction of one value over all ranks.
    fn allreduce_value<T: Elem>(&self, value: T, op: ReduceOp) -> Result<T> {
        Ok(self.allreduce_vec(vec![value], op)?[0])
    }

    /// Reduces and leaves `counts[rank]` elements here.
    fn reduce_scatter_vec<T: Elem>(&self, vec: Vec<T>, counts: &[usize], op: ReduceOp) -> Result<Vec<T>> {
        T::unwrap(self.reduce_scatter(T::wrap(vec), counts, op)?)
    }

    /// Concatenates the vectors of all ranks.
    fn allgatherv_vec<T: Elem>(&self, vec: Vec<T>, counts: &[usize]) -> Result<Vec<T>> {
        T::unwrap(self.allgatherv(T::wrap(vec), counts)?)
    }

    /// Exchanges parts with all ranks.
    fn alltoallv_vec<T: Elem>(&self, vec: Vec<T>, send_counts: &[usize], recv_counts: &[usize]) -> Result<Vec<T>> {
        T::unwrap(self.alltoallv(T::wrap(vec), send_counts, recv_counts)?)
    }

    /// Gives every rank the vector of `root`; the others pass one of the same length.
    fn broadcast_vec<T: Elem>(&self, root: usize, vec: Vec<T>) -> Result<Vec<T>> {
        T::unwrap(self.broadcast(root, T::wrap(vec))?)
    }

    /// Merges the vectors of all ranks into `buf`: `combine(left, right)` merges the right slice, of higher ranks,
    /// into the left one.
    fn tree_allreduce_vec<T: Elem>(&self, buf: &mut Vec<T>, combine: &mut dyn FnMut(&mut [T], &[T])) -> Result<()> {
        let data = T::wrap(std::mem::take(buf));
        let merged = self.tree_allreduce(data, &mut |left, right| {
            combine(T::slice_mut(left)?, T::slice(right)?);
            Ok(())
        })?;
        *buf = T::unwrap(merged)?;
        Ok(())
    }
}

impl<C: Comm + ?Sized> CommExt for C {}
