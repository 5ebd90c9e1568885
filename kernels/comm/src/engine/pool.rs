//! Buffers that a rank uses again: fresh memory costs a fault for each page, as much as the copy that follows.

use crate::board::lock;
use crate::data::{Data, Dtype};
use std::collections::BTreeMap;
use std::sync::Mutex;

/// Most buffers that are kept for a rank, ...
const MOST: usize = 64;
/// ... and their bytes.
const MOST_BYTES: usize = 64 << 20;

/// Payloads without elements. Ranks that are threads share one: a message that is moved takes its buffer along, and where
/// messages go one way only, the sender would never get one back.
pub struct Pool {
    kept: Mutex<Kept>,
    most: usize,
    most_bytes: usize,
}

#[derive(Default)]
struct Kept {
    /// By type, capacity and a number of their own.
    buffers: BTreeMap<(Dtype, usize, u64), Data>,
    given: u64,
    bytes: usize,
}

fn bytes(buffer: &Data) -> usize {
    buffer.capacity() * buffer.dtype().size()
}

impl Pool {
    /// A pool for so many ranks.
    pub fn new(ranks: usize) -> Self {
        Pool { kept: Mutex::default(), most: MOST * ranks, most_bytes: MOST_BYTES * ranks }
    }

    /// No elements, with room for `len`: the smallest kept buffer that has it, or a new one.
    pub fn take(&self, dtype: Dtype, len: usize) -> Data {
        if len == 0 {
            return Data::empty(dtype);
        }
        let fitting = {
            let kept = &mut *lock(&self.kept);
            let best = kept.buffers.range((dtype, len, 0)..=(dtype, usize::MAX, u64::MAX)).next().map(|(&key, _)| key);
            let buffer = best.and_then(|key| kept.buffers.remove(&key));
            kept.bytes -= buffer.as_ref().map_or(0, bytes);
            buffer
        };
        fitting.unwrap_or_else(|| Data::with_capacity(dtype, len))
    }

    /// Keeps a buffer, unless there are enough.
    pub fn give(&self, mut buffer: Data) {
        let (kept, more) = (&mut *lock(&self.kept), bytes(&buffer));
        if more > 0 && kept.buffers.len() < self.most && kept.bytes + more <= self.most_bytes {
            buffer.truncate(0);
            kept.bytes += more;
            kept.given += 1;
            kept.buffers.insert((buffer.dtype(), buffer.capacity(), kept.given), buffer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smallest_that_fits_is_taken_and_no_more_kept_than_allowed() {
        let pool = Pool::new(1);
        pool.give(Data::with_capacity(Dtype::F32, 100));
        pool.give(Data::F32(vec![1.0; 10]));
        pool.give(Data::with_capacity(Dtype::U8, 7));
        let taken = pool.take(Dtype::F32, 9);
        assert!((10..100).contains(&taken.capacity()) && taken.is_empty(), "{taken:?}");
        assert!(pool.take(Dtype::F32, 11).capacity() >= 100);
        assert_eq!(pool.take(Dtype::I32, 7), Data::empty(Dtype::I32));
        for _ in 0..MOST + 5 {
            pool.give(Data::zeros(Dtype::F64, 1));
        }
        pool.give(Data::zeros(Dtype::U8, MOST_BYTES + 1));
        let kept = lock(&pool.kept);
        assert_eq!((kept.buffers.len(), kept.bytes), (MOST, 7 + 8 * (MOST - 1)));
    }
}
