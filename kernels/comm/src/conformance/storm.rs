//! Random messages: all ranks draw the same list of messages from one seed, send and receive their own ones, and wait in
//! random order.

use super::random::Random;
use super::{Wrong, equal};
use crate::comm::{Comm, Request};
use crate::data::Data;
use crate::ext::CommExt;

struct Letter {
    from: usize,
    to: usize,
    key: u32,
    data: Data,
}

fn letters(random: &mut Random, size: usize, count: usize) -> Vec<Letter> {
    (0..count)
        .map(|_| {
            let (from, to, key) = (random.below(size), random.below(size), random.below(4) as u32);
            let len = [0, 1, 7, 100, 3000][random.below(5)];
            let data = match random.below(4) {
                0 => Data::F32((0..len).map(|_| random.float()).collect()),
                1 => Data::F64((0..len).map(|_| f64::from(random.float())).collect()),
                2 => Data::U8((0..len).map(|_| random.next() as u8).collect()),
                _ => Data::I32((0..len).map(|_| random.next() as i32).collect()),
            };
            Letter { from, to, key, data }
        })
        .collect()
}

pub fn storm(comm: &dyn Comm) -> Result<(), Wrong> {
    let (rank, size) = (comm.rank(), comm.size());
    for seed in 0..3 {
        let list = letters(&mut Random::new(seed), size, 60 * size);
        // Differs between the ranks: when each posts, polls and waits.
        let mut own = Random::new(1000 * seed + rank as u64);
        let mut sends = Vec::new();
        let mut receives: Vec<(Request, Data)> = Vec::new();
        for letter in list {
            if letter.to == rank {
                let request = comm.irecv(letter.from, letter.key, letter.data.dtype(), letter.data.len())?;
                receives.push((request, letter.data.clone()));
            }
            if letter.from == rank {
                sends.push(comm.isend(letter.to, letter.key, letter.data)?);
            }
            match own.below(16) {
                0 => comm.progress()?,
                1 => std::thread::yield_now(),
                _ => {}
            }
        }
        own.shuffle(&mut receives);
        for (request, expected) in receives {
            equal("message", comm.wait(request)?, expected)?;
        }
        comm.wait_all(sends)?;
    }
    Ok(())
}
