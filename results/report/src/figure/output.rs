//! The two backends: SVG text, and PNG drawn twice as large and averaged down (plotters draws hard edges).

use std::fs;
use std::path::Path;

use plotters::prelude::*;

use super::canvas::{Canvas, TextMode};
use super::draw;
use super::layout::{Layout, layout};
use super::panel::Panel;
use crate::{Error, Result};

/// 600 dots an inch: what journals ask for line art.
const DOTS_PER_POINT: f64 = 600.0 / 72.0;
const SUPERSAMPLING: usize = 2;

/// Writes the figure in the format of the extension.
pub fn write(panels: &[Panel], path: &Path) -> Result<()> {
    let layout = layout(panels);
    let bytes = match path.extension().and_then(|extension| extension.to_str()) {
        Some("svg") => svg(&layout)?.into_bytes(),
        Some("png") => png(&layout)?,
        _ => {
            let got = path.display().to_string();
            return Err(Error::Word { what: "figure file", expected: "*.svg or *.png", got });
        }
    };
    fs::write(path, bytes).map_err(|error| Error::Write { path: path.to_path_buf(), got: error.to_string() })
}

/// The figure as SVG, its size stated in inches.
fn svg(layout: &Layout<'_>) -> Result<String> {
    let (width, height) = pixels(layout, DOTS_PER_POINT);
    let mut text = String::new();
    {
        let area = SVGBackend::with_string(&mut text, (width, height)).into_drawing_area();
        draw::figure(&Canvas::new(&area, DOTS_PER_POINT, TextMode::Text), layout)?;
        area.present().map_err(|error| encoding(&error))?;
    }
    let in_dots = format!("width=\"{width}\" height=\"{height}\"");
    let in_inches = format!("width=\"{:.3}in\" height=\"{:.3}in\"", layout.width / 72.0, layout.height / 72.0);
    Ok(text.replacen(&in_dots, &in_inches, 1))
}

/// The figure as PNG at 600 dots an inch.
fn png(layout: &Layout<'_>) -> Result<Vec<u8>> {
    let (width, height) = pixels(layout, DOTS_PER_POINT);
    let (wide, high) = (width * SUPERSAMPLING as u32, height * SUPERSAMPLING as u32);
    let mut large = vec![255u8; wide as usize * high as usize * 3];
    {
        let area = BitMapBackend::with_buffer(&mut large, (wide, high)).into_drawing_area();
        let canvas = Canvas::new(&area, DOTS_PER_POINT * SUPERSAMPLING as f64, TextMode::Pixels);
        draw::figure(&canvas, layout)?;
        area.present().map_err(|error| encoding(&error))?;
    }
    let small = average(&large, wide as usize, height as usize);

    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, width, height);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    let per_metre = (600.0 / 0.0254_f64).round() as u32;
    encoder.set_pixel_dims(Some(png::PixelDimensions { xppu: per_metre, yppu: per_metre, unit: png::Unit::Meter }));
    let mut writer = encoder.write_header().map_err(|error| encoding(&error))?;
    writer.write_image_data(&small).map_err(|error| encoding(&error))?;
    writer.finish().map_err(|error| encoding(&error))?;
    Ok(bytes)
}

fn pixels(layout: &Layout<'_>, per_point: f64) -> (u32, u32) {
    ((layout.width * per_point).round() as u32, (layout.height * per_point).round() as u32)
}

/// Means of squares of `SUPERSAMPLING` pixels, `wide` pixels a row of three bytes each.
fn average(large: &[u8], wide: usize, height: usize) -> Vec<u8> {
    let width = wide / SUPERSAMPLING;
    let mut small = Vec::with_capacity(width * height * 3);
    for y in 0..height {
        for x in 0..width {
            for colour in 0..3 {
                let mut sum = 0;
                for row in 0..SUPERSAMPLING {
                    for column in 0..SUPERSAMPLING {
                        let pixel = (y * SUPERSAMPLING + row) * wide + x * SUPERSAMPLING + column;
                        sum += usize::from(large[pixel * 3 + colour]);
                    }
                }
                small.push((sum / (SUPERSAMPLING * SUPERSAMPLING)) as u8);
            }
        }
    }
    small
}

fn encoding(error: &dyn std::error::Error) -> Error {
    Error::Internal { step: "encoding the figure", got: error.to_string() }
}
