//! Which instruction set runs: the best of the CPU, or the one that `SHARDMARK_SIMD` names.

use super::dot::{self, DotTile, MAX_OUTS};
use super::fill::{self, Matrix, Run};
use super::simd::{Portable, Simd};
use super::tile::{self, GatherTile, LONG};
use super::weights::{self, TapsTile, WeightTile};
use super::winograd::{self, Filters, Tiles};
use shardmark_tensor::Real;
use std::any::Any;
use std::fmt;
use std::sync::OnceLock;

/// An instruction set that kernels are compiled for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, PartialOrd, Ord)]
pub enum Isa {
    /// Baseline of the compilation target.
    Portable,
    /// AVX2 and FMA: 8 lanes of f32.
    Avx2,
    /// AVX-512F: 16 lanes of f32.
    Avx512,
}

/// All instruction sets, best first.
pub const ISAS: [Isa; 3] = [Isa::Avx512, Isa::Avx2, Isa::Portable];

impl Isa {
    /// Name, as `SHARDMARK_SIMD` has it.
    pub fn name(self) -> &'static str {
        match self {
            Isa::Portable => "portable",
            Isa::Avx2 => "avx2",
            Isa::Avx512 => "avx512",
        }
    }

    /// Whether this CPU has it.
    pub fn available(self) -> bool {
        match self {
            Isa::Portable => true,
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 => is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma"),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 => is_x86_feature_detected!("avx512f"),
            #[cfg(not(target_arch = "x86_64"))]
            _ => false,
        }
    }

    /// The instruction set of this process: what `SHARDMARK_SIMD` names if this CPU has it, else the best available.
    pub fn selected() -> Isa {
        selection().0
    }

    /// Why [`Isa::selected`] is not what `SHARDMARK_SIMD` asked for, to be shown to the user with what follows from it;
    /// `None` when it is.
    pub fn complaint() -> Option<&'static str> {
        selection().1.as_deref()
    }

    /// What a value of `SHARDMARK_SIMD` selects, and the complaint if it cannot be followed.
    pub fn select(wanted: Option<&str>) -> (Isa, Option<String>) {
        let usable: Vec<Isa> = ISAS.into_iter().filter(|i| i.available()).collect();
        let best = usable[0];
        let Some(wanted) = wanted.filter(|w| !w.is_empty()) else {
            return (best, None);
        };
        match usable.iter().find(|i| i.name() == wanted) {
            Some(&isa) => (isa, None),
            None => {
                let names: Vec<&str> = usable.iter().map(|i| i.name()).collect();
                let names = names.join(", ");
                let text = format!("SHARDMARK_SIMD: expected one of {names} on this CPU, got {wanted}");
                (best, Some(text))
            }
        }
    }
}

impl fmt::Display for Isa {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

fn selection() -> &'static (Isa, Option<String>) {
    static SELECTION: OnceLock<(Isa, Option<String>)> = OnceLock::new();
    SELECTION.get_or_init(|| Isa::select(std::env::var("SHARDMARK_SIMD").ok().as_deref()))
}

/// Most vectors of output channels in a tile.
pub(super) const MAX_VECS: usize = 2;

/// Outputs of a segment in a tile of `vecs` vectors.
pub(super) const fn outputs_per_segment(vecs: usize) -> usize {
    if vecs == 1 { 4 } else { 2 }
}

/// Most inputs of a tile of `weights_taps`.
pub(super) const MAX_STREAMS: usize = 9;

pub(super) type GatherFn<T> = unsafe fn(&GatherTile<T>);
type WeightFn<T> = unsafe fn(&WeightTile<T>);
type TapsFn<T> = unsafe fn(&TapsTile<T>);
type FillFn<T> = unsafe fn(&Run<T>);
type PanelsFn<T> = unsafe fn(&Matrix<T>);
type DotFn<T> = unsafe fn(&DotTile<T>);
type TransposeFn<T> = unsafe fn(&[*const T], usize, *mut T);
type TilesFn<T> = unsafe fn(&Tiles<T>);
type FiltersFn<T> = unsafe fn(&Filters<T>);

/// The transforms of `winograd`.
pub(super) struct Transforms<T: 'static> {
    pub inputs: TilesFn<T>,
    pub outputs: TilesFn<T>,
    pub gradients: TilesFn<T>,
    pub filters: FiltersFn<T>,
    pub filter_gradients: FiltersFn<T>,
}

/// The kernels of `dot` for a number of output channels.
pub(super) struct DotFns<T: 'static> {
    /// Outputs of a tile of `many`.
    pub per: usize,
    pub many: DotFn<T>,
    /// One output.
    pub single: DotFn<T>,
}

/// The kernels of one instruction set.
pub(super) struct Kernels<T: 'static> {
    /// Elements of a vector.
    pub lanes: usize,
    /// `gather[vecs - 1][segments - 1]`.
    pub gather: [&'static [GatherFn<T>]; MAX_VECS],
    /// `gather_taps` with segments of one output, `[segments - 1]`.
    pub taps_single: &'static [GatherFn<T>],
    /// `gather_taps` with segments of `LONG` outputs, `[segments - 1]`.
    pub taps_long: &'static [GatherFn<T>],
    /// `weights[vecs - 1][rows - 1]`.
    pub weights: [&'static [WeightFn<T>]; MAX_VECS],
    /// `weights_taps[vecs - 1][streams - 1]`; none where registers are too few.
    pub weights_taps: [&'static [TapsFn<T>]; MAX_VECS],
    /// `dot[output channels - 1]`.
    pub dot: [DotFns<T>; MAX_OUTS],
    /// Copies weights as they lie.
    pub rows: FillFn<T>,
    /// Copies weights transposed.
    pub columns: FillFn<T>,
    /// Copies rows of a matrix to panels of columns.
    pub panels: PanelsFn<T>,
    /// `gather_copied[vecs - 1][segments - 1]`.
    pub copied: [&'static [GatherFn<T>]; MAX_VECS],
    /// Copies neighbouring outputs' inputs for it.
    pub transpose: TransposeFn<T>,
    /// To and from the points of tiles.
    pub winograd: Transforms<T>,
}

impl<T: Real> Kernels<T> {
    /// The kernels of an available instruction set for an element type; f64 has the portable ones only.
    pub fn of(isa: Isa) -> &'static Kernels<T> {
        assert!(isa.available(), "the instruction set {isa} is chosen among the available ones");
        let f32_kernels: &'static dyn Any = match isa {
            Isa::Portable => &PORTABLE_F32,
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 => &x86::AVX2,
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 => &x86::AVX512,
            #[cfg(not(target_arch = "x86_64"))]
            _ => &PORTABLE_F32,
        };
        let f64_kernels: &'static dyn Any = &PORTABLE_F64;
        f32_kernels
            .downcast_ref()
            .or_else(|| f64_kernels.downcast_ref())
            .expect("kernels are compiled for every element type that implements Real")
    }
}

/// The kernels of one instruction set; `$features` enables it in every function that the generic body is inlined into.
macro_rules! kernels {
    ($simd:ty, $t:ty, $(#[$features:meta])?, segs $($segs:literal)*, single $($single:literal)*, long $($long:literal)*,
     rows1 $($rows1:literal)*, rows2 $($rows2:literal)*, streams1 $($streams1:literal)*, streams2 $($streams2:literal)*, dot $dot1:literal $dot2:literal $dot3:literal $dot4:literal) => {{
        $(#[$features])?
        unsafe fn gather<const SEGS: usize, const PER: usize, const VECS: usize>(tile: &GatherTile<$t>) {
            // SAFETY: handed on to the caller.
            unsafe { tile::gather::<$simd, SEGS, PER, VECS>(tile) }
        }
        $(#[$features])?
        unsafe fn gather_taps<const SEGS: usize, const PER: usize>(tile: &GatherTile<$t>) {
            // SAFETY: handed on to the caller.
            unsafe { tile::gather_taps::<$simd, SEGS, PER>(tile) }
        }
        $(#[$features])?
        unsafe fn weights<const ROWS: usize, const VECS: usize>(tile: &WeightTile<$t>) {
            // SAFETY: handed on to the caller.
            unsafe { weights::weights::<$simd, ROWS, VECS>(tile) }
        }
        $(#[$features])?
        unsafe fn weights_taps<const STREAMS: usize, const VECS: usize>(tile: &TapsTile<$t>) {
            // SAFETY: handed on to the caller.
            unsafe { weights::weights_taps::<$simd, STREAMS, VECS>(tile) }
        }
        $(#[$features])?
        unsafe fn rows(run: &Run<$t>) {
            // SAFETY: handed on to the caller.
            unsafe { fill::rows::<$simd>(run) }
        }
        $(#[$features])?
        unsafe fn panels(matrix: &Matrix<$t>) {
            // SAFETY: handed on to the caller.
            unsafe { fill::panels::<$simd>(matrix) }
        }
        $(#[$features])?
        unsafe fn columns(run: &Run<$t>) {
            // SAFETY: handed on to the caller.
            unsafe { fill::columns::<$simd>(run) }
        }
        $(#[$features])?
        unsafe fn dot<const OUTS: usize, const PER: usize>(tile: &DotTile<$t>) {
            // SAFETY: handed on to the caller.
            unsafe { dot::dot::<$simd, OUTS, PER>(tile) }
        }
        $(#[$features])?
        unsafe fn gather_copied<const SEGS: usize, const PER: usize, const VECS: usize>(tile: &GatherTile<$t>) {
            // SAFETY: handed on to the caller.
            unsafe { tile::gather_copied::<$simd, SEGS, PER, VECS>(tile) }
        }
        $(#[$features])?
        unsafe fn transpose(rows: &[*const $t], len: usize, to: *mut $t) {
            // SAFETY: handed on to the caller.
            unsafe { fill::transpose::<$simd>(rows, len, to) }
        }
        $(#[$features])?
        unsafe fn transform_inputs(tiles: &Tiles<$t>) {
            // SAFETY: handed on to the caller.
            unsafe { winograd::transform_inputs::<$simd>(tiles) }
        }
        $(#[$features])?
        unsafe fn transform_outputs(tiles: &Tiles<$t>) {
            // SAFETY: handed on to the caller.
            unsafe { winograd::transform_outputs::<$simd>(tiles) }
        }
        $(#[$features])?
        unsafe fn transform_gradients(tiles: &Tiles<$t>) {
            // SAFETY: handed on to the caller.
            unsafe { winograd::transform_gradients::<$simd>(tiles) }
        }
        $(#[$features])?
        unsafe fn transform_filters(tiles: &Filters<$t>) {
            // SAFETY: handed on to the caller.
            unsafe { winograd::transform_filters::<$simd>(tiles) }
        }
        $(#[$features])?
        unsafe fn transform_filter_gradients(tiles: &Filters<$t>) {
            // SAFETY: handed on to the caller.
            unsafe { winograd::transform_filter_gradients::<$simd>(tiles) }
        }
        Kernels {
            lanes: <$simd as Simd>::LANES,
            gather: [
                &[$(gather::<$segs, { outputs_per_segment(1) }, 1>),*],
                &[$(gather::<$segs, { outputs_per_segment(2) }, 2>),*],
            ],
            taps_single: &[$(gather_taps::<$single, 1>),*],
            taps_long: &[$(gather_taps::<$long, LONG>),*],
            weights: [&[$(weights::<$rows1, 1>),*], &[$(weights::<$rows2, 2>),*]],
            weights_taps: [&[$(weights_taps::<$streams1, 1>),*], &[$(weights_taps::<$streams2, 2>),*]],
            dot: [
                DotFns { per: $dot1, many: dot::<1, $dot1>, single: dot::<1, 1> },
                DotFns { per: $dot2, many: dot::<2, $dot2>, single: dot::<2, 1> },
                DotFns { per: $dot3, many: dot::<3, $dot3>, single: dot::<3, 1> },
                DotFns { per: $dot4, many: dot::<4, $dot4>, single: dot::<4, 1> },
            ],
            rows,
            columns,
            panels,
            copied: [
                &[$(gather_copied::<$segs, { outputs_per_segment(1) }, 1>),*],
                &[$(gather_copied::<$segs, { outputs_per_segment(2) }, 2>),*],
            ],
            transpose,
            winograd: Transforms {
                inputs: transform_inputs,
                outputs: transform_outputs,
                gradients: transform_gradients,
                filters: transform_filters,
                filter_gradients: transform_filter_gradients,
            },
        }
    }};
}

// With 16 registers: 12 accumulators, two weight vectors and one broadcast input.
static PORTABLE_F32: Kernels<f32> = kernels!(Portable<f32, 4>, f32,, segs 1 2 3, single 1 2 3, long 1, rows1 1 2 3 4 5 6 7 8 9 10 11 12, rows2 1 2 3 4 5 6, streams1 1 2 3 4, streams2, dot 6 4 3 2);
static PORTABLE_F64: Kernels<f64> = kernels!(Portable<f64, 2>, f64,, segs 1 2 3, single 1 2 3, long 1, rows1 1 2 3 4 5 6 7 8 9 10 11 12, rows2 1 2 3 4 5 6, streams1 1 2 3 4, streams2, dot 6 4 3 2);

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::super::simd::{Avx2, Avx512};
    use super::*;

    pub static AVX2: Kernels<f32> = kernels!(Avx2, f32, #[target_feature(enable = "avx2,fma")],
        segs 1 2 3, single 1 2 3, long 1, rows1 1 2 3 4 5 6 7 8 9 10 11 12, rows2 1 2 3 4 5 6, streams1 1 2 3 4, streams2, dot 6 4 3 2);

    // With 32 registers: 28 accumulators.
    pub static AVX512: Kernels<f32> = kernels!(Avx512, f32, #[target_feature(enable = "avx512f")],
        segs 1 2 3 4 5 6 7, single 1 2 3 4 5 6 7, long 1 2 3, rows1 1 2 3 4 5 6 7 8 9 10 11 12 13 14, rows2 1 2 3 4 5 6 7 8 9 10 11 12 13 14, streams1 1 2 3 4 5 6 7 8 9, streams2 1 2 3 4, dot 12 9 7 6);
}
