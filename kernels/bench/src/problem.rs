//! One convolution as a line of text.

use shardmark_layers::conv::Conv;
use shardmark_layers::{Op, SpecError};
use shardmark_partition::{Shape, Window};
use std::fmt;
use std::str::FromStr;

/// A convolution and the shape of its input.
#[derive(Clone, Debug, PartialEq)]
pub struct Problem {
    /// The layer.
    pub conv: Conv,
    /// Input `[N, D, H, W, C]`.
    pub x: Shape,
    /// Output `[N, D', H', W', K]`.
    pub y: Shape,
    line: String,
}

/// Why a line is not a problem.
#[derive(Debug, PartialEq, thiserror::Error)]
pub enum ProblemError {
    /// The first word names no layer.
    #[error("layer of `{line}`: expected conv2d or conv3d, got {got}; correct the first word")]
    Layer {
        /// The line.
        line: String,
        /// Its first word.
        got: String,
    },
    /// A key is missing, unknown, repeated or has a value that does not parse.
    #[error("{key} of `{line}`: expected {expected}, got {got}; correct the line")]
    Value {
        /// The line.
        line: String,
        /// The key.
        key: String,
        /// What it takes.
        expected: &'static str,
        /// What was found.
        got: String,
    },
    /// The layer does not fit its input.
    #[error(transparent)]
    Spec(#[from] SpecError),
}

impl Problem {
    /// Floating-point operations of one pass (a multiply-add is two); padded taps count.
    pub fn flops(&self) -> u64 {
        Op::Conv(self.conv.clone()).forward_flops(self.y.iter().map(|&e| e as u64).product())
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.line)
    }
}

const KEYS: [&str; 7] = ["n", "c", "k", "in", "kernel", "stride", "pad"];

/// The values of a line by key, with errors that name both.
struct Fields<'a> {
    line: &'a str,
    values: [Option<&'a str>; KEYS.len()],
}

impl<'a> Fields<'a> {
    fn split(line: &'a str) -> Result<Self, ProblemError> {
        let mut fields = Fields { line, values: [None; KEYS.len()] };
        for word in line.split_whitespace().skip(1) {
            let (key, value) = word.split_once('=').unwrap_or((word, ""));
            let slot = KEYS.iter().position(|&k| k == key).filter(|&i| fields.values[i].is_none());
            let Some(slot) = slot else {
                return Err(fields.error(key, "each of n c k in kernel stride pad once", word));
            };
            fields.values[slot] = Some(value);
        }
        Ok(fields)
    }

    fn error(&self, key: &str, expected: &'static str, got: &str) -> ProblemError {
        ProblemError::Value { line: self.line.into(), key: key.into(), expected, got: got.into() }
    }

    fn value(&self, key: &str) -> &'a str {
        KEYS.iter().position(|&k| k == key).and_then(|i| self.values[i]).unwrap_or("nothing")
    }

    fn number(&self, key: &str, text: &str, least: usize) -> Result<usize, ProblemError> {
        let number = text.parse().ok().filter(|&n: &usize| n >= least);
        let expected = if least == 0 { "a number" } else { "a number of at least 1" };
        number.ok_or_else(|| self.error(key, expected, text))
    }

    /// A value per dimension, written once or joined by `x`.
    fn per_dim(&self, key: &str, dims: usize) -> Result<Vec<&'a str>, ProblemError> {
        let value = self.value(key);
        let parts: Vec<&str> = value.split('x').collect();
        match parts.len() {
            1 if key != "in" => Ok(vec![parts[0]; dims]),
            n if n == dims => Ok(parts),
            _ => Err(self.error(key, "one value for each dimension, joined by x", value)),
        }
    }

    fn windows(&self, dims: usize) -> Result<[Window; 3], ProblemError> {
        let [kernel, stride, pad] = ["kernel", "stride", "pad"].map(|key| self.per_dim(key, dims));
        let (kernel, stride, pad) = (kernel?, stride?, pad?);
        let mut windows = [Window::POINT; 3];
        for (i, window) in windows[3 - dims..].iter_mut().enumerate() {
            let (before, after) = pad[i].split_once(':').unwrap_or((pad[i], pad[i]));
            *window = Window {
                kernel: self.number("kernel", kernel[i], 1)?,
                stride: self.number("stride", stride[i], 1)?,
                pad: self.number("pad", before, 0)?,
                pad_after: self.number("pad", after, 0)?,
            };
        }
        Ok(windows)
    }
}

impl FromStr for Problem {
    type Err = ProblemError;

    fn from_str(line: &str) -> Result<Self, ProblemError> {
        let line = line.trim();
        let dims = match line.split_whitespace().next() {
            Some("conv2d") => 2,
            Some("conv3d") => 3,
            other => return Err(ProblemError::Layer { line: line.into(), got: other.unwrap_or("nothing").into() }),
        };
        let fields = Fields::split(line)?;
        let number = |key: &str| fields.number(key, fields.value(key), 1);
        let conv = Conv { c: number("c")?, k: number("k")?, windows: fields.windows(dims)?, bias: false };
        let mut x = [number("n")?, 1, 1, 1, conv.c];
        for (extent, text) in x[4 - dims..4].iter_mut().zip(fields.per_dim("in", dims)?) {
            *extent = fields.number("in", text, 1)?;
        }
        let y = Op::Conv(conv.clone()).out_shape(x)?;
        Ok(Problem { conv, x, y, line: line.to_string() })
    }
}
