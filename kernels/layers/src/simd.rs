//! One generic kernel body, compiled for several vector widths and chosen at run time.

use crate::Float;

/// Adjoining elements (channels, as a rule) that a kernel keeps in registers.
pub(crate) const STRIP: usize = 16;

/// The first `L` elements.
#[inline(always)]
pub(crate) fn strip<T: Float, const L: usize>(values: &[T]) -> [T; L] {
    let mut strip = [T::ZERO; L];
    strip.copy_from_slice(&values[..L]);
    strip
}

/// Vector instructions that a kernel can be compiled for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Vectors {
    /// 512-bit vectors with fused multiply-add (x86-64-v4).
    #[cfg(target_arch = "x86_64")]
    Avx512,
    /// 256-bit vectors with fused multiply-add (x86-64-v3).
    #[cfg(target_arch = "x86_64")]
    Avx2,
    /// What the program was compiled for.
    Base,
}

/// The widest vectors of this CPU. The standard library remembers the answer, so asking costs a load.
#[inline]
pub(crate) fn vectors() -> Vectors {
    #[cfg(target_arch = "x86_64")]
    {
        let fma = is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma");
        if fma
            && is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512dq")
            && is_x86_feature_detected!("avx512vl")
        {
            return Vectors::Avx512;
        }
        if fma {
            return Vectors::Avx2;
        }
    }
    Vectors::Base
}

/// Defines a function that runs its body compiled for the widest vectors of the CPU.
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
                #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]
                fn avx512<$($g: $bound),+>($($arg: $ty),*) $(-> $ret)? {
                    body::<$($g),+>($($arg),*)
                }
                #[target_feature(enable = "avx2,fma")]
                fn avx2<$($g: $bound),+>($($arg: $ty),*) $(-> $ret)? {
                    body::<$($g),+>($($arg),*)
                }
                match $crate::simd::vectors() {
                    // SAFETY: this CPU has the features that the function is compiled for.
                    $crate::simd::Vectors::Avx512 => return unsafe { avx512::<$($g),+>($($arg),*) },
                    // SAFETY: as above.
                    $crate::simd::Vectors::Avx2 => return unsafe { avx2::<$($g),+>($($arg),*) },
                    $crate::simd::Vectors::Base => {}
                }
            }
            body::<$($g),+>($($arg),*)
        }
    };
}
pub(crate) use multiversion;
