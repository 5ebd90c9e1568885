//! A layer, its input and its windows, read from and written as a line.

use crate::{Fields, LineError};
use shardmark_partition::{SPATIAL, Shape, Window};
use std::fmt;
use std::str::FromStr;

/// Kinds of layers, whatever the number of dimensions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Convolution.
    Conv,
    /// Transposed convolution.
    ConvTranspose,
    /// Fully connected layer.
    Dense,
    /// Average pooling.
    PoolAverage,
    /// Max pooling.
    PoolMax,
    /// Batch norm.
    BatchNorm,
    /// Leaky ReLU.
    LeakyRelu,
}

/// First words, with the kind and the dimensions that they fix (0: none, or any number).
const NAMES: [(&str, Kind, usize); 11] = [
    ("conv2d", Kind::Conv, 2),
    ("conv3d", Kind::Conv, 3),
    ("conv_transpose2d", Kind::ConvTranspose, 2),
    ("conv_transpose3d", Kind::ConvTranspose, 3),
    ("dense", Kind::Dense, 0),
    ("pool_avg2d", Kind::PoolAverage, 2),
    ("pool_avg3d", Kind::PoolAverage, 3),
    ("pool_max2d", Kind::PoolMax, 2),
    ("pool_max3d", Kind::PoolMax, 3),
    ("batch_norm", Kind::BatchNorm, 0),
    ("leaky_relu", Kind::LeakyRelu, 0),
];

impl Kind {
    /// The keys of its lines, in the order in which they are written; the last ones that have no value are flags.
    fn keys(self) -> &'static [&'static str] {
        match self {
            Kind::Conv | Kind::ConvTranspose => &["n", "c", "k", "in", "kernel", "stride", "pad", "first"],
            Kind::Dense => &["n", "c", "k", "first"],
            Kind::PoolAverage | Kind::PoolMax => &["n", "c", "in", "kernel", "stride", "pad"],
            Kind::BatchNorm | Kind::LeakyRelu => &["n", "c", "in"],
        }
    }

    fn has(self, key: &str) -> bool {
        self.keys().contains(&key)
    }
}

/// Elements of a tensor: its bytes, several times over, then fit into every integer that counts them.
pub const MOST_ELEMENTS: u128 = 1 << 46;

/// The elements of a tensor with these extents.
pub fn elements(extents: Shape) -> u128 {
    extents.iter().fold(1, |product: u128, &extent| product.saturating_mul(extent as u128))
}

/// The elements of a tensor with these extents, if they are more than [`MOST_ELEMENTS`].
pub fn too_many(extents: Shape) -> Option<u128> {
    Some(elements(extents)).filter(|&elements| elements > MOST_ELEMENTS)
}

/// A layer on a whole input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LayerLine {
    /// What it is.
    pub kind: Kind,
    /// Dimensions of the input: the last of D, H, W; 0 for a dense layer.
    pub dims: usize,
    /// Input `[N, D, H, W, C]`; extents of missing dimensions are 1.
    pub x: Shape,
    /// Output channels.
    pub k: usize,
    /// Windows along D, H, W; a transposed convolution's are those of its adjoint.
    pub windows: [Window; 3],
    /// Whether it reads the network's input, whose gradient nobody wants.
    pub first: bool,
}

impl LayerLine {
    /// The first words that lines may have, joined by commas.
    pub fn names() -> String {
        NAMES.map(|(name, ..)| name).join(", ")
    }

    /// Its own first word.
    pub fn name(&self) -> &'static str {
        let fits = |(_, kind, dims): &&(&str, Kind, usize)| *kind == self.kind && (*dims == 0 || *dims == self.dims);
        NAMES.iter().find(fits).map_or("", |(name, ..)| name)
    }

    /// The output `[N, D', H', W', K]`; an extent is 0 where no window fits.
    pub fn output(&self) -> Shape {
        let mut y = self.x;
        y[4] = self.k;
        for (window, dim) in self.windows.iter().zip(SPATIAL) {
            let extent = &mut y[dim as usize];
            *extent = if self.kind == Kind::ConvTranspose {
                (extent.saturating_sub(1) * window.stride + window.kernel).saturating_sub(window.pad + window.pad_after)
            } else {
                window.out_extent(*extent).unwrap_or(0)
            };
        }
        y
    }

    fn weights(&self) -> Shape {
        let [d, h, w] = self.windows.map(|window| window.kernel);
        [self.x[4], self.k, d, h, w]
    }

    /// The key that makes a tensor of the layer too large: the last one whose least value alone would mend it, else the
    /// one that would leave the fewest elements. The input's extents multiply with all others and come last.
    fn blamed(&self, tensor: fn(&LayerLine) -> Shape) -> &'static str {
        let left = |key: &&&str| (elements(tensor(&self.with_least(key))).max(MOST_ELEMENTS), **key == "in");
        self.kind.keys().iter().rev().min_by_key(left).copied().unwrap_or_default()
    }

    /// The layer with the least value of a key.
    fn with_least(mut self, key: &str) -> LayerLine {
        match key {
            "n" => self.x[0] = 1,
            "c" => self.x[4] = 1,
            "k" => self.k = 1,
            "in" => self.x[1..4].fill(1),
            "kernel" => self.windows.iter_mut().for_each(|window| window.kernel = 1),
            "stride" => self.windows.iter_mut().for_each(|window| window.stride = 1),
            "pad" => self.windows.iter_mut().for_each(|window| [window.pad, window.pad_after] = [0, 0]),
            _ => {}
        }
        // Without a key of their own, the output's channels are the input's.
        self.k = if self.kind.has("k") { self.k } else { self.x[4] };
        self
    }
}

impl FromStr for LayerLine {
    type Err = LineError;

    fn from_str(line: &str) -> Result<Self, LineError> {
        let line = line.trim();
        let got = line.split_whitespace().next().unwrap_or("nothing");
        let Some(&(_, kind, dims)) = NAMES.iter().find(|(name, ..)| *name == got) else {
            return Err(LineError::Layer { line: line.into(), expected: Self::names(), got: got.into() });
        };
        let fields = Fields::split(line, kind.keys())?;
        let c = fields.count("c")?;
        let k = if kind.has("k") { fields.count("k")? } else { c };
        let windows = if kind.has("kernel") { windows(&fields, dims)? } else { [Window::POINT; 3] };
        let (dims, extents) = if kind.has("in") { input(&fields, dims)? } else { (0, [1; 3]) };
        let first = kind.has("first") && fields.flag("first")?;
        let [d, h, w] = extents;
        let layer = LayerLine { kind, dims, x: [fields.count("n")?, d, h, w, c], k, windows, first };
        if kind == Kind::ConvTranspose && layer.output().contains(&0) {
            return Err(fields.error("pad", "a padding that leaves an output", fields.text("pad")));
        }
        // A window that lies in the padding has no maximum.
        if kind == Kind::PoolMax && windows.iter().any(|w| w.pad.max(w.pad_after) >= w.kernel) {
            return Err(fields.error("pad", "a max pool padded by less than its kernel", fields.text("pad")));
        }
        for tensor in [|layer: &LayerLine| layer.x, LayerLine::output, LayerLine::weights] {
            if let Some(elements) = too_many(tensor(&layer)) {
                let (key, got) = (layer.blamed(tensor), elements.to_string());
                return Err(fields.error(key, "tensors of at most 2^46 elements", &got));
            }
        }
        Ok(layer)
    }
}

/// The number of dimensions (`dims`, or any up to 3 if that is 0), and the extents D, H, W.
fn input(fields: &Fields, dims: usize) -> Result<(usize, [usize; 3]), LineError> {
    let texts = fields.list("in");
    if texts.len() > 3 || (dims != 0 && dims != texts.len()) {
        return Err(per_dim_error(fields, "in"));
    }
    let mut extents = [1; 3];
    for (extent, text) in extents[3 - texts.len()..].iter_mut().zip(&texts) {
        *extent = fields.number("in", text, 1)?;
    }
    Ok((texts.len(), extents))
}

/// Windows whose sizes are written once for all dimensions or once for each.
fn windows(fields: &Fields, dims: usize) -> Result<[Window; 3], LineError> {
    let per_dim = |key| {
        let parts = fields.list(key);
        match parts.len() {
            1 => Ok(vec![parts[0]; dims]),
            n if n == dims => Ok(parts),
            _ => Err(per_dim_error(fields, key)),
        }
    };
    let (kernel, stride, pad) = (per_dim("kernel")?, per_dim("stride")?, per_dim("pad")?);
    let mut windows = [Window::POINT; 3];
    for (i, window) in windows[3 - dims..].iter_mut().enumerate() {
        let (before, after) = pad[i].split_once(':').unwrap_or((pad[i], pad[i]));
        *window = Window {
            kernel: fields.number("kernel", kernel[i], 1)?,
            stride: fields.number("stride", stride[i], 1)?,
            pad: fields.number("pad", before, 0)?,
            pad_after: fields.number("pad", after, 0)?,
        };
    }
    Ok(windows)
}

fn per_dim_error(fields: &Fields, key: &str) -> LineError {
    fields.error(key, "one value for each dimension, joined by x", fields.text(key))
}

/// The line with each size written once where all dimensions share it.
impl fmt::Display for LayerLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())?;
        let first_dim = 3 - self.dims;
        let per_dim = |text: &dyn Fn(&Window) -> String| {
            let texts: Vec<String> = self.windows[first_dim..].iter().map(text).collect();
            if texts.windows(2).all(|pair| pair[0] == pair[1]) { texts[0].clone() } else { texts.join("x") }
        };
        let pad = |w: &Window| {
            if w.pad == w.pad_after { w.pad.to_string() } else { format!("{}:{}", w.pad, w.pad_after) }
        };
        for key in self.kind.keys() {
            let value = match *key {
                "n" => self.x[0].to_string(),
                "c" => self.x[4].to_string(),
                "k" => self.k.to_string(),
                "in" => self.x[1 + first_dim..4].iter().map(usize::to_string).collect::<Vec<_>>().join("x"),
                "kernel" => per_dim(&|w| w.kernel.to_string()),
                "stride" => per_dim(&|w| w.stride.to_string()),
                "pad" => per_dim(&pad),
                _ if self.first => {
                    write!(f, " {key}")?;
                    continue;
                }
                _ => continue,
            };
            write!(f, " {key}={value}")?;
        }
        Ok(())
    }
}
