//! Checks of operations that overlap.

use super::split::expect;
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

/// Sharded updates: sums are scattered on one communicator; what each rank makes of its own is gathered on another, as
/// soon as it is there, which is sooner on some ranks than on others. Long and uneven, also with empty, parts.
pub fn scatter_and_gather(comm: &dyn Comm) -> Result<(), Wrong> {
    const BUCKETS: usize = 7;
    let (rank, size) = (comm.rank(), comm.size());
    let second = expect(comm.split(Some(0), rank as u32)?)?;
    let counts = |bucket: usize| -> Vec<usize> {
        (0..size).map(|r| if (r + bucket).is_multiple_of(3) { 0 } else { 70_000 / (r + 1) + 9 * bucket }).collect()
    };
    let total = |bucket: usize| counts(bucket).iter().sum::<usize>();
    let sum = |bucket: usize, i: usize| (0..size).map(|r| mark(r + bucket, i)).sum::<i32>();
    let mut gathers = Vec::new();
    let mut scatters = std::collections::VecDeque::new();
    for bucket in 0..BUCKETS {
        let request = comm.ireduce_scatter_vec(marks(rank + bucket, total(bucket)), &counts(bucket), ReduceOp::Sum)?;
        scatters.push_back((bucket, request));
        // Rank 0 waits at once, the others let up to `rank` of them run.
        while scatters.len() > rank || (bucket + 1 == BUCKETS && !scatters.is_empty()) {
            let Some((bucket, request)) = scatters.pop_front() else { break };
            let mut values = comm.wait_vec::<i32>(request)?;
            let counts = counts(bucket);
            let first = counts[..rank].iter().sum::<usize>();
            let own = first..first + counts[rank];
            equal("own sums", values[own.clone()].to_vec(), own.clone().map(|i| sum(bucket, i)).collect())?;
            for (i, value) in values.iter_mut().enumerate() {
                *value = if own.contains(&i) { *value - 1 } else { -7 };
            }
            gathers.push((bucket, second.iallgatherv_vec(values, &counts)?));
        }
        comm.progress()?;
    }
    for (bucket, request) in gathers {
        let expected = (0..total(bucket)).map(|i| sum(bucket, i) - 1).collect();
        equal("what all made of their sums", second.wait_vec::<i32>(request)?, expected)?;
    }
    Ok(())
}
