//! Attributes: small named values on a group or dataset.

use hdf5::types::{TypeDescriptor, VarLenUnicode};
use hdf5::{Attribute, Container, Location};

use crate::strings::{read_texts, varlen};
use crate::{File, Kind, Result};

/// The value of an attribute. Made by `into()` from f64, i64, &str, String and slices or vectors of them; taken apart by
/// [`File::attr`].
#[derive(Clone, Debug, PartialEq)]
pub enum Attr {
    /// One number.
    F64(f64),
    /// One integer.
    I64(i64),
    /// One string.
    Str(String),
    /// Numbers.
    F64s(Vec<f64>),
    /// Integers.
    I64s(Vec<i64>),
    /// Strings.
    Strs(Vec<String>),
}

impl Attr {
    fn kind(&self) -> &'static str {
        match self {
            Attr::F64(_) => "a number",
            Attr::I64(_) => "an integer",
            Attr::Str(_) => "a string",
            Attr::F64s(_) => "numbers",
            Attr::I64s(_) => "integers",
            Attr::Strs(_) => "strings",
        }
    }
}

macro_rules! attr_from {
    ($($type:ty => $make:expr),* $(,)?) => { $(impl From<$type> for Attr { fn from(value: $type) -> Self { $make(value) } })* };
}
attr_from! {
    f64 => Attr::F64,
    i64 => Attr::I64,
    String => Attr::Str,
    &str => |text: &str| Attr::Str(text.to_owned()),
    Vec<f64> => Attr::F64s,
    Vec<i64> => Attr::I64s,
    Vec<String> => Attr::Strs,
    &[f64] => |values: &[f64]| Attr::F64s(values.to_vec()),
    &[i64] => |values: &[i64]| Attr::I64s(values.to_vec()),
    &[String] => |values: &[String]| Attr::Strs(values.to_vec()),
}

/// Values that [`File::attr`] can return; the error is the attribute as it is. A one-element array is also a scalar
/// (what several writers store), and integers are also numbers.
macro_rules! attr_into {
    ($($type:ty, $($pattern:pat => $value:expr),+);* $(;)?) => { $(
        impl TryFrom<Attr> for $type {
            type Error = Attr;
            fn try_from(attr: Attr) -> std::result::Result<Self, Attr> {
                match attr { $($pattern => Ok($value),)+ other => Err(other) }
            }
        }
    )* };
}
attr_into! {
    f64, Attr::F64(v) => v, Attr::I64(v) => v as f64;
    i64, Attr::I64(v) => v;
    String, Attr::Str(v) => v;
    Vec<f64>, Attr::F64s(v) => v, Attr::F64(v) => vec![v], Attr::I64s(v) => v.into_iter().map(|i| i as f64).collect();
    Vec<i64>, Attr::I64s(v) => v, Attr::I64(v) => vec![v];
    Vec<String>, Attr::Strs(v) => v, Attr::Str(v) => vec![v];
}

impl File {
    /// Sets attribute `key` of the group or dataset `object` (`"/"` for the root), replacing an older value.
    pub fn set_attr(&self, object: &str, key: &str, value: impl Into<Attr>) -> Result<()> {
        let location = self.location(object)?;
        let value = value.into();
        let replaced = if self.has_key(&location, key) { location.delete_attr(key) } else { Ok(()) };
        replaced
            .and_then(|()| write_attr(&location, key, &value))
            .map_err(|error| self.failed(format!("write attribute {:?}", full_name(object, key)), &error))
    }

    /// Attribute `key` of `object` as f64, i64, String or a vector of them.
    ///
    /// # Errors
    /// [`crate::Error::Missing`] without the object or the attribute, [`crate::Error::Type`] if it holds something else.
    pub fn attr<T: TryFrom<Attr, Error = Attr>>(&self, object: &str, key: &str) -> Result<T> {
        let location = self.location(object)?;
        let name = full_name(object, key);
        let attribute = location.attr(key).map_err(|_| self.missing("attribute", &name))?;
        let value = self.read_attr(&attribute, &name)?;
        T::try_from(value).map_err(|attr| {
            let expected = std::any::type_name::<T>().replace("alloc::string::", "").replace("alloc::vec::", "");
            self.wrong_type(&name, expected, attr.kind())
        })
    }

    /// Names of the attributes of `object`.
    pub fn attrs(&self, object: &str) -> Result<Vec<String>> {
        let location = self.location(object)?;
        location.attr_names().map_err(|error| self.failed(format!("list the attributes of {object:?}"), &error))
    }

    fn has_key(&self, location: &Location, key: &str) -> bool {
        location.attr_names().is_ok_and(|names| names.iter().any(|name| name == key))
    }

    fn location(&self, object: &str) -> Result<Location> {
        let name = object.trim_matches('/');
        if self.kind(name)? == Kind::Dataset {
            let dataset = self.dataset(name)?;
            return Ok(Location::clone(&dataset));
        }
        let group = self.inner.group(if name.is_empty() { "/" } else { name });
        let group = group.map_err(|error| self.failed(format!("open {object:?}"), &error))?;
        Ok(Location::clone(&group))
    }

    fn read_attr(&self, attribute: &Attribute, name: &str) -> Result<Attr> {
        let unsupported = || self.wrong_type(name, "numbers or strings", "another type");
        let descriptor = attribute.dtype().and_then(|dtype| dtype.to_descriptor()).map_err(|_| unsupported())?;
        let failed = |error: hdf5::Error| self.failed(format!("read attribute {name:?}"), &error);
        let scalar = attribute.size() == 1;
        let container: &Container = attribute;
        match &descriptor {
            TypeDescriptor::Float(_) => {
                let values = container.read_raw::<f64>().map_err(failed)?;
                Ok(if scalar { Attr::F64(values[0]) } else { Attr::F64s(values) })
            }
            TypeDescriptor::Integer(_) | TypeDescriptor::Unsigned(_) => {
                let values = container.read_raw::<i64>().map_err(failed)?;
                Ok(if scalar { Attr::I64(values[0]) } else { Attr::I64s(values) })
            }
            other => {
                let mut texts = read_texts(container, other).ok_or_else(unsupported)?.map_err(failed)?;
                Ok(if scalar { Attr::Str(texts.swap_remove(0)) } else { Attr::Strs(texts) })
            }
        }
    }
}

fn full_name(object: &str, key: &str) -> String {
    format!("{}@{key}", if object.is_empty() { "/" } else { object })
}

fn write_attr(location: &Location, key: &str, value: &Attr) -> hdf5::Result<()> {
    match value {
        Attr::F64(v) => location.new_attr::<f64>().shape(()).create(key)?.write_scalar(v),
        Attr::I64(v) => location.new_attr::<i64>().shape(()).create(key)?.write_scalar(v),
        Attr::Str(v) => location.new_attr::<VarLenUnicode>().shape(()).create(key)?.write_scalar(&varlen(v)),
        Attr::F64s(v) => location.new_attr::<f64>().shape(v.len()).create(key)?.write_raw(v),
        Attr::I64s(v) => location.new_attr::<i64>().shape(v.len()).create(key)?.write_raw(v),
        Attr::Strs(v) => {
            let values: Vec<VarLenUnicode> = v.iter().map(|text| varlen(text)).collect();
            location.new_attr::<VarLenUnicode>().shape(v.len()).create(key)?.write_raw(&values)
        }
    }
}
