//! Checks of the collectives.

use super::random::Random;
use super::{LENGTHS, Wrong, equal, mark, marks};
use crate::agree::{AgreeError, agree};
use crate::comm::Comm;
use crate::data::Data;
use crate::ext::CommExt;
use crate::reduce::ReduceOp;

pub fn barrier(comm: &dyn Comm) -> Result<(), Wrong> {
    for _ in 0..3 {
        comm.barrier()?;
    }
    Ok(())
}

pub fn allreduce(comm: &dyn Comm) -> Result<(), Wrong> {
    let (rank, size) = (comm.rank(), comm.size());
    let total = |i: usize| (0..size).map(|r| mark(r, i)).sum::<i32>();
    for len in LENGTHS {
        let integers = comm.allreduce_vec(marks(rank, len), ReduceOp::Sum)?;
        equal("sum of i32", integers, (0..len).map(total).collect())?;
        let floats = comm.allreduce_vec((0..len).map(|i| mark(rank, i) as f32).collect(), ReduceOp::Sum)?;
        equal("sum of f32", floats, (0..len).map(|i| total(i) as f32).collect::<Vec<_>>())?;
        let bytes = comm.allreduce_vec(vec![3u8; len], ReduceOp::Sum)?;
        equal("sum of u8", bytes, vec![(3 * size) as u8; len])?;
        let largest = comm.allreduce_vec(marks(rank, len), ReduceOp::Max)?;
        equal("maximum", largest, marks(size - 1, len))?;
        let doubles = comm.allreduce_vec((0..len).map(|i| f64::from(mark(rank, i))).collect(), ReduceOp::Min)?;
        equal("minimum of f64", doubles, (0..len).map(|i| f64::from(mark(0, i))).collect::<Vec<_>>())?;
    }
    let not_a_number = if rank == size / 2 { f32::NAN } else { 1.0 };
    for op in [ReduceOp::Sum, ReduceOp::Max, ReduceOp::Min] {
        equal("NaN is seen", comm.allreduce_value(not_a_number, op)?.is_nan(), true)?;
    }
    Ok(())
}

/// Floats whose sum depends on the order: numbers of very different size and sign.
fn rough(rank: usize, len: usize) -> Vec<f32> {
    let mut random = Random::new(rank as u64 + 77);
    (0..len).map(|_| random.float() * 10f32.powi(random.below(9) as i32 - 4)).collect()
}

/// The reduction is ((x0 + x1) + x2) + ... to the bit, for short and long payloads.
pub fn rank_order(comm: &dyn Comm) -> Result<(), Wrong> {
    let (rank, size) = (comm.rank(), comm.size());
    for len in LENGTHS {
        let mut expected = rough(0, len);
        for other in 1..size {
            expected.iter_mut().zip(rough(other, len)).for_each(|(a, b)| *a += b);
        }
        let bits = |v: Vec<f32>| v.into_iter().map(f32::to_bits).collect::<Vec<_>>();
        let got = comm.allreduce_vec(rough(rank, len), ReduceOp::Sum)?;
        equal("sum to the bit", bits(got), bits(expected.clone()))?;
        let counts = uneven(size, len);
        let first: usize = counts[..rank].iter().sum();
        let got = comm.reduce_scatter_vec(rough(rank, len), &counts, ReduceOp::Sum)?;
        equal("scattered sum to the bit", bits(got), bits(expected[first..first + counts[rank]].to_vec()))?;
    }
    Ok(())
}

/// `len` elements over the ranks, unevenly: odd ranks get none as long as there are others.
fn uneven(size: usize, len: usize) -> Vec<usize> {
    let even = size.div_ceil(2);
    (0..size).map(|r| if r % 2 == 1 { 0 } else { (r / 2 + 1) * len / even - (r / 2) * len / even }).collect()
}

pub fn reduce_scatter(comm: &dyn Comm) -> Result<(), Wrong> {
    let (rank, size) = (comm.rank(), comm.size());
    for len in LENGTHS {
        let counts = uneven(size, len);
        let first: usize = counts[..rank].iter().sum();
        let got = comm.reduce_scatter_vec(marks(rank, len), &counts, ReduceOp::Sum)?;
        let expected = (first..first + counts[rank]).map(|i| (0..size).map(|r| mark(r, i)).sum()).collect();
        equal("own part of the sum", got, expected)?;
    }
    Ok(())
}

pub fn allgatherv(comm: &dyn Comm) -> Result<(), Wrong> {
    let (rank, size) = (comm.rank(), comm.size());
    for len in LENGTHS {
        for counts in [vec![len; size], uneven(size, len)] {
            let got = comm.allgatherv_vec(marks(rank, counts[rank]), &counts)?;
            equal("parts in rank order", got, (0..size).flat_map(|r| marks(r, counts[r])).collect())?;
        }
    }
    Ok(())
}

pub fn alltoallv(comm: &dyn Comm) -> Result<(), Wrong> {
    let (rank, size) = (comm.rank(), comm.size());
    for step in [0, 1, 37, 1021] {
        // What rank a sends to rank b: nothing on some pairs, different lengths on the others.
        let count = |a: usize, b: usize| if (a + 2 * b).is_multiple_of(3) { 0 } else { step * (a + 1) + b };
        let part = |a: usize, b: usize| (0..count(a, b)).map(move |i| mark(a * 10 + b, i));
        let send_counts: Vec<usize> = (0..size).map(|b| count(rank, b)).collect();
        let recv_counts: Vec<usize> = (0..size).map(|a| count(a, rank)).collect();
        let data = (0..size).flat_map(|b| part(rank, b)).collect();
        let got = comm.alltoallv_vec(data, &send_counts, &recv_counts)?;
        equal("parts of all ranks", got, (0..size).flat_map(|a| part(a, rank)).collect::<Vec<_>>())?;
    }
    Ok(())
}

pub fn broadcast(comm: &dyn Comm) -> Result<(), Wrong> {
    for root in 0..comm.size() {
        for len in LENGTHS {
            let got = comm.broadcast_vec(root, marks(comm.rank(), len))?;
            equal("payload of the root", got, marks(root, len))?;
        }
    }
    Ok(())
}

/// Merges (first rank, number of ranks) of neighbouring runs of ranks: fails if the order is ever another one.
pub fn tree_allreduce(comm: &dyn Comm) -> Result<(), Wrong> {
    for _ in 0..2 {
        let mut run = vec![comm.rank() as i32, 1];
        let mut in_order = true;
        comm.tree_allreduce_vec(&mut run, &mut |left, right| {
            in_order &= left[0] + left[1] == right[0];
            left[1] += right[1];
        })?;
        equal("lower ranks on the left", in_order, true)?;
        equal("merged runs", run, vec![0, comm.size() as i32])?;
    }
    let mut empty = Vec::<f32>::new();
    comm.tree_allreduce_vec(&mut empty, &mut |_, _| {})?;
    let merged = comm.tree_allreduce(Data::U8(vec![1]), &mut |left, right| {
        if let (Data::U8(a), Data::U8(b)) = (left, right) {
            a[0] = a[0].wrapping_add(b[0]);
        }
        Ok(())
    })?;
    equal("merged payload", merged, Data::U8(vec![comm.size() as u8]))
}

pub fn agreement(comm: &dyn Comm) -> Result<(), Wrong> {
    let (rank, size) = (comm.rank(), comm.size());
    equal("nobody failed", agree(comm, Ok::<_, String>(rank)), Ok(rank))?;
    // From rank `from` on, all fail; the lowest in the world is named, with its words.
    for from in 0..size {
        let mine = if rank >= from { Err(format!("rank {rank} has no µ")) } else { Ok(()) };
        let lowest = (from..size).min_by_key(|&r| comm.global_rank(r)).unwrap_or(from);
        let message = format!("rank {lowest} has no µ");
        equal("failure", agree(comm, mine), Err(AgreeError::Failed { rank: comm.global_rank(lowest), message }))?;
    }
    Ok(())
}
