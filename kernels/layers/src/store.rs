//! How a sweep stores what it computes.

use crate::Float;
use crate::simd::STRIP;
use shardmark_partition::Region;

/// Bytes from which on outputs are streamed: far more than a core's own caches hold, and more than it can count on in one
/// that others use too. Tests stream what they can hold.
const STREAMED: usize = if cfg!(test) { 4 << 10 } else { 16 << 20 };

/// The same for outputs that are stored while sums are computed: memory has time to take them, so it pays earlier than in a
/// pass that does nothing else.
pub(crate) const STREAMED_BESIDE_SUMS: usize = if cfg!(test) { 16 << 10 } else { 8 << 20 };

/// How strips of an output are stored.
pub(crate) trait Store {
    /// Whether the stores want the lines of cache that they overwrite.
    const FETCHES: bool;

    /// Stores a strip at the beginning of `to`.
    fn put<T: Float, const L: usize>(values: [T; L], to: &mut [T]);
}

/// Ordinary stores: what is written stays in the caches, and its lines are fetched first.
pub(crate) struct Cached;

impl Store for Cached {
    const FETCHES: bool = true;

    #[inline(always)]
    fn put<T: Float, const L: usize>(values: [T; L], to: &mut [T]) {
        to[..L].copy_from_slice(&values);
    }
}

/// Stores that pass the caches by: a third of a copy's traffic is saved, but who reads the output next reads it from memory.
/// They want strips on 16-byte boundaries (others are stored ordinarily) that follow each other, and [`fence`] after them.
pub(crate) struct Streaming;

impl Store for Streaming {
    const FETCHES: bool = false;

    #[inline(always)]
    fn put<T: Float, const L: usize>(values: [T; L], to: &mut [T]) {
        let to = &mut to[..L];
        #[cfg(target_arch = "x86_64")]
        if size_of_val(&values).is_multiple_of(16) && to.as_ptr().addr().is_multiple_of(16) {
            let (from, to) = (values.as_ptr().cast::<f32>(), to.as_mut_ptr().cast::<f32>());
            for at in (0..size_of_val(&values) / size_of::<f32>()).step_by(4) {
                // SAFETY: both are this long and `to` is aligned; elements are plain numbers, moved as bits. SSE is part of
                // the target.
                unsafe { std::arch::x86_64::_mm_stream_ps(to.add(at), std::arch::x86_64::_mm_loadu_ps(from.add(at))) };
            }
            return;
        }
        to.copy_from_slice(&values);
    }
}

/// The stores of an output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stores {
    /// [`Cached`].
    Cached,
    /// [`Streaming`].
    Streaming,
}

impl Stores {
    /// What suits a pass that overwrites an output without reading it. The output is all of the block, also where a pass goes
    /// over it in parts: who reads it next finds none of it in the caches. Where strips do not fill the channels, two kinds
    /// of stores would meet in a line of cache.
    pub fn of<T>(output: &Region) -> Self {
        let streams = output.len() * size_of::<T>() >= STREAMED && output.0[4].len().is_multiple_of(STRIP);
        if streams { Stores::Streaming } else { Stores::Cached }
    }
}

/// Orders streaming stores before whatever this thread does next: their reader may be another thread.
#[inline(always)]
pub(crate) fn fence() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: SSE is part of the target.
    unsafe {
        std::arch::x86_64::_mm_sfence();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn puts_wherever_a_strip_begins<T: Float, S: Store>() {
        let values: [T; STRIP] = std::array::from_fn(|i| T::from_f64(i as f64 - 3.0));
        for start in 0..STRIP {
            let mut to = [T::from_f64(7.0); 3 * STRIP];
            S::put(values, &mut to[start..]);
            S::put([T::ONE], &mut to[start + STRIP..]);
            fence();
            let sevens = |part: &[T]| part.iter().all(|&v| v == T::from_f64(7.0));
            assert!(sevens(&to[..start]) && sevens(&to[start + STRIP + 1..]));
            assert!(to[start..start + STRIP] == values && to[start + STRIP] == T::ONE);
        }
    }

    #[test]
    fn both_kinds_of_stores_put_what_is_given() {
        puts_wherever_a_strip_begins::<f32, Cached>();
        puts_wherever_a_strip_begins::<f32, Streaming>();
        puts_wherever_a_strip_begins::<f64, Cached>();
        puts_wherever_a_strip_begins::<f64, Streaming>();
    }
}
