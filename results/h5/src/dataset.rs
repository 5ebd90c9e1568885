//! Datasets of numbers: creation, whole arrays and slabs.

use std::fmt;
use std::ops::Range;

use hdf5::types::{FloatSize, IntSize, TypeDescriptor};
use hdf5::{Dataset, Hyperslab, SliceOrIndex};
use ndarray::{ArrayD, ArrayViewD};

use crate::{Error, File, Kind, Result};

/// Element type of a dataset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dtype {
    /// IEEE single precision.
    F32,
    /// IEEE double precision.
    F64,
    /// Signed 16 bit.
    I16,
    /// Signed 32 bit.
    I32,
    /// Signed 64 bit.
    I64,
    /// Unsigned 8 bit.
    U8,
    /// Unsigned 64 bit.
    U64,
    /// Strings of fixed or variable length, ASCII or UTF-8.
    Str,
    /// Anything else; this crate does not read it.
    Other,
}

impl fmt::Display for Dtype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Dtype::F32 => "f32",
            Dtype::F64 => "f64",
            Dtype::I16 => "i16",
            Dtype::I32 => "i32",
            Dtype::I64 => "i64",
            Dtype::U8 => "u8",
            Dtype::U64 => "u64",
            Dtype::Str => "strings",
            Dtype::Other => "another type",
        })
    }
}

impl From<&TypeDescriptor> for Dtype {
    fn from(descriptor: &TypeDescriptor) -> Self {
        match descriptor {
            TypeDescriptor::Float(FloatSize::U4) => Dtype::F32,
            TypeDescriptor::Float(FloatSize::U8) => Dtype::F64,
            TypeDescriptor::Integer(IntSize::U2) => Dtype::I16,
            TypeDescriptor::Integer(IntSize::U4) => Dtype::I32,
            TypeDescriptor::Integer(IntSize::U8) => Dtype::I64,
            TypeDescriptor::Unsigned(IntSize::U1) => Dtype::U8,
            TypeDescriptor::Unsigned(IntSize::U8) => Dtype::U64,
            TypeDescriptor::FixedAscii(_)
            | TypeDescriptor::FixedUnicode(_)
            | TypeDescriptor::VarLenAscii
            | TypeDescriptor::VarLenUnicode => Dtype::Str,
            _ => Dtype::Other,
        }
    }
}

/// A number that a dataset can hold: f32, f64, i16, i32, i64, u8, u64.
pub trait Elem: hdf5::H5Type + Copy + Send + Sync + 'static {
    /// The stored type.
    const DTYPE: Dtype;
}

macro_rules! elem {
    ($($type:ty => $dtype:ident),*) => { $(impl Elem for $type { const DTYPE: Dtype = Dtype::$dtype; })* };
}
elem!(f32 => F32, f64 => F64, i16 => I16, i32 => I32, i64 => I64, u8 => U8, u64 => U64);

/// How a dataset lies in the file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Layout {
    chunk: Vec<usize>,
    deflate: Option<u8>,
}

impl Layout {
    /// One piece, not compressed: the fastest to read in slabs.
    pub fn contiguous() -> Self {
        Layout::default()
    }

    /// In chunks of this shape (one extent for each axis; cut to the dataset where it is larger).
    pub fn chunked(chunk: &[usize]) -> Self {
        Layout { chunk: chunk.to_vec(), deflate: None }
    }

    /// Compresses each chunk by gzip, level 0 to 9. Needs [`Layout::chunked`].
    pub fn deflate(mut self, level: u8) -> Self {
        self.deflate = Some(level);
        self
    }
}

impl File {
    /// Creates an empty dataset (zeros until written). `shape` may have any rank; groups in `name` are created.
    pub fn create_dataset<T: Elem>(&self, name: &str, shape: &[usize], layout: &Layout) -> Result<()> {
        if layout.chunk.len() != shape.len() && !layout.chunk.is_empty() {
            return Err(self.wrong_shape(
                name,
                format!("a chunk with {} extents", shape.len()),
                format!("{:?}", layout.chunk),
            ));
        }
        let mut builder = self.inner.new_dataset_builder();
        // A dataset without elements has no chunks: the library refuses an extent of 0.
        if !layout.chunk.is_empty() && shape.iter().all(|&n| n > 0) {
            let chunk: Vec<usize> = layout.chunk.iter().zip(shape).map(|(&c, &n)| c.clamp(1, n)).collect();
            builder = builder.chunk(chunk);
            if let Some(level) = layout.deflate {
                builder = builder.deflate(level);
            }
        }
        let builder = builder.empty::<T>();
        let created =
            if shape.is_empty() { builder.shape(()).create(name) } else { builder.shape(shape.to_vec()).create(name) };
        created.map(drop).map_err(|error| self.failed(format!("create dataset {name:?}"), &error))
    }

    /// Creates a contiguous dataset with `data`, row-major.
    ///
    /// # Errors
    /// [`Error::Shape`] if `data` does not have the product of `shape` elements.
    pub fn write<T: Elem>(&self, name: &str, shape: &[usize], data: &[T]) -> Result<()> {
        self.write_with(name, shape, data, &Layout::contiguous())
    }

    /// As [`File::write`], with a layout.
    pub fn write_with<T: Elem>(&self, name: &str, shape: &[usize], data: &[T], layout: &Layout) -> Result<()> {
        self.check_len(name, shape, data.len())?;
        self.create_dataset::<T>(name, shape, layout)?;
        let dataset = self.dataset(name)?;
        let written = if shape.is_empty() { dataset.write_scalar(&data[0]) } else { dataset.write_raw(data) };
        written.map_err(|error| self.failed(format!("write dataset {name:?}"), &error))
    }

    /// Writes `data`, row-major, into the part of a dataset given by one range for each axis.
    ///
    /// # Errors
    /// [`Error::Shape`] if the ranges are outside the dataset or `data` has another number of elements.
    pub fn write_slab<T: Elem>(&self, name: &str, ranges: &[Range<usize>], data: &[T]) -> Result<()> {
        let (dataset, shape) = self.slab::<T>(name, ranges)?;
        self.check_len(name, &shape, data.len())?;
        if data.is_empty() {
            return Ok(());
        }
        let failed = |error: &hdf5::Error| self.failed(format!("write dataset {name:?}"), error);
        if shape.is_empty() {
            return dataset.write_scalar(&data[0]).map_err(|error| failed(&error));
        }
        let view = ArrayViewD::from_shape(shape.clone(), data)
            .map_err(|_| self.wrong_shape(name, format!("{shape:?}"), format!("{} elements", data.len())))?;
        dataset.write_slice(view, hyperslab(ranges)).map_err(|error| failed(&error))
    }

    /// Reads a whole dataset: the elements, row-major, and the shape.
    ///
    /// # Errors
    /// [`Error::Missing`], or [`Error::Type`] if it does not hold `T` (numbers are not converted).
    pub fn read<T: Elem>(&self, name: &str) -> Result<(Vec<T>, Vec<usize>)> {
        let dataset = self.typed::<T>(name)?;
        let data = dataset.read_raw().map_err(|error| self.failed(format!("read dataset {name:?}"), &error))?;
        Ok((data, dataset.shape()))
    }

    /// Reads the part given by one range for each axis: the elements, row-major, and the extents of the part.
    ///
    /// # Errors
    /// As [`File::read`], and [`Error::Shape`] if the ranges are outside the dataset.
    pub fn read_slab<T: Elem>(&self, name: &str, ranges: &[Range<usize>]) -> Result<(Vec<T>, Vec<usize>)> {
        let (dataset, shape) = self.slab::<T>(name, ranges)?;
        if shape.contains(&0) {
            return Ok((Vec::new(), shape));
        }
        let failed = |error: &hdf5::Error| self.failed(format!("read dataset {name:?}"), error);
        if shape.is_empty() {
            return dataset.read_raw().map(|data| (data, shape)).map_err(|error| failed(&error));
        }
        let array: ArrayD<T> = dataset.read_slice(hyperslab(ranges)).map_err(|error| failed(&error))?;
        let (data, _) = array.into_raw_vec_and_offset();
        Ok((data, shape))
    }

    /// Extents of a dataset, slowest axis first; empty for a scalar.
    pub fn shape(&self, name: &str) -> Result<Vec<usize>> {
        Ok(self.dataset(name)?.shape())
    }

    /// Element type of a dataset.
    pub fn dtype(&self, name: &str) -> Result<Dtype> {
        Ok(Dtype::from(&self.descriptor(name)?))
    }

    pub(crate) fn dataset(&self, name: &str) -> Result<Dataset> {
        let name = name.trim_matches('/');
        match self.kind(name) {
            Ok(Kind::Dataset) => {
                self.inner.dataset(name).map_err(|error| self.failed(format!("open dataset {name:?}"), &error))
            }
            _ => Err(self.missing("dataset", name)),
        }
    }

    pub(crate) fn descriptor(&self, name: &str) -> Result<TypeDescriptor> {
        let dataset = self.dataset(name)?;
        let stored = dataset.dtype().map_err(|error| self.failed(format!("read the type of {name:?}"), &error))?;
        stored.to_descriptor().map_err(|_| self.wrong_type(name, "a type of this crate", "another type"))
    }

    pub(crate) fn wrong_type(&self, name: &str, expected: impl ToString, got: impl ToString) -> Error {
        let (expected, got) = (expected.to_string(), got.to_string());
        Error::Type { path: self.path.clone(), name: name.to_owned(), expected, got }
    }

    fn wrong_shape(&self, name: &str, expected: String, got: String) -> Error {
        Error::Shape { path: self.path.clone(), name: name.to_owned(), expected, got }
    }

    fn typed<T: Elem>(&self, name: &str) -> Result<Dataset> {
        let dataset = self.dataset(name)?;
        match self.dtype(name)? {
            dtype if dtype == T::DTYPE => Ok(dataset),
            dtype => Err(self.wrong_type(name, T::DTYPE, dtype)),
        }
    }

    /// The dataset behind a slab and the slab's extents, after the checks that the library would report less clearly.
    fn slab<T: Elem>(&self, name: &str, ranges: &[Range<usize>]) -> Result<(Dataset, Vec<usize>)> {
        let dataset = self.typed::<T>(name)?;
        let shape = dataset.shape();
        let inside =
            ranges.len() == shape.len() && ranges.iter().zip(&shape).all(|(r, &n)| r.start <= r.end && r.end <= n);
        if !inside {
            return Err(self.wrong_shape(name, format!("ranges inside {shape:?}"), format!("{ranges:?}")));
        }
        Ok((dataset, ranges.iter().map(ExactSizeIterator::len).collect()))
    }

    fn check_len(&self, name: &str, shape: &[usize], len: usize) -> Result<()> {
        let expected: usize = shape.iter().product();
        if expected == len {
            return Ok(());
        }
        Err(self.wrong_shape(name, format!("{expected} elements for {shape:?}"), format!("{len}")))
    }
}

fn hyperslab(ranges: &[Range<usize>]) -> Hyperslab {
    ranges.iter().cloned().map(SliceOrIndex::from).collect::<Vec<_>>().into()
}
