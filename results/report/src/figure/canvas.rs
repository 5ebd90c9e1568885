//! Lines, shapes and text in points (1/72 inch) on any plotters backend.

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::font;
use super::panel::{Marker, Pattern};
use crate::{Error, Result};

/// Height of a capital and of an x, in ems, as in most sans-serif fonts.
const CAPITAL: f64 = 0.73;
const X_HEIGHT: f64 = 0.54;

/// plotters counts a font's size as 1.24 em.
const PLOTTERS_SIZE_PER_EM: f64 = 1.24;

/// How a backend shows text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextMode {
    /// As text, so that it can be searched and edited: SVG.
    Text,
    /// As pixels of our own font: plotters places glyphs of bitmaps without their side bearings.
    Pixels,
}

/// A drawing area and its scale.
pub struct Canvas<'a, DB: DrawingBackend> {
    area: &'a DrawingArea<DB, Shift>,
    pixels_per_point: f64,
    mode: TextMode,
}

impl<'a, DB: DrawingBackend> Canvas<'a, DB> {
    /// Draws on `area`, `pixels_per_point` pixels to 1/72 inch.
    pub fn new(area: &'a DrawingArea<DB, Shift>, pixels_per_point: f64, mode: TextMode) -> Self {
        Canvas { area, pixels_per_point, mode }
    }

    /// A line through `points`.
    pub fn line(&self, points: &[(f64, f64)], colour: RGBColor, width: f64, dash: Pattern) -> Result<()> {
        for piece in dash_pieces(points, dash, width) {
            let pixels: Vec<(i32, i32)> = piece.iter().map(|&point| self.pixel(point)).collect();
            let style = ShapeStyle::from(&colour).stroke_width(self.length(width));
            self.draw(&PathElement::new(pixels, style))?;
        }
        Ok(())
    }

    /// A filled rectangle.
    pub fn rectangle(&self, corner: (f64, f64), opposite: (f64, f64), colour: RGBColor) -> Result<()> {
        let (a, b) = (self.pixel(corner), self.pixel(opposite));
        self.draw(&Rectangle::new([a, b], colour.filled()))
    }

    /// A marker of about `size` across.
    pub fn marker(&self, at: (f64, f64), marker: Marker, size: f64, colour: RGBColor, hollow: bool) -> Result<()> {
        self.shape(at, marker, size, colour)?;
        if hollow { self.shape(at, marker, size * 0.58, WHITE) } else { Ok(()) }
    }

    fn shape(&self, (x, y): (f64, f64), marker: Marker, size: f64, colour: RGBColor) -> Result<()> {
        // Corner count, angle of the first corner from the top, radius that gives about equal areas.
        let (corners, start, radius) = match marker {
            Marker::Circle => {
                let radius = (size * 0.5 * self.pixels_per_point).round() as i32;
                return self.draw(&Circle::new(self.pixel((x, y)), radius, colour.filled()));
            }
            Marker::Square => (4, 0.125, 0.64),
            Marker::Triangle => (3, 0.0, 0.70),
            Marker::Diamond => (4, 0.0, 0.66),
            Marker::Down => (3, 0.5, 0.70),
            Marker::Pentagon => (5, 0.0, 0.60),
        };
        let corner = |index: usize| {
            let angle = (start + index as f64 / corners as f64) * std::f64::consts::TAU;
            self.pixel((x + size * radius * angle.sin(), y - size * radius * angle.cos()))
        };
        self.draw(&Polygon::new((0..corners).map(corner).collect::<Vec<_>>(), colour.filled()))
    }

    /// A line of text of `size` points. Its capitals are centred on the height of `at`; horizontally it starts, is centred
    /// or ends there.
    pub fn text(&self, text: &str, at: (f64, f64), size: f64, anchor: HPos) -> Result<()> {
        self.text_turned(text, at, size, anchor, false)
    }

    /// Text that reads upwards, centred at `at` both ways.
    pub fn text_upwards(&self, text: &str, at: (f64, f64), size: f64) -> Result<()> {
        self.text_turned(text, at, size, HPos::Center, true)
    }

    fn text_turned(&self, text: &str, at: (f64, f64), size: f64, anchor: HPos, upwards: bool) -> Result<()> {
        // The baseline is half a capital below the centre.
        let baseline = CAPITAL / 2.0 * size;
        match self.mode {
            TextMode::Text => {
                // plotters puts the baseline half an x-height below the position.
                let drop = baseline - X_HEIGHT / 2.0 * size;
                let at = if upwards { (at.0 + drop, at.1) } else { (at.0, at.1 + drop) };
                let size = size * self.pixels_per_point * PLOTTERS_SIZE_PER_EM;
                let font = FontDesc::new(FontFamily::Name(font::FAMILY), size, FontStyle::Normal);
                let font = if upwards { font.transform(FontTransform::Rotate270) } else { font };
                let style = font.color(&BLACK).pos(Pos::new(anchor, VPos::Center));
                self.draw(&Text::new(text.to_owned(), self.pixel(at), style))
            }
            TextMode::Pixels => {
                let width = font::width(text, size);
                let start = match anchor {
                    HPos::Left => 0.0,
                    HPos::Center => -width / 2.0,
                    HPos::Right => -width,
                };
                let (origin, scale) = (self.pixel(at), self.pixels_per_point);
                let origin_in_text = ((start * scale) as f32, (baseline * scale) as f32);
                for (x, y, coverage) in font::pixels(text, size * scale, origin_in_text) {
                    let (x, y) = if upwards { (y, -x) } else { (x, y) };
                    let colour = BLACK.mix(f64::from(coverage));
                    self.draw(&Pixel::new((origin.0 + x, origin.1 + y), colour))?;
                }
                Ok(())
            }
        }
    }

    fn draw<'e, E>(&self, element: &'e E) -> Result<()>
    where
        &'e E: plotters::element::PointCollection<'e, (i32, i32)>,
        E: plotters::element::Drawable<DB>,
    {
        self.area.draw(element).map_err(failed)
    }

    fn pixel(&self, (x, y): (f64, f64)) -> (i32, i32) {
        ((x * self.pixels_per_point).round() as i32, (y * self.pixels_per_point).round() as i32)
    }

    fn length(&self, points: f64) -> u32 {
        (points * self.pixels_per_point).round().max(1.0) as u32
    }
}

fn failed<E: std::error::Error + Send + Sync>(error: DrawingAreaErrorKind<E>) -> Error {
    Error::Internal { step: "drawing", got: error.to_string().replace('\n', " ") }
}

/// Cuts a line into the pieces that a pattern leaves. Lengths are multiples of the line's width.
fn dash_pieces(points: &[(f64, f64)], dash: Pattern, width: f64) -> Vec<Vec<(f64, f64)>> {
    let pattern: &[f64] = match dash {
        Pattern::Solid => return vec![points.to_vec()],
        Pattern::Dashed => &[4.0, 2.5],
        Pattern::DashDot => &[4.0, 2.0, 1.0, 2.0],
        Pattern::Dotted => &[1.0, 2.5],
    };
    let mut pieces = Vec::new();
    let mut piece: Vec<(f64, f64)> = points.first().map(|&point| vec![point]).unwrap_or_default();
    let (mut index, mut left) = (0, pattern[0] * width);
    for pair in points.windows(2) {
        let (mut from, to) = (pair[0], pair[1]);
        loop {
            let length = (to.0 - from.0).hypot(to.1 - from.1);
            if length <= left {
                left -= length;
                piece.push(to);
                break;
            }
            let share = left / length;
            from = (from.0 + share * (to.0 - from.0), from.1 + share * (to.1 - from.1));
            piece.push(from);
            if index % 2 == 0 {
                pieces.push(std::mem::take(&mut piece));
            }
            piece = vec![from];
            index = (index + 1) % pattern.len();
            left = pattern[index] * width;
        }
    }
    if index % 2 == 0 && piece.len() > 1 {
        pieces.push(piece);
    }
    pieces
}
