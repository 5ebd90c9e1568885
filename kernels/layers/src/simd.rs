//! One generic kernel body, compiled for several instruction sets and chosen at run time.

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
