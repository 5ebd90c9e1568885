//! The multiply-add peak, measured: the yardstick of kernels that compute.

use shardmark_host::Team;
use shardmark_layers::conv::Isa;
use std::hint::black_box;
use std::time::Instant;

/// Independent sums: more than latency times units of any core, fewer than registers. `black_box` hides that they are
/// all equal.
const SUMS: usize = 12;
/// Multiply-adds of every sum in one sample: milliseconds, as long as a kernel, so that both run at the same clock.
const ROUNDS: usize = 1_000_000;

/// GFLOP/s of all threads of a team at once, with registers of an available instruction set: the best of `samples` short
/// loops.
pub fn multiply_add_peak(isa: Isa, team: &Team, samples: usize) -> f64 {
    let run: unsafe fn() -> f32 = match isa {
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512 => x86::avx512,
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 => x86::avx2,
        _ => portable,
    };
    assert!(isa.available(), "the instruction set {isa} is chosen among the available ones");
    let lanes = match isa {
        Isa::Avx512 => 16,
        Isa::Avx2 => 8,
        Isa::Portable => 4,
    };
    let flops = (2 * lanes * SUMS * ROUNDS * team.threads()) as f64;
    let best = (0..samples.max(1)).map(|_| {
        let start = Instant::now();
        // SAFETY: the instruction set is available.
        team.run(team.threads(), |_, _| _ = black_box(unsafe { run() }));
        start.elapsed().as_secs_f64()
    });
    flops / best.fold(f64::INFINITY, f64::min) / 1e9
}

/// Multiplies and adds separately, as the portable kernels do.
fn portable() -> f32 {
    let (factor, term) = black_box(([0.999f32; 4], [0.001f32; 4]));
    let mut sums = black_box([[1.0f32; 4]; SUMS]);
    for _ in 0..ROUNDS {
        for sum in &mut sums {
            *sum = std::array::from_fn(|i| sum[i] * factor[i] + term[i]);
        }
    }
    sums.as_flattened().iter().sum()
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::{ROUNDS, SUMS};
    use std::arch::x86_64::*;
    use std::hint::black_box;

    #[target_feature(enable = "avx512f")]
    pub fn avx512() -> f32 {
        let (factor, term) = (_mm512_set1_ps(black_box(0.999)), _mm512_set1_ps(black_box(0.001)));
        let mut sums = black_box([_mm512_set1_ps(1.0); SUMS]);
        for _ in 0..ROUNDS {
            for sum in &mut sums {
                *sum = _mm512_fmadd_ps(*sum, factor, term);
            }
        }
        sums.iter().map(|&s| _mm512_reduce_add_ps(s)).sum()
    }

    #[target_feature(enable = "avx2,fma")]
    pub fn avx2() -> f32 {
        let (factor, term) = (_mm256_set1_ps(black_box(0.999)), _mm256_set1_ps(black_box(0.001)));
        let mut sums = black_box([_mm256_set1_ps(1.0); SUMS]);
        for _ in 0..ROUNDS {
            for sum in &mut sums {
                *sum = _mm256_fmadd_ps(*sum, factor, term);
            }
        }
        sums.iter().map(|&s| _mm256_cvtss_f32(s)).sum()
    }
}
