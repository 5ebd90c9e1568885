//! What a figure holds, as plain numbers.

use plotters::style::RGBColor;

use super::axis::Axis;

/// One pair of axes with its curves. Panels of a figure are stacked, in one column or two, and share the positions of their
/// edges.
#[derive(Clone, Debug)]
pub struct Panel {
    /// What stands above it.
    pub title: Option<String>,
    /// Whether it stands to the right of the panel before.
    pub right: bool,
    /// Horizontal axis.
    pub x: Axis,
    /// Vertical axis.
    pub y: Axis,
    /// Thin dotted lines behind the curves, such as the ideal; drawn as far as they are inside the axes.
    pub references: Vec<Reference>,
    /// Curves, the last one on top.
    pub curves: Vec<Curve>,
    /// What a hollow marker means here, for the legend.
    pub hollow: Option<String>,
}

/// A line to compare with.
#[derive(Clone, Debug)]
pub struct Reference {
    /// Name in the legend; none for a second line of the same meaning.
    pub label: Option<String>,
    /// Its corners.
    pub points: Vec<(f64, f64)>,
}

/// A line with markers.
#[derive(Clone, Debug)]
pub struct Curve {
    /// Name in the legend; none for a second curve of the same name.
    pub label: Option<String>,
    /// How it looks.
    pub style: Style,
    /// Points that the line connects, by x.
    pub points: Vec<Point>,
    /// Points beside the line.
    pub stray: Vec<Point>,
}

/// A measured point.
#[derive(Clone, Copy, Debug)]
pub struct Point {
    /// Horizontal value.
    pub x: f64,
    /// Vertical value.
    pub y: f64,
    /// Ends of the error bar.
    pub bar: Option<(f64, f64)>,
    /// Drawn with a white middle: a point with a mark.
    pub hollow: bool,
}

/// Looks of a curve.
#[derive(Clone, Copy, Debug)]
pub struct Style {
    /// Colour of line and markers.
    pub colour: RGBColor,
    /// Shape of the markers; none for a bare line.
    pub marker: Option<Marker>,
    /// Pattern of the line.
    pub dash: Pattern,
}

/// Shapes that differ also in black and white.
#[derive(Clone, Copy, Debug)]
pub enum Marker {
    /// ●
    Circle,
    /// ■
    Square,
    /// ▲
    Triangle,
    /// ◆
    Diamond,
    /// ▼
    Down,
    /// ⬟
    Pentagon,
}

/// Line patterns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// Measured.
    Solid,
    /// Predicted.
    Dashed,
    /// Simulated.
    DashDot,
    /// A reference.
    Dotted,
}

/// Okabe and Ito's colours, told apart with any kind of colour vision; the light yellow is left out.
const COLOURS: [RGBColor; 6] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(86, 180, 233),
    RGBColor(230, 159, 0),
];

const MARKERS: [Marker; 6] =
    [Marker::Circle, Marker::Square, Marker::Triangle, Marker::Diamond, Marker::Down, Marker::Pentagon];

impl Style {
    /// The style of the `index`-th problem of a figure.
    pub fn nth(index: usize) -> Style {
        Style::mixed(index, index)
    }

    /// Colour and marker chosen apart.
    pub fn mixed(colour: usize, marker: usize) -> Style {
        Style { colour: COLOURS[colour % 6], marker: Some(MARKERS[marker % 6]), dash: Pattern::Solid }
    }
}
