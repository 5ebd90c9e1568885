//! Checks of communicators made from others.

use super::{Wrong, equal};
use crate::comm::Comm;
use crate::ext::CommExt;
use crate::reduce::ReduceOp;

/// The part of this rank, which has to be there.
pub fn expect(part: Option<Box<dyn Comm>>) -> Result<Box<dyn Comm>, Wrong> {
    part.ok_or_else(|| Wrong::Value("split: expected a communicator, got none".into()))
}

/// Colours, order by key, and ranks without a colour.
pub fn shapes(comm: &dyn Comm) -> Result<(), Wrong> {
    let (rank, size) = (comm.rank(), comm.size());
    let reversed = expect(comm.split(Some(7), (size - rank) as u32)?)?;
    equal("order by key", reversed.rank(), size - 1 - rank)?;
    equal("rank in the world", reversed.global_rank(reversed.rank()), comm.global_rank(rank))?;

    let even = comm.split((rank % 2 == 0).then_some(u32::MAX), 0)?;
    equal("ranks without a colour get none", even.is_some(), rank % 2 == 0)?;
    if let Some(even) = even {
        equal("half of the ranks", (even.size(), even.rank()), (size.div_ceil(2), rank / 2))?;
        equal("sum over half", even.allreduce_value(rank as i32, ReduceOp::Sum)?, (0..size as i32).step_by(2).sum())?;
    }

    Ok(())
}

/// Every process grid over four axes (sample, depth, height, width): a communicator along each axis.
pub fn grids(comm: &dyn Comm) -> Result<(), Wrong> {
    let (rank, size) = (comm.rank(), comm.size());
    for grid in factorisations(size) {
        let mut sum = rank as i32;
        let mut stride = size;
        for parts in grid {
            stride /= parts;
            let coordinate = rank / stride % parts;
            // Equal for the ranks that differ in this coordinate only.
            let line = rank - coordinate * stride;
            let along = expect(comm.split(Some(line as u32), coordinate as u32)?)?;
            equal("line of a grid", (along.size(), along.rank()), (parts, coordinate))?;
            sum = along.allreduce_value(sum, ReduceOp::Sum)?;
        }
        equal("sum axis by axis", sum, (0..size as i32).sum())?;
    }
    Ok(())
}

/// All ordered products of four factors that give `size`.
fn factorisations(size: usize) -> Vec<[usize; 4]> {
    let divisors = |n: usize| (1..=n).filter(move |d| n.is_multiple_of(*d));
    let mut grids = Vec::new();
    for n in divisors(size) {
        for d in divisors(size / n) {
            grids.extend(divisors(size / n / d).map(|h| [n, d, h, size / n / d / h]));
        }
    }
    grids
}

/// Messages with equal keys on a communicator, its child and grandchild do not meet.
pub fn nested(comm: &dyn Comm) -> Result<(), Wrong> {
    let (rank, size) = (comm.rank(), comm.size());
    let child = expect(comm.split(Some(0), rank as u32)?)?;
    let grandchild = expect(child.split(Some(0), rank as u32)?)?;
    let family: [&dyn Comm; 3] = [comm, &*child, &*grandchild];
    let (next, previous) = ((rank + 1) % size, (rank + size - 1) % size);
    let mut sends = Vec::new();
    for (generation, comm) in family.iter().enumerate() {
        sends.push((generation, comm.isend_vec(next, 1, vec![generation as i32])?));
    }
    for (generation, comm) in family.iter().enumerate().rev() {
        equal("message of its generation", comm.recv_vec::<i32>(previous, 1, 1)?, vec![generation as i32])?;
    }
    for (generation, request) in sends {
        family[generation].wait(request)?;
    }
    drop(child);
    equal("outlives its parent", grandchild.allreduce_value(1, ReduceOp::Sum)?, size as i32)
}

/// Rank 0 waits for a message on one communicator that rank 1 sends only after a reduction on another one, of which rank 0
/// holds a part: rank 0 must go on with the reduction inside that wait.
pub fn progress_across(comm: &dyn Comm) -> Result<(), Wrong> {
    let (rank, size) = (comm.rank(), comm.size());
    let other = expect(comm.split(Some(0), rank as u32)?)?;
    let reduction = comm.iallreduce_vec(vec![1; 5000], ReduceOp::Sum)?;
    let expected = vec![size as i32; 5000];
    if rank == 0 {
        for peer in 1..size {
            equal("message after the reduction", other.recv_vec::<i32>(peer, 9, 1)?, vec![peer as i32])?;
        }
        return equal("reduction", comm.wait_vec::<i32>(reduction)?, expected);
    }
    equal("reduction", comm.wait_vec::<i32>(reduction)?, expected)?;
    let send = other.isend_vec(0, 9, vec![rank as i32])?;
    other.wait(send)?;
    Ok(())
}
