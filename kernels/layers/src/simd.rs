//! One generic kernel body, compiled for several instruction sets and chosen at run time.

use crate::Float;

/// Adjoining elements (channels, as a rule) that a kernel keeps in registers.
pub(crate) const STRIP: usize = 16;

/// Elements of the widest strips.
pub(crate) const WIDE: usize = 64;

/// Evaluates `$body` for strips that cover the elements `0..$count`, the widest first: `$at` is a strip's first element, the
/// constant `$L` its length.
macro_rules! in_strips {
    ($count:expr, |$at:ident, $L:ident| $body:expr) => {{
        let count: usize = $count;
        let mut next = 0;
        $crate::simd::in_strips!(@ count, next, $crate::simd::WIDE, $at, $L, $body);
        $crate::simd::in_strips!(@ count, next, $crate::simd::WIDE / 2, $at, $L, $body);
        $crate::simd::in_strips!(@ count, next, $crate::simd::STRIP, $at, $L, $body);
        $crate::simd::in_strips!(@ count, next, 1, $at, $L, $body);
    }};
    (@ $count:ident, $next:ident, $len:expr, $at:ident, $L:ident, $body:expr) => {
        while $count - $next >= $len {
            const $L: usize = $len;
            let $at = $next;
            $body;
            $next += $L;
        }
    };
}
pub(crate) use in_strips;

/// The first `L` elements.
#[inline(always)]
pub(crate) fn strip<T: Float, const L: usize>(values: &[T]) -> [T; L] {
    let mut strip = [T::ZERO; L];
    strip.copy_from_slice(&values[..L]);
    strip
}

/// The first `L` elements, where a loop has no time to ask whether they exist.
///
/// # Safety
/// They do.
#[inline(always)]
pub(crate) unsafe fn strip_at<T: Float, const L: usize>(values: *const T) -> [T; L] {
    // SAFETY: by this function's contract; an array is as long and aligned as its elements.
    unsafe { values.cast::<[T; L]>().read() }
}

/// Elements by which a sweep asks for its lines of cache ahead.
const AHEAD: usize = 1024;

/// Asks for the cache line [`AHEAD`] of the first element.
///
/// The hardware runs ahead of loads less than the memory could bear, and of stores hardly at all, though a store waits for a
/// line that is not in the cache: a sweep that asks for all its lines, those that it will overwrite as well, runs at up to
/// twice the speed.
#[inline(always)]
pub(crate) fn prefetch_next<T>(values: &[T]) {
    prefetch(values.as_ptr().wrapping_add(AHEAD));
}

/// [`prefetch_next`] for all cache lines of a strip.
#[inline(always)]
pub(crate) fn prefetch_next_strip<T, const L: usize>(values: &[T]) {
    for i in (0..L).step_by(64 / size_of::<T>()) {
        prefetch_next(&values[i..]);
    }
}

/// Asks for the cache line at `p`, in the first-level cache; any address will do.
#[inline(always)]
pub(crate) fn prefetch<T>(p: *const T) {
    #[cfg(target_arch = "x86_64")]
    hint::<{ std::arch::x86_64::_MM_HINT_T0 }, T>(p);
    #[cfg(not(target_arch = "x86_64"))]
    let _ = p;
}

/// The same for the second-level cache.
#[inline(always)]
pub(crate) fn prefetch_second<T>(p: *const T) {
    #[cfg(target_arch = "x86_64")]
    hint::<{ std::arch::x86_64::_MM_HINT_T1 }, T>(p);
    #[cfg(not(target_arch = "x86_64"))]
    let _ = p;
}

#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn hint<const LEVEL: i32, T>(p: *const T) {
    // SAFETY: a hint, which never faults; SSE is part of the target.
    unsafe { std::arch::x86_64::_mm_prefetch::<LEVEL>(p.cast()) };
}

/// `sign > 0 ? values : slope * values`: a leaky ReLU of values that are their own sign, the gradient of one else.
#[inline(always)]
pub(crate) fn leaky<T: Float, const L: usize>(slope: T, sign: [T; L], mut values: [T; L]) -> [T; L] {
    for i in 0..L {
        values[i] = if sign[i] > T::ZERO { values[i] } else { slope * values[i] };
    }
    values
}

/// Defines a function that runs its body compiled for the selected instruction set.
///
/// The body becomes one `#[inline(always)]` function. What it calls is compiled for wide vectors only where it is
/// inlined: helpers of hot loops are `#[inline(always)]`, closures are small.
macro_rules! multiversion {
    ($(#[$meta:meta])* $vis:vis fn $name:ident<$($g:ident: $bound:path),+>($($arg:ident: $ty:ty),* $(,)?)
        $(-> $ret:ty)? $body:block) => {
        $(#[$meta])*
        $vis fn $name<$($g: $bound),+>($($arg: $ty),*) $(-> $ret)? {
            #[inline(always)]
            fn body<$($g: $bound),+>($($arg: $ty),*) $(-> $ret)? $body

            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx512f,avx2,fma")]
                fn avx512<$($g: $bound),+>($($arg: $ty),*) $(-> $ret)? {
                    body::<$($g),+>($($arg),*)
                }
                #[target_feature(enable = "avx2,fma")]
                fn avx2<$($g: $bound),+>($($arg: $ty),*) $(-> $ret)? {
                    body::<$($g),+>($($arg),*)
                }
                match $crate::conv::Isa::selected() {
                    // SAFETY: only an instruction set of this CPU is selected; every CPU with AVX-512 has AVX2 and FMA.
                    $crate::conv::Isa::Avx512 => return unsafe { avx512::<$($g),+>($($arg),*) },
                    // SAFETY: as above.
                    $crate::conv::Isa::Avx2 => return unsafe { avx2::<$($g),+>($($arg),*) },
                    $crate::conv::Isa::Portable => {}
                }
            }
            body::<$($g),+>($($arg),*)
        }
    };
}
pub(crate) use multiversion;
