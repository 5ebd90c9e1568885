//! References and boxes of communicators are communicators.

use crate::comm::{Combine, Comm, Failure, Request};
use crate::data::{Data, Dtype};
use crate::error::Result;
use crate::reduce::ReduceOp;

macro_rules! forward {
    ($t:ty) => {
        impl<C: Comm + ?Sized> Comm for $t {
            fn rank(&self) -> usize {
                (**self).rank()
            }
            fn size(&self) -> usize {
                (**self).size()
            }
            fn name(&self) -> &'static str {
                (**self).name()
            }
            fn global_rank(&self, peer: usize) -> usize {
                (**self).global_rank(peer)
            }
            fn isend(&self, peer: usize, key: u32, data: Data) -> Result<Request> {
                (**self).isend(peer, key, data)
            }
            fn irecv(&self, peer: usize, key: u32, dtype: Dtype, len: usize) -> Result<Request> {
                (**self).irecv(peer, key, dtype, len)
            }
            fn iallreduce(&self, data: Data, op: ReduceOp) -> Result<Request> {
                (**self).iallreduce(data, op)
            }
            fn ireduce_scatter(&self, data: Data, counts: &[usize], op: ReduceOp) -> Result<Request> {
                (**self).ireduce_scatter(data, counts, op)
            }
            fn iallgatherv(&self, data: Data, counts: &[usize]) -> Result<Request> {
                (**self).iallgatherv(data, counts)
            }
            fn buffer(&self, dtype: Dtype, len: usize) -> Data {
                (**self).buffer(dtype, len)
            }
            fn recycle(&self, data: Data) {
                (**self).recycle(data)
            }
            fn progress(&self) -> Result<()> {
                (**self).progress()
            }
            fn test(&self, request: &Request) -> Result<bool> {
                (**self).test(request)
            }
            fn wait(&self, request: Request) -> Result<Data> {
                (**self).wait(request)
            }
            fn allreduce(&self, data: Data, op: ReduceOp) -> Result<Data> {
                (**self).allreduce(data, op)
            }
            fn alltoallv(&self, data: Data, send_counts: &[usize], recv_counts: &[usize]) -> Result<Data> {
                (**self).alltoallv(data, send_counts, recv_counts)
            }
            fn broadcast(&self, root: usize, data: Data) -> Result<Data> {
                (**self).broadcast(root, data)
            }
            fn tree_allreduce(&self, data: Data, combine: &mut Combine<'_>) -> Result<Data> {
                (**self).tree_allreduce(data, combine)
            }
            fn barrier(&self) -> Result<()> {
                (**self).barrier()
            }
            fn first_failure(&self, failure: Option<&str>) -> Result<Option<Failure>> {
                (**self).first_failure(failure)
            }
            fn split(&self, color: Option<u32>, key: u32) -> Result<Option<Box<dyn Comm>>> {
                (**self).split(color, key)
            }
        }
    };
}
forward!(&C);
forward!(Box<C>);
