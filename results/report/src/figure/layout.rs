//! Where everything goes on the page, in points. Needs the widths of texts but no backend.

use super::font;
use super::legend::{self, Legend};
use super::panel::Panel;

/// Width of a column of panels: one column of a paper, 3.5 inches.
pub const WIDTH: f64 = 252.0;
/// Font size of axis titles.
pub const TITLE: f64 = 8.0;
/// Font size of tick labels and legends.
pub const LABEL: f64 = 7.0;
/// Length of a tick.
pub const TICK: f64 = 3.0;
/// Space between a text and what it belongs to.
pub const GAP: f64 = 2.5;

/// Height of the axes of a panel, alone or stacked.
const AXES: [f64; 2] = [150.0, 112.0];
const ABOVE: f64 = 5.0;
/// Height of the tick labels of an x axis.
pub const X_LABELS: f64 = GAP + LABEL;
/// Tick labels, the title of the x axis, and the space around them.
const BELOW: f64 = X_LABELS + GAP + TITLE + 2.0 * GAP;

/// A box on the page.
#[derive(Clone, Copy, Debug)]
pub struct Area {
    /// Left edge.
    pub left: f64,
    /// Upper edge.
    pub top: f64,
    /// Right edge.
    pub right: f64,
    /// Lower edge.
    pub bottom: f64,
}

/// A panel, the box inside its axes, and its legend.
pub struct Place<'a> {
    /// The panel.
    pub panel: &'a Panel,
    /// Left edge of its column.
    pub column: f64,
    /// The box inside its axes.
    pub area: Area,
    /// Whether the x axis has labels and a title: not where the panel below repeats them.
    pub x_labels: bool,
    /// Its legend, if it needs one.
    pub legend: Option<Legend>,
}

/// All panels of a figure.
pub struct Layout<'a> {
    /// Width of the page.
    pub width: f64,
    /// Height of the page.
    pub height: f64,
    /// The panels from top to bottom.
    pub places: Vec<Place<'a>>,
}

/// Stacks the rows of panels; their left and right edges agree.
pub fn layout(panels: &[Panel]) -> Layout<'_> {
    let y_labels = panels.iter().flat_map(|panel| &panel.y.ticks).map(|tick| font::width(&tick.label, LABEL));
    let left = GAP + TITLE + 2.0 * GAP + y_labels.fold(0.0, f64::max) + GAP;
    // The last label of an x axis is centred on its tick and may stick out.
    let stick_out =
        panels.iter().flat_map(|panel| panel.x.ticks.iter().map(move |tick| (panel, tick))).map(|(panel, tick)| {
            font::width(&tick.label, LABEL) / 2.0 - (1.0 - panel.x.fraction(tick.at)) * (WIDTH - left)
        });
    let right = WIDTH - stick_out.fold(3.0, f64::max) - 1.0;

    let axes = AXES[usize::from(panels.len() > 1)];
    let mut top = 0.0;
    let mut places = Vec::new();
    // A row is a panel and the one to its right, if there is one.
    let rows: Vec<&[Panel]> = panels.chunk_by(|_, next| next.right).collect();
    for (index, row) in rows.iter().enumerate() {
        if row.iter().any(|panel| panel.title.is_some()) {
            top += TITLE + GAP;
        }
        let x_labels = rows.get(index + 1).is_none_or(|next| next[0].x != row[0].x);
        let mut lower = 0.0f64;
        let first = places.len();
        for (column, panel) in row.iter().enumerate() {
            let column = column as f64 * WIDTH;
            let area =
                Area { left: column + left, top: top + ABOVE, right: column + right, bottom: top + ABOVE + axes };
            let mut place = Place { panel, column, area, x_labels, legend: None };
            place.legend = legend::find(&place);
            lower = place.legend.filter(|legend| !legend.boxed).map_or(lower, |legend| lower.max(legend.size.1));
            places.push(place);
        }
        for place in &mut places[first..] {
            place.area.top += lower;
            place.area.bottom += lower;
            if let Some(legend) = place.legend.as_mut().filter(|legend| legend.boxed) {
                legend.corner.1 += lower;
            }
        }
        top += ABOVE + axes + lower + if x_labels { BELOW } else { 2.0 * GAP };
    }
    let columns = rows.iter().map(|row| row.len()).max().unwrap_or(1);
    Layout { width: WIDTH * columns as f64, height: top, places }
}

impl Place<'_> {
    /// Position of a value of the x axis.
    pub fn x(&self, value: f64) -> f64 {
        self.area.left + self.panel.x.fraction(value) * (self.area.right - self.area.left)
    }

    /// Position of a value of the y axis.
    pub fn y(&self, value: f64) -> f64 {
        self.area.bottom - self.panel.y.fraction(value) * (self.area.bottom - self.area.top)
    }

    /// Position of a point.
    pub fn at(&self, (x, y): (f64, f64)) -> (f64, f64) {
        (self.x(x), self.y(y))
    }

    /// A line on the page as far as it is inside the axes; straight between its points on the page.
    pub fn clipped(&self, points: &[(f64, f64)]) -> Vec<(f64, f64)> {
        let mut inside = Vec::new();
        for pair in points.windows(2) {
            inside.extend(clip(self.area, self.at(pair[0]), self.at(pair[1])).into_iter().flatten());
        }
        inside
    }

    /// Points that cover everything drawn inside the axes.
    pub fn ink(&self) -> Vec<(f64, f64)> {
        let mut lines: Vec<Vec<(f64, f64)>> = Vec::new();
        for curve in &self.panel.curves {
            lines.push(curve.points.iter().map(|point| self.at((point.x, point.y))).collect());
            for point in curve.points.iter().chain(&curve.stray) {
                let (low, high) = point.bar.unwrap_or((point.y, point.y));
                lines.push([low, point.y, high].map(|y| self.at((point.x, y))).to_vec());
            }
        }
        lines.extend(self.panel.references.iter().map(|reference| self.clipped(&reference.points)));
        let mut ink = Vec::new();
        for pair in lines.iter().flat_map(|line| line.windows(2)) {
            let length = (pair[1].0 - pair[0].0).hypot(pair[1].1 - pair[0].1);
            let count = (length / 2.0).ceil().max(1.0);
            ink.extend((0..=count as usize).map(|i| {
                let share = i as f64 / count;
                (pair[0].0 + share * (pair[1].0 - pair[0].0), pair[0].1 + share * (pair[1].1 - pair[0].1))
            }));
        }
        ink
    }
}

/// The part of a straight line inside a box (Liang and Barsky).
fn clip(area: Area, a: (f64, f64), b: (f64, f64)) -> Option<[(f64, f64); 2]> {
    let (mut from, mut to) = (0.0f64, 1.0f64);
    for (start, delta, low, high) in [(a.0, b.0 - a.0, area.left, area.right), (a.1, b.1 - a.1, area.top, area.bottom)]
    {
        if delta.abs() < 1e-12 {
            if start < low - 1e-9 || start > high + 1e-9 {
                return None;
            }
        } else {
            let (p, q) = ((low - start) / delta, (high - start) / delta);
            from = from.max(p.min(q));
            to = to.min(p.max(q));
        }
    }
    let point = |share: f64| (a.0 + share * (b.0 - a.0), a.1 + share * (b.1 - a.1));
    (from < to).then(|| [point(from), point(to)])
}
