//! The bandwidth of main memory, measured: the yardstick of kernels that move more than they compute.
//!
//! The triad of STREAM (McCalpin 1995), `a = b + s * c`, over arrays far beyond any cache of a core. Three arrays count: a
//! line that is fetched only to be overwritten does not. The triad runs with ordinary stores and with streaming ones,
//! which skip that fetch; the better counts.
//!
//! Passes of layers count alike, so a pass that reads one tensor and writes another with ordinary stores moves half as much
//! again as it counts, and reaches two thirds at most. Tensors that fit into a last-level cache, which these arrays are meant
//! not to, may exceed the yardstick.

use shardmark_host::{SharedMut, Team};
use std::hint::black_box;
use std::time::Instant;

/// Values of each array: 128 MiB.
const LEN: usize = 32 << 20;
/// Values of a part, one thread's work at a time.
const PART: usize = 256 << 10;

/// The arrays of the triad.
pub struct Stream {
    a: Vec<f32>,
    b: Vec<f32>,
    c: Vec<f32>,
}

impl Stream {
    /// Allocates and fills 384 MiB.
    pub fn new() -> Self {
        Self::with_len(LEN)
    }

    /// The same with `len` values an array, for tests.
    pub(crate) fn with_len(len: usize) -> Self {
        Stream { a: vec![0.5; len], b: vec![1.0; len], c: vec![2.0; len] }
    }

    /// GB/s of all threads of a team at once: the best of `samples` triads of each kind of store.
    pub fn bandwidth(&mut self, team: &Team, samples: usize) -> f64 {
        let mut best = f64::INFINITY;
        for _ in 0..samples.max(1) {
            for run in TRIADS {
                let start = Instant::now();
                self.triad(run, team);
                best = best.min(start.elapsed().as_secs_f64());
            }
        }
        (3 * self.a.len() * size_of::<f32>()) as f64 / best / 1e9
    }

    fn triad(&mut self, run: Triad, team: &Team) {
        let (b, c, s) = (&self.b, &self.c, black_box(3.0));
        let a = SharedMut::new(&mut self.a);
        team.run(b.len().div_ceil(PART), |_, part| {
            let range = part * PART..((part + 1) * PART).min(b.len());
            // SAFETY: parts do not overlap.
            run(unsafe { a.part(range.clone()) }, &b[range.clone()], &c[range], s);
        });
    }
}

impl Default for Stream {
    fn default() -> Self {
        Self::new()
    }
}

/// `a = b + s * c` for slices of equal length.
pub(crate) type Triad = fn(&mut [f32], &[f32], &[f32], f32);

/// The triad with each kind of store.
#[cfg(target_arch = "x86_64")]
pub(crate) const TRIADS: [Triad; 2] = [ordinary, x86::streaming];
/// The triad with each kind of store.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) const TRIADS: [Triad; 1] = [ordinary];

fn ordinary(a: &mut [f32], b: &[f32], c: &[f32], s: f32) {
    for ((a, b), c) in a.iter_mut().zip(b).zip(c) {
        *a = b + s * c;
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;

    /// Every x86-64 has these vectors.
    pub fn streaming(a: &mut [f32], b: &[f32], c: &[f32], s: f32) {
        const LANES: usize = 4;
        // Streaming stores want whole, aligned vectors.
        let skip = a.as_ptr().align_offset(LANES * size_of::<f32>()).min(a.len());
        let whole = (a.len() - skip) / LANES * LANES + skip;
        super::ordinary(&mut a[..skip], &b[..skip], &c[..skip], s);
        super::ordinary(&mut a[whole..], &b[whole..], &c[whole..], s);
        let (b, c) = (&b[..whole], &c[..whole]);
        for i in (skip..whole).step_by(LANES) {
            // SAFETY: i + LANES is at most the length of the three, and a + i is aligned.
            unsafe {
                let sum = _mm_add_ps(
                    _mm_loadu_ps(b.as_ptr().add(i)),
                    _mm_mul_ps(_mm_set1_ps(s), _mm_loadu_ps(c.as_ptr().add(i))),
                );
                _mm_stream_ps(a.as_mut_ptr().add(i), sum);
            }
        }
        // Streaming stores are ordered by a fence alone: the next reader may be another thread.
        // SAFETY: every x86-64 has it.
        unsafe { _mm_sfence() };
    }
}
