//! Checks of point-to-point messages.

use super::{LENGTHS, Wrong, equal, mark, marks};
use crate::comm::{Comm, KEYS};
use crate::data::{Data, Dtype};
use crate::error::CommError;
use crate::ext::CommExt;

pub fn ranks(comm: &dyn Comm) -> Result<(), Wrong> {
    equal("rank below size", comm.rank() < comm.size(), true)?;
    let mine = vec![comm.global_rank(comm.rank()) as i32];
    let all = comm.allgatherv_vec(mine, &vec![1; comm.size()])?;
    let expected: Vec<i32> = (0..comm.size()).map(|r| comm.global_rank(r) as i32).collect();
    equal("ranks in the world", all, expected)
}

pub fn ring(comm: &dyn Comm) -> Result<(), Wrong> {
    let (rank, size) = (comm.rank(), comm.size());
    let (next, previous) = ((rank + 1) % size, (rank + size - 1) % size);
    let payloads: [fn(usize, usize) -> Data; 4] = [
        |r, n| Data::F32((0..n).map(|i| mark(r, i) as f32).collect()),
        |r, n| Data::F64((0..n).map(|i| f64::from(mark(r, i))).collect()),
        |r, n| Data::U8((0..n).map(|i| mark(r, i) as u8).collect()),
        |r, n| Data::I32(marks(r, n)),
    ];
    for payload in payloads {
        for len in LENGTHS {
            let data = payload(rank, len);
            let (dtype, key) = (data.dtype(), len as u32);
            let receive = comm.irecv(previous, key, dtype, len)?;
            let send = comm.isend(next, key, data)?;
            equal("message", comm.wait(receive)?, payload(previous, len))?;
            equal("type of the returned buffer", comm.wait(send)?.dtype(), dtype)?;
        }
    }
    Ok(())
}

pub fn itself(comm: &dyn Comm) -> Result<(), Wrong> {
    let rank = comm.rank();
    let send = comm.isend_vec(rank, KEYS - 1, marks(rank, 7))?;
    equal("message", comm.recv_vec::<i32>(rank, KEYS - 1, 7)?, marks(rank, 7))?;
    comm.wait(send)?;
    Ok(())
}

pub fn order(comm: &dyn Comm) -> Result<(), Wrong> {
    const MESSAGES: usize = 50;
    let (rank, size) = (comm.rank(), comm.size());
    let mut sends = Vec::new();
    let mut receives = Vec::new();
    for peer in 0..size {
        for i in 0..MESSAGES {
            receives.push((peer, i, comm.irecv_vec::<i32>(peer, 5, 2)?));
        }
    }
    for i in 0..MESSAGES {
        for peer in 0..size {
            sends.push(comm.isend_vec(peer, 5, vec![rank as i32, i as i32])?);
        }
    }
    // Waiting backwards must not change which receive gets which message.
    for (peer, i, request) in receives.into_iter().rev() {
        equal("message by order", comm.wait_vec::<i32>(request)?, vec![peer as i32, i as i32])?;
    }
    comm.wait_all(sends)?;
    Ok(())
}

pub fn keys(comm: &dyn Comm) -> Result<(), Wrong> {
    let (rank, size) = (comm.rank(), comm.size());
    let keys = [0, 1, 17, 65_535, 65_536, KEYS - 1];
    let mut sends = Vec::new();
    for &key in &keys {
        for peer in 0..size {
            sends.push(comm.isend_vec(peer, key, vec![rank as i32, key as i32])?);
        }
    }
    // Received in the opposite order of keys, after all are sent: unexpected messages are kept.
    for &key in keys.iter().rev() {
        for peer in 0..size {
            equal("message by key", comm.recv_vec::<i32>(peer, key, 2)?, vec![peer as i32, key as i32])?;
        }
    }
    comm.wait_all(sends)?;
    Ok(())
}

pub fn wrong_arguments(comm: &dyn Comm) -> Result<(), Wrong> {
    let (size, empty) = (comm.size(), || Data::empty(Dtype::F32));
    let refused = |what: &str, refused: bool| equal(what, refused, true);
    refused("send to nobody", matches!(comm.isend(size, 0, empty()), Err(CommError::Rank { .. })))?;
    refused("receive from nobody", matches!(comm.irecv(size, 0, Dtype::F32, 0), Err(CommError::Rank { .. })))?;
    refused("send with a reserved key", matches!(comm.isend(0, KEYS, empty()), Err(CommError::Key { .. })))?;
    refused("receive with a reserved key", matches!(comm.irecv(0, KEYS, Dtype::U8, 0), Err(CommError::Key { .. })))?;
    refused("counts of too few ranks", matches!(comm.allgatherv(empty(), &[]), Err(CommError::Counts { .. })))?;
    let sum = crate::ReduceOp::Sum;
    let counts = vec![1; size];
    refused("counts beyond the payload", comm.reduce_scatter(empty(), &counts, sum).is_err())?;
    refused("counts beyond the payload", comm.alltoallv(empty(), &counts, &counts).is_err())?;
    refused("broadcast from nobody", comm.broadcast(size, empty()).is_err())
}

pub fn test_and_progress(comm: &dyn Comm) -> Result<(), Wrong> {
    let (rank, size) = (comm.rank(), comm.size());
    let receives: Vec<_> = (0..size).map(|p| comm.irecv_vec::<i32>(p, 3, 11)).collect::<Result<_, _>>()?;
    let sends: Vec<_> = (0..size).map(|p| comm.isend_vec(p, 3, marks(rank, 11))).collect::<Result<_, _>>()?;
    for request in receives.iter().chain(&sends) {
        while !comm.test(request)? {
            comm.progress()?;
            std::thread::yield_now();
        }
        equal("test stays true", comm.test(request)?, true)?;
    }
    for (peer, request) in receives.into_iter().enumerate() {
        equal("message", comm.wait_vec::<i32>(request)?, marks(peer, 11))?;
    }
    comm.wait_all(sends)?;
    Ok(())
}
