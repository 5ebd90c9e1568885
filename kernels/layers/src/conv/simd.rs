//! Vectors of the instruction sets that the kernels are compiled for.

use shardmark_tensor::Real;

/// A vector of `LANES` elements and the few operations that a convolution needs.
///
/// Every method is `inline(always)` and becomes one instruction inside a function that enables the instruction set.
///
/// # Safety
/// All methods may only run on a CPU that has the instruction set; pointers must be valid for the lanes touched.
pub(super) trait Simd {
    /// Element.
    type T: Real;
    /// Register.
    type V: Copy;
    /// Elements of a register.
    const LANES: usize;
    /// All lanes zero.
    unsafe fn zero() -> Self::V;
    /// All lanes the element at `p`.
    unsafe fn splat(p: *const Self::T) -> Self::V;
    /// `LANES` elements at `p`, any alignment.
    unsafe fn load(p: *const Self::T) -> Self::V;
    /// The first `n <= LANES` elements at `p`; the other lanes are zero and not read.
    unsafe fn load_first(p: *const Self::T, n: usize) -> Self::V;
    /// Writes all lanes to `p`, any alignment.
    unsafe fn store(p: *mut Self::T, v: Self::V);
    /// Writes all lanes to `p` past the caches, if it starts at a vector's boundary; a fence must follow.
    #[inline(always)]
    unsafe fn stream(p: *mut Self::T, v: Self::V) {
        // SAFETY: as for `store`.
        unsafe { Self::store(p, v) }
    }
    /// Writes the first `n <= LANES` lanes to `p`.
    unsafe fn store_first(p: *mut Self::T, v: Self::V, n: usize);
    /// `a * b + c`.
    unsafe fn mul_add(a: Self::V, b: Self::V, c: Self::V) -> Self::V;
    /// `a * b`.
    unsafe fn mul(a: Self::V, b: Self::V) -> Self::V;
    /// The larger of a and b; b if they do not compare.
    unsafe fn max(a: Self::V, b: Self::V) -> Self::V;
    /// `a + b`.
    unsafe fn add(a: Self::V, b: Self::V) -> Self::V;
    /// `a - b`.
    unsafe fn sub(a: Self::V, b: Self::V) -> Self::V;
    /// The sums of all lanes of each vector.
    #[inline(always)]
    unsafe fn sums(vectors: [Self::V; 4]) -> [Self::T; 4] {
        const { assert!(Self::LANES.is_power_of_two() && Self::LANES <= 16) };
        vectors.map(|v| {
            let mut lanes = [Self::T::ZERO; 16];
            // SAFETY: there is room for all lanes.
            unsafe { Self::store(lanes.as_mut_ptr(), v) };
            let mut half = Self::LANES / 2;
            while half > 0 {
                for i in 0..half {
                    lanes[i] += lanes[i + half];
                }
                half /= 2;
            }
            lanes[0]
        })
    }
    /// Writes the transpose of `LANES` rows of `LANES` elements, the first at `row(0)`, to rows that lie `to_step` elements
    /// apart, in order.
    unsafe fn transpose(row: impl Fn(usize) -> *const Self::T, to: *mut Self::T, to_step: usize);
    /// Returns `i`, without the compiler's knowing: it then addresses `base + i` with two registers instead of keeping
    /// a pointer for every sum, of which there are more than registers.
    #[inline(always)]
    unsafe fn hide(i: usize) -> usize {
        i
    }
    /// The same for a pointer.
    #[inline(always)]
    unsafe fn hide_pointer(p: *const Self::T) -> *const Self::T {
        p
    }
}

/// Plain arrays of 16 bytes, which every compiler keeps in registers of the baseline instruction set.
pub(super) struct Portable<T, const LANES: usize>(std::marker::PhantomData<T>);

impl<T: Real, const N: usize> Simd for Portable<T, N> {
    type T = T;
    type V = [T; N];
    const LANES: usize = N;
    #[inline(always)]
    unsafe fn zero() -> [T; N] {
        [T::ZERO; N]
    }
    #[inline(always)]
    unsafe fn splat(p: *const T) -> [T; N] {
        // SAFETY: the caller vouches for the pointer.
        [unsafe { *p }; N]
    }
    #[inline(always)]
    unsafe fn load(p: *const T) -> [T; N] {
        // SAFETY: the caller vouches for N elements.
        unsafe { p.cast::<[T; N]>().read_unaligned() }
    }
    #[inline(always)]
    unsafe fn load_first(p: *const T, n: usize) -> [T; N] {
        // SAFETY: the caller vouches for n elements.
        std::array::from_fn(|i| if i < n { unsafe { *p.add(i) } } else { T::ZERO })
    }
    #[inline(always)]
    unsafe fn store(p: *mut T, v: [T; N]) {
        // SAFETY: the caller vouches for N elements.
        unsafe { p.cast::<[T; N]>().write_unaligned(v) }
    }
    #[inline(always)]
    unsafe fn store_first(p: *mut T, v: [T; N], n: usize) {
        for i in 0..n {
            // SAFETY: the caller vouches for n elements.
            unsafe { *p.add(i) = v[i] }
        }
    }
    #[inline(always)]
    unsafe fn mul_add(a: [T; N], b: [T; N], c: [T; N]) -> [T; N] {
        // Separate operations: a fused one is a library call on the baseline instruction set.
        std::array::from_fn(|i| c[i] + a[i] * b[i])
    }
    #[inline(always)]
    unsafe fn mul(a: [T; N], b: [T; N]) -> [T; N] {
        std::array::from_fn(|i| a[i] * b[i])
    }
    #[inline(always)]
    unsafe fn max(a: [T; N], b: [T; N]) -> [T; N] {
        std::array::from_fn(|i| if a[i] > b[i] { a[i] } else { b[i] })
    }
    #[inline(always)]
    unsafe fn add(a: [T; N], b: [T; N]) -> [T; N] {
        std::array::from_fn(|i| a[i] + b[i])
    }
    #[inline(always)]
    unsafe fn sub(a: [T; N], b: [T; N]) -> [T; N] {
        std::array::from_fn(|i| a[i] - b[i])
    }
    #[inline(always)]
    unsafe fn transpose(row: impl Fn(usize) -> *const T, to: *mut T, to_step: usize) {
        // SAFETY: the caller vouches for the rows.
        unsafe {
            let rows: [[T; N]; N] = std::array::from_fn(|i| Self::load(row(i)));
            (0..N).for_each(|i| Self::store(to.add(i * to_step), rows.map(|row| row[i])));
        }
    }
}

#[cfg(target_arch = "x86_64")]
pub(super) use x86::{Avx2, Avx512};

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::Simd;
    use std::arch::x86_64::*;

    /// 16 lanes of f32 (AVX-512F).
    pub struct Avx512;

    /// 8 lanes of f32 (AVX2 and FMA).
    pub struct Avx2;

    // SAFETY of both: the callers of the trait's methods vouch for the CPU and for the pointers.
    impl Simd for Avx512 {
        type T = f32;
        type V = __m512;
        const LANES: usize = 16;
        #[inline(always)]
        unsafe fn zero() -> __m512 {
            unsafe { _mm512_setzero_ps() }
        }
        #[inline(always)]
        unsafe fn sums([a, b, c, d]: [__m512; 4]) -> [f32; 4] {
            unsafe {
                let pairs = |a, b| _mm512_add_ps(_mm512_unpacklo_ps(a, b), _mm512_unpackhi_ps(a, b));
                let [ab, cd] = [pairs(a, b), pairs(c, d)].map(|v| _mm512_castps_pd(v));
                let (low, high) = (_mm512_unpacklo_pd(ab, cd), _mm512_unpackhi_pd(ab, cd));
                // A part of each sum in every quarter.
                let quarters = _mm512_add_ps(_mm512_castpd_ps(low), _mm512_castpd_ps(high));
                let upper = _mm256_castpd_ps(_mm512_extractf64x4_pd::<1>(_mm512_castps_pd(quarters)));
                let halves = _mm256_add_ps(_mm512_castps512_ps256(quarters), upper);
                let sums = _mm_add_ps(_mm256_castps256_ps128(halves), _mm256_extractf128_ps::<1>(halves));
                std::mem::transmute::<__m128, [f32; 4]>(sums)
            }
        }
        #[inline(always)]
        unsafe fn splat(p: *const f32) -> __m512 {
            unsafe { _mm512_set1_ps(*p) }
        }
        #[inline(always)]
        unsafe fn load(p: *const f32) -> __m512 {
            unsafe { _mm512_loadu_ps(p) }
        }
        #[inline(always)]
        unsafe fn load_first(p: *const f32, n: usize) -> __m512 {
            unsafe { _mm512_maskz_loadu_ps(((1u32 << n) - 1) as u16, p) }
        }
        #[inline(always)]
        unsafe fn store(p: *mut f32, v: __m512) {
            unsafe { _mm512_storeu_ps(p, v) }
        }
        #[inline(always)]
        unsafe fn stream(p: *mut f32, v: __m512) {
            unsafe {
                if p.addr().is_multiple_of(size_of::<__m512>()) { _mm512_stream_ps(p, v) } else { Self::store(p, v) }
            }
        }
        #[inline(always)]
        unsafe fn store_first(p: *mut f32, v: __m512, n: usize) {
            unsafe { _mm512_mask_storeu_ps(p, ((1u32 << n) - 1) as u16, v) }
        }
        #[inline(always)]
        unsafe fn mul_add(a: __m512, b: __m512, c: __m512) -> __m512 {
            unsafe { _mm512_fmadd_ps(a, b, c) }
        }
        #[inline(always)]
        unsafe fn mul(a: __m512, b: __m512) -> __m512 {
            unsafe { _mm512_mul_ps(a, b) }
        }
        #[inline(always)]
        unsafe fn max(a: __m512, b: __m512) -> __m512 {
            unsafe { _mm512_max_ps(a, b) }
        }
        #[inline(always)]
        unsafe fn add(a: __m512, b: __m512) -> __m512 {
            unsafe { _mm512_add_ps(a, b) }
        }
        #[inline(always)]
        unsafe fn sub(a: __m512, b: __m512) -> __m512 {
            unsafe { _mm512_sub_ps(a, b) }
        }
        #[inline(always)]
        unsafe fn transpose(row: impl Fn(usize) -> *const f32, to: *mut f32, to_step: usize) {
            unsafe {
                for column in (0..16).step_by(4) {
                    // Four elements of rows i, i + 4, i + 8 and i + 12.
                    let rows: [__m512; 4] = std::array::from_fn(|i| {
                        let four = |first: usize| _mm_loadu_ps(row(first + i).add(column));
                        let all = _mm512_broadcast_f32x4(four(0));
                        let all = _mm512_mask_broadcast_f32x4(all, 0x00f0, four(4));
                        let all = _mm512_mask_broadcast_f32x4(all, 0x0f00, four(8));
                        _mm512_mask_broadcast_f32x4(all, 0xf000, four(12))
                    });
                    let pair = |a, b| [_mm512_unpacklo_ps(a, b), _mm512_unpackhi_ps(a, b)].map(|v| _mm512_castps_pd(v));
                    let (ab, cd) = (pair(rows[0], rows[1]), pair(rows[2], rows[3]));
                    for i in 0..2 {
                        let columns = [_mm512_unpacklo_pd(ab[i], cd[i]), _mm512_unpackhi_pd(ab[i], cd[i])];
                        for (j, v) in columns.into_iter().enumerate() {
                            _mm512_storeu_ps(to.add((column + 2 * i + j) * to_step), _mm512_castpd_ps(v));
                        }
                    }
                }
            }
        }
        #[inline(always)]
        unsafe fn hide(mut i: usize) -> usize {
            // SAFETY: no instruction at all.
            unsafe { std::arch::asm!("/* {0} */", inout(reg) i, options(pure, nomem, nostack, preserves_flags)) };
            i
        }
        #[inline(always)]
        #[allow(clippy::pointers_in_nomem_asm_block, reason = "no instruction reads through the pointer")]
        unsafe fn hide_pointer(mut p: *const f32) -> *const f32 {
            // SAFETY: no instruction at all.
            unsafe { std::arch::asm!("/* {0} */", inout(reg) p, options(pure, nomem, nostack, preserves_flags)) };
            p
        }
    }

    /// Lanes below `n` all ones.
    #[inline(always)]
    unsafe fn first_lanes(n: usize) -> __m256i {
        unsafe { _mm256_cmpgt_epi32(_mm256_set1_epi32(n as i32), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7)) }
    }

    impl Simd for Avx2 {
        type T = f32;
        type V = __m256;
        const LANES: usize = 8;
        #[inline(always)]
        unsafe fn zero() -> __m256 {
            unsafe { _mm256_setzero_ps() }
        }
        #[inline(always)]
        unsafe fn splat(p: *const f32) -> __m256 {
            unsafe { _mm256_broadcast_ss(&*p) }
        }
        #[inline(always)]
        unsafe fn load(p: *const f32) -> __m256 {
            unsafe { _mm256_loadu_ps(p) }
        }
        #[inline(always)]
        unsafe fn load_first(p: *const f32, n: usize) -> __m256 {
            unsafe { _mm256_maskload_ps(p, first_lanes(n)) }
        }
        #[inline(always)]
        unsafe fn store(p: *mut f32, v: __m256) {
            unsafe { _mm256_storeu_ps(p, v) }
        }
        #[inline(always)]
        unsafe fn stream(p: *mut f32, v: __m256) {
            unsafe {
                if p.addr().is_multiple_of(size_of::<__m256>()) { _mm256_stream_ps(p, v) } else { Self::store(p, v) }
            }
        }
        #[inline(always)]
        unsafe fn store_first(p: *mut f32, v: __m256, n: usize) {
            unsafe { _mm256_maskstore_ps(p, first_lanes(n), v) }
        }
        #[inline(always)]
        unsafe fn mul_add(a: __m256, b: __m256, c: __m256) -> __m256 {
            unsafe { _mm256_fmadd_ps(a, b, c) }
        }
        #[inline(always)]
        unsafe fn mul(a: __m256, b: __m256) -> __m256 {
            unsafe { _mm256_mul_ps(a, b) }
        }
        #[inline(always)]
        unsafe fn max(a: __m256, b: __m256) -> __m256 {
            unsafe { _mm256_max_ps(a, b) }
        }
        #[inline(always)]
        unsafe fn add(a: __m256, b: __m256) -> __m256 {
            unsafe { _mm256_add_ps(a, b) }
        }
        #[inline(always)]
        unsafe fn sub(a: __m256, b: __m256) -> __m256 {
            unsafe { _mm256_sub_ps(a, b) }
        }
        #[inline(always)]
        unsafe fn transpose(row: impl Fn(usize) -> *const f32, to: *mut f32, to_step: usize) {
            unsafe {
                for column in (0..8).step_by(4) {
                    // Four elements of rows i and i + 4.
                    let rows: [__m256; 4] = std::array::from_fn(|i| {
                        let four = |first: usize| _mm_loadu_ps(row(first + i).add(column));
                        _mm256_insertf128_ps(_mm256_castps128_ps256(four(0)), four(4), 1)
                    });
                    let pair = |a, b| [_mm256_unpacklo_ps(a, b), _mm256_unpackhi_ps(a, b)].map(|v| _mm256_castps_pd(v));
                    let (ab, cd) = (pair(rows[0], rows[1]), pair(rows[2], rows[3]));
                    for i in 0..2 {
                        let columns = [_mm256_unpacklo_pd(ab[i], cd[i]), _mm256_unpackhi_pd(ab[i], cd[i])];
                        for (j, v) in columns.into_iter().enumerate() {
                            _mm256_storeu_ps(to.add((column + 2 * i + j) * to_step), _mm256_castpd_ps(v));
                        }
                    }
                }
            }
        }
        #[inline(always)]
        unsafe fn hide(mut i: usize) -> usize {
            // SAFETY: no instruction at all.
            unsafe { std::arch::asm!("/* {0} */", inout(reg) i, options(pure, nomem, nostack, preserves_flags)) };
            i
        }
        #[inline(always)]
        #[allow(clippy::pointers_in_nomem_asm_block, reason = "no instruction reads through the pointer")]
        unsafe fn hide_pointer(mut p: *const f32) -> *const f32 {
            // SAFETY: no instruction at all.
            unsafe { std::arch::asm!("/* {0} */", inout(reg) p, options(pure, nomem, nostack, preserves_flags)) };
            p
        }
    }
}
