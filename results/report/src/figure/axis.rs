//! Axes: range, ticks and labels, without any drawing.

/// How values map to lengths.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Scale {
    Linear,
    Log,
}

/// A tick with its label.
#[derive(Clone, Debug, PartialEq)]
pub struct Tick {
    /// The value.
    pub at: f64,
    /// Its label.
    pub label: String,
    /// Where labels would overlap, those of the higher ones stay.
    pub priority: u8,
}

/// One axis of a panel.
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    /// What it shows, with the unit in brackets.
    pub title: String,
    /// Labelled ticks.
    pub ticks: Vec<Tick>,
    /// Ticks without a label.
    pub minor: Vec<f64>,
    scale: Scale,
    low: f64,
    high: f64,
}

impl Axis {
    /// Ranks on a logarithmic axis with a tick at every count that occurs; powers of two keep their labels first.
    pub fn ranks(title: impl Into<String>, counts: &[usize]) -> Axis {
        let mut counts = counts.to_vec();
        counts.sort_unstable();
        counts.dedup();
        let (low, high) = (counts.first().copied().unwrap_or(1), counts.last().copied().unwrap_or(1));
        // A little room beside the outermost markers; more if all points are at one count.
        let room = if low == high { 2.0 } else { (high as f64 / low as f64).powf(0.06) };
        let tick = |&count: &usize| {
            let priority = if count == low || count == high { 2 } else { u8::from(count.is_power_of_two()) };
            Tick { at: count as f64, label: count.to_string(), priority }
        };
        Axis {
            title: title.into(),
            ticks: counts.iter().map(tick).collect(),
            minor: Vec::new(),
            scale: Scale::Log,
            low: low as f64 / room,
            high: high as f64 * room,
        }
    }

    /// Integers from `low` to `high`, such as steps or epochs.
    pub fn counts(title: impl Into<String>, low: f64, high: f64) -> Axis {
        let high = high.max(low + 1.0);
        let step = nice_step((high - low) / 5.0).max(1.0).round();
        let room = (high - low) * 0.03;
        let first = (low / step).ceil() as i64;
        let last = (high / step).floor() as i64;
        let ticks = (first..=last).map(|i| linear_tick(i as f64 * step, step)).collect();
        let minor = Vec::new();
        Axis { title: title.into(), ticks, minor, scale: Scale::Linear, low: low - room, high: high + room }
    }

    /// A linear axis that holds `low` to `high` with a little room, except below 0.
    pub fn linear(title: impl Into<String>, low: f64, high: f64) -> Axis {
        let span = if high > low { high - low } else { high.abs().max(1.0) };
        let room = 0.06 * span;
        let (low, high) = (if low == 0.0 { 0.0 } else { low - room }, low + span + room);
        let inside = |step: f64| ((low / step).ceil() as i64, (high / step).floor() as i64);
        // The largest round step with at least four ticks.
        let mut step = nice_step(span);
        while inside(step).1 - inside(step).0 < 3 {
            step = nice_step(step * 0.49);
        }
        let (first, last) = inside(step);
        let ticks = (first..=last).map(|i| linear_tick(i as f64 * step, step)).collect();
        Axis { title: title.into(), ticks, minor: Vec::new(), scale: Scale::Linear, low, high }
    }

    /// A logarithmic axis that holds `low` to `high` (both positive): ticks at powers of two where there are enough of
    /// them and `octaves` asks for it, else at 1, 2, 5 or 1 in each decade.
    pub fn log(title: impl Into<String>, low: f64, high: f64, octaves: bool) -> Axis {
        let room = (high / low).powf(0.05).max(1.08);
        let (low, high) = (low / room, high * room);
        let inside = |value: &f64| *value >= low && *value <= high;
        let decades = low.log10().floor() as i32..=high.log10().ceil() as i32;
        let of_decades = |steps: &[f64]| -> Vec<f64> {
            let all = decades.clone().flat_map(|k| steps.iter().map(move |s| s * 10f64.powi(k)));
            all.filter(inside).collect()
        };
        let powers: Vec<f64> = (low.log2().ceil() as i32..=high.log2().floor() as i32).map(|k| 2f64.powi(k)).collect();
        let candidates = if octaves && powers.len() >= 3 {
            [powers, vec![]]
        } else {
            [of_decades(&[1.0]), of_decades(&[1.0, 2.0, 5.0])]
        };
        let all: Vec<f64> = of_decades(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0]);
        let fine = of_decades(&[1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0]);
        let chosen = candidates.into_iter().find(|ticks| ticks.len() >= 3).unwrap_or(fine);
        let minor = if octaves && chosen.iter().all(|v| v.log2().fract() == 0.0) { Vec::new() } else { all };
        let tick = |&at: &f64| Tick { at, label: plain(at), priority: u8::from(at.log10().fract() == 0.0) };
        Axis { title: title.into(), ticks: chosen.iter().map(tick).collect(), minor, scale: Scale::Log, low, high }
    }

    /// Position of a value along the axis: 0 at its start, 1 at its end; outside of that beyond the ends.
    pub fn fraction(&self, value: f64) -> f64 {
        match self.scale {
            Scale::Linear => (value - self.low) / (self.high - self.low),
            Scale::Log => (value / self.low).ln() / (self.high / self.low).ln(),
        }
    }

    /// The value at a position along the axis.
    pub fn value(&self, fraction: f64) -> f64 {
        match self.scale {
            Scale::Linear => self.low + fraction * (self.high - self.low),
            Scale::Log => self.low * (self.high / self.low).powf(fraction),
        }
    }
}

/// The step of 1, 2, 2.5 or 5 times a power of ten next above `raw`.
fn nice_step(raw: f64) -> f64 {
    let power = 10f64.powf(raw.log10().floor());
    let step = [1.0, 2.0, 2.5, 5.0, 10.0].into_iter().find(|step| step * power >= raw * (1.0 - 1e-9));
    step.unwrap_or(10.0) * power
}

fn linear_tick(at: f64, step: f64) -> Tick {
    let whole = |decimals: &usize| (step * 10f64.powi(*decimals as i32)).fract().abs() < 1e-6;
    let decimals = (0..9).find(whole).unwrap_or(9);
    // -0.0 would print a sign.
    Tick { at, label: format!("{:.decimals$}", at + 0.0), priority: 0 }
}

/// Up to three significant digits without an exponent where that is short: 0.002, 1.5, 20000.
fn plain(value: f64) -> String {
    let decimals = (2 - value.abs().log10().floor() as i32).clamp(0, 9) as usize;
    let text = format!("{value:.decimals$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}
