//! Checks of operations that overlap.

use super::{Wrong, equal, mark, marks};
use crate::comm::Comm;
use crate::ext::CommExt;
use crate::reduce::ReduceOp;

/// Gradient buckets: many reductions of different lengths outstanding, waited for in another order on every rank.
pub fn many_allreduces(comm: &dyn Comm) -> Result<(), Wrong> {
    const BUCKETS: usize = 24;
    let (rank, size) = (comm.rank(), comm.size());
    let length = |bucket: usize| (bucket * 331) % 2500;
    let mut requests: Vec<_> = (0..BUCKETS)
        .map(|b| Ok((b, comm.iallreduce_vec(marks(rank + b, length(b)), ReduceOp::Sum)?)))
        .collect::<Result<_, Wrong>>()?;
    requests.rotate_left((rank * 5) % BUCKETS);
    for (bucket, request) in requests {
        comm.progress()?;
        let expected = (0..length(bucket)).map(|i| (0..size).map(|r| mark(r + bucket, i)).sum()).collect();
        equal("sum of a bucket", comm.wait_vec::<i32>(request)?, expected)?;
    }
    Ok(())
}

/// Halo exchanges, blocking collectives and a barrier while reductions are outstanding.
pub fn messages_between(comm: &dyn Comm) -> Result<(), Wrong> {
    let (rank, size) = (comm.rank(), comm.size());
    let mut reductions = Vec::new();
    for round in 0..6u32 {
        reductions.push(comm.iallreduce_vec(marks(rank, 3001), ReduceOp::Sum)?);
        let next = (rank + 1 + round as usize) % size;
        let previous = (rank + size * 8 - 1 - round as usize) % size;
        let receive = comm.irecv_vec::<i32>(previous, round, 1500)?;
        let send = comm.isend_vec(next, round, marks(rank, 1500))?;
        equal("halo", comm.wait_vec::<i32>(receive)?, marks(previous, 1500))?;
        comm.wait(send)?;
        match round % 3 {
            0 => comm.barrier()?,
            1 => equal("broadcast", comm.broadcast_vec(0, vec![rank as i32])?, vec![0])?,
            _ => equal("sum", comm.allreduce_value(1, ReduceOp::Sum)?, size as i32)?,
        }
    }
    for request in reductions.into_iter().rev() {
        let expected = (0..3001).map(|i| (0..size).map(|r| mark(r, i)).sum()).collect();
        equal("outstanding sum", comm.wait_vec::<i32>(request)?, expected)?;
    }
    Ok(())
}

/// A reduction so long that the engine takes it in pieces, more than it runs at a time, with a short one beside it.
pub fn long_allreduce(comm: &dyn Comm) -> Result<(), Wrong> {
    let (rank, size) = (comm.rank(), comm.size());
    let len = 9 * (128 << 10) * size + 5;
    let long = comm.iallreduce_vec((0..len).map(|i| (31 * rank + i) as u8).collect(), ReduceOp::Sum)?;
    let short = comm.iallreduce_vec(vec![1i32; 3], ReduceOp::Sum)?;
    equal("short sum", comm.wait_vec::<i32>(short)?, vec![size as i32; 3])?;
    let ranks = 31 * size * (size - 1) / 2;
    let expected = (0..len).map(|i| (ranks + size * i) as u8).collect();
    equal("long sum", comm.wait_vec::<u8>(long)?, expected)
}
