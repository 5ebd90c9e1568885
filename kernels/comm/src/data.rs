//! Payloads: owned vectors of one of four element types.

use crate::engine::Pool;
use crate::error::{CommError, Result};
use std::fmt;
use std::ops::Range;

/// Element type of a payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Dtype {
    /// 32-bit floating point.
    F32,
    /// 64-bit floating point.
    F64,
    /// Unsigned byte.
    U8,
    /// 32-bit signed integer.
    I32,
}

impl Dtype {
    /// Bytes of one element.
    pub fn size(self) -> usize {
        match self {
            Dtype::U8 => 1,
            Dtype::F32 | Dtype::I32 => 4,
            Dtype::F64 => 8,
        }
    }
}

impl fmt::Display for Dtype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Dtype::F32 => "f32",
            Dtype::F64 => "f64",
            Dtype::U8 => "u8",
            Dtype::I32 => "i32",
        })
    }
}

/// A payload. It is moved into an operation and comes back from `wait`, so no buffer is ever shared with a running
/// operation.
#[derive(Debug, Clone, PartialEq)]
pub enum Data {
    /// f32 elements.
    F32(Vec<f32>),
    /// f64 elements.
    F64(Vec<f64>),
    /// u8 elements.
    U8(Vec<u8>),
    /// i32 elements.
    I32(Vec<i32>),
}

/// Evaluates `$body` with `$v` bound to the vector inside `$data`, whatever its element type.
macro_rules! each {
    ($data:expr, $v:ident => $body:expr) => {
        match $data {
            Data::F32($v) => $body,
            Data::F64($v) => $body,
            Data::U8($v) => $body,
            Data::I32($v) => $body,
        }
    };
}

impl Data {
    /// `len` zeros.
    pub fn zeros(dtype: Dtype, len: usize) -> Self {
        match dtype {
            Dtype::F32 => Data::F32(vec![0.0; len]),
            Dtype::F64 => Data::F64(vec![0.0; len]),
            Dtype::U8 => Data::U8(vec![0; len]),
            Dtype::I32 => Data::I32(vec![0; len]),
        }
    }

    /// No elements, without an allocation.
    pub fn empty(dtype: Dtype) -> Self {
        Self::zeros(dtype, 0)
    }

    /// Element type.
    pub fn dtype(&self) -> Dtype {
        match self {
            Data::F32(_) => Dtype::F32,
            Data::F64(_) => Dtype::F64,
            Data::U8(_) => Dtype::U8,
            Data::I32(_) => Dtype::I32,
        }
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        each!(self, v => v.len())
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Size in bytes.
    pub fn bytes(&self) -> usize {
        self.len() * self.dtype().size()
    }

    /// Shortens to `len` elements; does nothing when there are fewer.
    pub fn truncate(&mut self, len: usize) {
        each!(self, v => v.truncate(len))
    }

    /// No elements, with room for `capacity`.
    pub fn with_capacity(dtype: Dtype, capacity: usize) -> Self {
        match dtype {
            Dtype::F32 => Data::F32(Vec::with_capacity(capacity)),
            Dtype::F64 => Data::F64(Vec::with_capacity(capacity)),
            Dtype::U8 => Data::U8(Vec::with_capacity(capacity)),
            Dtype::I32 => Data::I32(Vec::with_capacity(capacity)),
        }
    }

    /// A copy of the elements in `range`, which must lie inside.
    pub(crate) fn copy(&self, range: Range<usize>) -> Data {
        match self {
            Data::F32(v) => Data::F32(v[range].to_vec()),
            Data::F64(v) => Data::F64(v[range].to_vec()),
            Data::U8(v) => Data::U8(v[range].to_vec()),
            Data::I32(v) => Data::I32(v[range].to_vec()),
        }
    }

    /// A copy of the elements in `range`, in a buffer of the pool.
    pub(crate) fn copy_to(&self, range: Range<usize>, pool: &Pool) -> Data {
        let mut buffer = pool.take(self.dtype(), range.len());
        match (&mut buffer, self) {
            (Data::F32(a), Data::F32(b)) => a.extend_from_slice(&b[range]),
            (Data::F64(a), Data::F64(b)) => a.extend_from_slice(&b[range]),
            (Data::U8(a), Data::U8(b)) => a.extend_from_slice(&b[range]),
            (Data::I32(a), Data::I32(b)) => a.extend_from_slice(&b[range]),
            (a, b) => unreachable!("a buffer of {} for {}: the pool minds the type", a.dtype(), b.dtype()),
        }
        buffer
    }

    /// Moves the elements out.
    pub(crate) fn take(&mut self) -> Data {
        let empty = Data::empty(self.dtype());
        std::mem::replace(self, empty)
    }

    /// Elements that fit without a new allocation.
    pub fn capacity(&self) -> usize {
        each!(self, v => v.capacity())
    }

    /// Adds the elements of `source`, of the same type, at the end.
    pub(crate) fn extend(&mut self, source: &Data) {
        match (self, source) {
            (Data::F32(a), Data::F32(b)) => a.extend_from_slice(b),
            (Data::F64(a), Data::F64(b)) => a.extend_from_slice(b),
            (Data::U8(a), Data::U8(b)) => a.extend_from_slice(b),
            (Data::I32(a), Data::I32(b)) => a.extend_from_slice(b),
            (a, b) => unreachable!("{} added to {}: arrivals are checked", b.dtype(), a.dtype()),
        }
    }

    /// Overwrites the elements from `at` on with `source`, of the same type.
    pub(crate) fn write(&mut self, at: usize, source: &Data) {
        match (self, source) {
            (Data::F32(a), Data::F32(b)) => a[at..at + b.len()].copy_from_slice(b),
            (Data::F64(a), Data::F64(b)) => a[at..at + b.len()].copy_from_slice(b),
            (Data::U8(a), Data::U8(b)) => a[at..at + b.len()].copy_from_slice(b),
            (Data::I32(a), Data::I32(b)) => a[at..at + b.len()].copy_from_slice(b),
            (a, b) => unreachable!("write of {} into {}: arrivals are checked", b.dtype(), a.dtype()),
        }
    }
}

/// An element type that can be sent: f32, f64, u8, i32.
pub trait Elem: Copy + Default + PartialEq + fmt::Debug + Send + 'static {
    /// The matching tag.
    const DTYPE: Dtype;
    /// Moves a vector into a payload.
    fn wrap(vec: Vec<Self>) -> Data;
    /// Moves the vector out of a payload; [`CommError::Dtype`] when it holds another type.
    fn unwrap(data: Data) -> Result<Vec<Self>>;
    /// Borrows the elements of a payload; [`CommError::Dtype`] when it holds another type.
    fn slice(data: &Data) -> Result<&[Self]>;
    /// Borrows the elements of a payload mutably; [`CommError::Dtype`] when it holds another type.
    fn slice_mut(data: &mut Data) -> Result<&mut [Self]>;
}

macro_rules! elem {
    ($t:ty, $variant:ident) => {
        impl Elem for $t {
            const DTYPE: Dtype = Dtype::$variant;
            fn wrap(vec: Vec<Self>) -> Data {
                Data::$variant(vec)
            }
            fn unwrap(data: Data) -> Result<Vec<Self>> {
                match data {
                    Data::$variant(vec) => Ok(vec),
                    other => Err(CommError::payload(Self::DTYPE, other.dtype())),
                }
            }
            fn slice(data: &Data) -> Result<&[Self]> {
                match data {
                    Data::$variant(vec) => Ok(vec),
                    other => Err(CommError::payload(Self::DTYPE, other.dtype())),
                }
            }
            fn slice_mut(data: &mut Data) -> Result<&mut [Self]> {
                match data {
                    Data::$variant(vec) => Ok(vec),
                    other => Err(CommError::payload(Self::DTYPE, other.dtype())),
                }
            }
        }
    };
}
elem!(f32, F32);
elem!(f64, F64);
elem!(u8, U8);
elem!(i32, I32);
