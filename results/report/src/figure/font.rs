//! The font: DejaVu Sans, compiled in, so that figures look the same on machines without any font.

use std::sync::LazyLock;

use ab_glyph::{Font, FontRef, PxScale, ScaleFont, point};

/// What an SVG viewer looks for.
pub const FAMILY: &str = "DejaVu Sans, Helvetica, Arial, sans-serif";

static FONT: LazyLock<Option<FontRef<'static>>> =
    LazyLock::new(|| FontRef::try_from_slice(dejavu::sans::regular()).ok());

/// Width of a text, in the unit of `size` (the em).
pub fn width(text: &str, size: f64) -> f64 {
    // Measured large and scaled: widths are proportional.
    const EM: f32 = 1000.0;
    glyphs(text, EM).map_or(0.0, |(_, end)| f64::from(end / EM) * size)
}

/// The pixels of a text of `em` pixels whose baseline starts at `start`: x, y downwards, coverage from 0 to 1.
pub fn pixels(text: &str, em: f64, start: (f32, f32)) -> Vec<(i32, i32, f32)> {
    let (Some(font), Some((glyphs, _))) = (FONT.as_ref(), glyphs(text, em as f32)) else { return Vec::new() };
    let mut pixels = Vec::new();
    for mut glyph in glyphs {
        glyph.position.x += start.0;
        glyph.position.y += start.1;
        if let Some(outline) = font.outline_glyph(glyph) {
            let corner = outline.px_bounds().min;
            outline.draw(|x, y, coverage| {
                if coverage > 0.0 {
                    pixels.push((corner.x as i32 + x as i32, corner.y as i32 + y as i32, coverage.min(1.0)));
                }
            });
        }
    }
    pixels
}

/// Glyphs from the origin on, kerned, and where the next one would start.
fn glyphs(text: &str, em: f32) -> Option<(Vec<ab_glyph::Glyph>, f32)> {
    let font = FONT.as_ref()?;
    let scale = PxScale::from(em * font.height_unscaled() / font.units_per_em()?);
    let scaled = font.as_scaled(scale);
    let mut glyphs = Vec::new();
    let (mut x, mut last) = (0.0, None);
    for letter in text.chars() {
        let id = font.glyph_id(letter);
        if let Some(last) = last {
            x += scaled.kern(last, id);
        }
        glyphs.push(id.with_scale_and_position(scale, point(x, 0.0)));
        x += scaled.h_advance(id);
        last = Some(id);
    }
    Some((glyphs, x))
}
