//! Buffers that a rank uses again: fresh memory costs a fault for each page, as much as the copy that follows.

use crate::data::{Data, Dtype};
use std::cell::RefCell;

/// Most buffers that are kept, ...
const MOST: usize = 64;
/// ... and their bytes.
const MOST_BYTES: usize = 64 << 20;

/// Payloads without elements, of one rank.
#[derive(Default)]
pub struct Pool(RefCell<Kept>);

#[derive(Default)]
struct Kept {
    buffers: Vec<Data>,
    bytes: usize,
}

fn bytes(buffer: &Data) -> usize {
    buffer.capacity() * buffer.dtype().size()
}

impl Pool {
    /// No elements, with room for `len`: the smallest kept buffer that has it, or a new one.
    pub fn take(&self, dtype: Dtype, len: usize) -> Data {
        if len == 0 {
            return Data::empty(dtype);
        }
        let kept = &mut *self.0.borrow_mut();
        let fits = |buffer: &Data| buffer.dtype() == dtype && buffer.capacity() >= len;
        let fitting = (0..kept.buffers.len()).filter(|&i| fits(&kept.buffers[i]));
        let Some(best) = fitting.min_by_key(|&i| kept.buffers[i].capacity()) else {
            return Data::with_capacity(dtype, len);
        };
        let buffer = kept.buffers.swap_remove(best);
        kept.bytes -= bytes(&buffer);
        buffer
    }

    /// Keeps a buffer, unless there are enough.
    pub fn give(&self, mut buffer: Data) {
        let (kept, more) = (&mut *self.0.borrow_mut(), bytes(&buffer));
        if more > 0 && kept.buffers.len() < MOST && kept.bytes + more <= MOST_BYTES {
            buffer.truncate(0);
            kept.bytes += more;
            kept.buffers.push(buffer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smallest_that_fits_is_taken_and_no_more_kept_than_allowed() {
        let pool = Pool::default();
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
        let kept = pool.0.borrow();
        assert_eq!((kept.buffers.len(), kept.bytes), (MOST, 7 + 8 * (MOST - 1)));
    }
}
