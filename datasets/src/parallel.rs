//! Work on the planes of an array by several threads.

use std::ops::Range;
use std::thread;

/// Calls `work(i, plane i)` for every `plane_len` elements of `data`; each thread has a contiguous share of the planes.
///
/// `work` writes its own plane only, so the result does not depend on `threads`.
pub(crate) fn for_planes<T: Send>(
    data: &mut [T],
    plane_len: usize,
    threads: usize,
    work: impl Fn(usize, &mut [T]) + Sync,
) {
    for_slabs(data, plane_len, threads, |planes, slab| {
        for (i, plane) in planes.zip(slab.chunks_exact_mut(plane_len)) {
            work(i, plane);
        }
    });
}

/// Calls `work(planes, their elements)` once for each thread's share of the planes of `data`.
pub(crate) fn for_slabs<T: Send>(
    data: &mut [T],
    plane_len: usize,
    threads: usize,
    work: impl Fn(Range<usize>, &mut [T]) + Sync,
) {
    let planes = data.len() / plane_len;
    let threads = threads.clamp(1, planes);
    if threads == 1 {
        return work(0..planes, data);
    }
    thread::scope(|scope| {
        let mut rest = data;
        for t in 0..threads {
            let share = t * planes / threads..(t + 1) * planes / threads;
            let (slab, tail) = rest.split_at_mut(share.len() * plane_len);
            rest = tail;
            scope.spawn(|| work(share, slab));
        }
    });
}
