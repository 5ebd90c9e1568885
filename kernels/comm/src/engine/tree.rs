//! Merging along a binomial tree, with a combination that the caller supplies.

use super::Engine;
use super::collectives::broadcast::Broadcast;
use super::core::Op;
use crate::comm::{Combine, Comm};
use crate::data::Data;
use crate::error::Result;
use crate::transport::Transport;

/// Rank r collects r + 1, r + 2, r + 4 ... while these bits of r are clear, so it always holds the merge of consecutive
/// ranks from itself on, and what it receives follows directly: the order is fixed and left is always lower. Rank 0
/// broadcasts the result. Blocking, because the combination is borrowed.
pub(super) fn tree_allreduce<T: Transport + 'static>(
    comm: &Engine<T>,
    mut data: Data,
    combine: &mut Combine<'_>,
) -> Result<Data> {
    let (rank, size) = (comm.rank(), comm.size());
    let (tag, operation) = comm.next("tree_allreduce");
    let mut bit = 1;
    while bit < size && rank & bit == 0 {
        if rank + bit < size {
            let incoming = comm.core.receive(comm.group.address(rank + bit, tag), data.dtype(), data.len())?;
            let part = comm.core.wait(comm.core.insert(operation, Op::Recv(incoming)))?;
            combine(&mut data, &part)?;
            comm.core.pool.give(part);
        }
        bit *= 2;
    }
    if rank == 0 {
        return comm.run("tree_allreduce", |link| Broadcast::start(link, 0, data));
    }
    let (dtype, len) = (data.dtype(), data.len());
    let to = comm.group.address(rank - bit, tag);
    let sending = comm.core.transport.start_send(to, data)?;
    let sent = comm.core.wait(comm.core.insert(operation, Op::Send { sending, to: to.global }))?;
    comm.core.pool.give(sent);
    comm.run("tree_allreduce", |link| Broadcast::receive(link, 0, dtype, len))
}
