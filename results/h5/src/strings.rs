//! Strings: written as variable-length UTF-8 (what h5py reads as `str`), read in any of HDF5's four kinds.

use hdf5::Container;
use hdf5::types::{FixedAscii, FixedUnicode, TypeDescriptor, VarLenAscii, VarLenUnicode};

use crate::{File, Result};

/// Longest fixed-length string that is read; longer ones are refused rather than cut.
const FIXED_MAX: usize = 1024;

impl File {
    /// Creates a scalar dataset that holds one string.
    pub fn write_str(&self, name: &str, text: &str) -> Result<()> {
        let value = varlen(text);
        self.inner
            .new_dataset::<VarLenUnicode>()
            .shape(())
            .create(name)
            .and_then(|dataset| dataset.write_scalar(&value))
            .map_err(|error| self.failed(format!("write dataset {name:?}"), &error))
    }

    /// Creates a one-dimensional dataset of strings.
    pub fn write_strs<S: AsRef<str>>(&self, name: &str, texts: &[S]) -> Result<()> {
        let values: Vec<VarLenUnicode> = texts.iter().map(|text| varlen(text.as_ref())).collect();
        self.inner
            .new_dataset::<VarLenUnicode>()
            .shape(values.len())
            .create(name)
            .and_then(|dataset| dataset.write_raw(&values))
            .map_err(|error| self.failed(format!("write dataset {name:?}"), &error))
    }

    /// Reads a dataset that holds one string.
    ///
    /// # Errors
    /// [`crate::Error::Missing`], or [`crate::Error::Type`] if it holds numbers or several strings.
    pub fn read_str(&self, name: &str) -> Result<String> {
        let mut texts = self.read_strs(name)?;
        match texts.len() {
            1 => Ok(texts.swap_remove(0)),
            n => Err(self.wrong_type(name, "one string", format!("{n} strings"))),
        }
    }

    /// Reads all strings of a dataset, row-major.
    ///
    /// # Errors
    /// [`crate::Error::Missing`], or [`crate::Error::Type`] if it holds numbers.
    pub fn read_strs(&self, name: &str) -> Result<Vec<String>> {
        let descriptor = self.descriptor(name)?;
        let dataset = self.dataset(name)?;
        match read_texts(&dataset, &descriptor) {
            Some(texts) => texts.map_err(|error| self.failed(format!("read dataset {name:?}"), &error)),
            None => Err(self.wrong_type(name, "strings", descriptor)),
        }
    }
}

/// A C string cannot hold a NUL: the text ends there.
pub(crate) fn varlen(text: &str) -> VarLenUnicode {
    let end = text.find('\0').unwrap_or(text.len());
    text[..end].parse().unwrap_or_default()
}

/// The strings of a dataset or attribute; `None` if it holds none that this crate reads.
pub(crate) fn read_texts(container: &Container, descriptor: &TypeDescriptor) -> Option<hdf5::Result<Vec<String>>> {
    fn strings<T: AsRef<str>>(values: Vec<T>) -> Vec<String> {
        values.iter().map(|value| value.as_ref().to_owned()).collect()
    }
    // The library converts lengths, but neither character sets nor fixed to variable length.
    match *descriptor {
        TypeDescriptor::VarLenUnicode => Some(container.read_raw::<VarLenUnicode>().map(strings)),
        TypeDescriptor::VarLenAscii => Some(container.read_raw::<VarLenAscii>().map(strings)),
        TypeDescriptor::FixedUnicode(n) if n <= FIXED_MAX => {
            Some(container.read_raw::<FixedUnicode<FIXED_MAX>>().map(strings))
        }
        TypeDescriptor::FixedAscii(n) if n <= FIXED_MAX => {
            Some(container.read_raw::<FixedAscii<FIXED_MAX>>().map(strings))
        }
        _ => None,
    }
}
