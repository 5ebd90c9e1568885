//! Axes by hand, figures against golden SVG.

use std::fs;

use super::axis::Axis;
use super::{Kind, plot};
use crate::Frame;
use crate::tests::{Folder, golden, layers, predicted, strong, weak};
use shardmark_store::Record;

fn labels(axis: &Axis) -> Vec<&str> {
    axis.ticks.iter().map(|tick| tick.label.as_str()).collect()
}

#[test]
fn axes_have_round_ticks() {
    assert_eq!(labels(&Axis::linear("", 0.0, 100.0)), ["0", "25", "50", "75", "100"]);
    assert_eq!(labels(&Axis::linear("", 0.0, 1.07)), ["0.00", "0.25", "0.50", "0.75", "1.00"]);
    assert_eq!(labels(&Axis::linear("", 0.081, 0.094)), ["0.0825", "0.0850", "0.0875", "0.0900", "0.0925"]);
    assert_eq!(labels(&Axis::linear("", 3.0, 3.0)), ["3", "4", "5", "6"]);
    assert_eq!(labels(&Axis::log("", 0.9, 7.0, true)), ["1", "2", "4"]);
    assert_eq!(labels(&Axis::log("", 12.0, 700.0, false)), ["10", "20", "50", "100", "200", "500"]);
    assert_eq!(labels(&Axis::log("", 0.002, 30.0, false)), ["0.01", "0.1", "1", "10"]);
    assert_eq!(labels(&Axis::log("", 1.1, 1.7, true)), ["1.2", "1.5"]);
    assert_eq!(labels(&Axis::ranks("", &[4, 1, 2, 4, 6])), ["1", "2", "4", "6"]);
    assert_eq!(labels(&Axis::counts("", 0.0, 4.0)), ["0", "1", "2", "3", "4"]);
    assert_eq!(labels(&Axis::counts("", 1.0, 60.0)), ["20", "40", "60"]);
    let axis = Axis::log("", 0.5, 80.0, false);
    for value in [0.5, 3.0, 80.0] {
        assert!((axis.value(axis.fraction(value)) - value).abs() < 1e-9);
        assert!((0.0..=1.0).contains(&axis.fraction(value)));
    }
}

fn training() -> Vec<Record> {
    let case = |seed: usize| format!("net=2020 width=64 batch=8 grid=1x2x1x1 mode=strong epochs=12 seed={seed}");
    let record = |seed: usize| Record::example(&case(seed), 2, 20, |_, _, _| 0.1);
    (1..=2).map(|seed| record(seed).with_validation(12, 0.3 + 0.05 * seed as f64)).collect()
}

#[test]
fn figures_are_the_golden_ones() {
    let folder = Folder::new("figures");
    let mut both = strong();
    both.extend(predicted());
    let steps = strong().into_iter().filter(|record| record.setting("ranks") == Some("1")).collect();
    let single = strong().into_iter().filter(|record| record.setting("width") == Some("64")).collect();
    for (name, kind, records) in [
        ("single", Kind::Strong, single),
        ("strong", Kind::Strong, both.clone()),
        ("time", Kind::Time, both),
        ("weak", Kind::Weak, weak()),
        ("loss", Kind::Loss, training()),
        ("steps", Kind::Loss, steps),
        ("layers", Kind::Layers, layers()),
    ] {
        let path = folder.0.join(format!("{name}.svg"));
        plot(&Frame::from_records(records).unwrap(), kind, &path).unwrap();
        golden(&format!("{name}.svg"), &fs::read_to_string(&path).unwrap());
    }
}

#[test]
fn png_is_600_dots_an_inch_and_not_blank() {
    let folder = Folder::new("png");
    let path = folder.0.join("strong.png");
    plot(&Frame::from_records(strong()).unwrap(), Kind::Strong, &path).unwrap();
    let decoder = png::Decoder::new(std::io::BufReader::new(fs::File::open(&path).unwrap()));
    let mut reader = decoder.read_info().unwrap();
    assert_eq!(reader.info().width, 2100);
    assert_eq!(reader.info().pixel_dims.unwrap().xppu, 23622);
    let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
    reader.next_frame(&mut pixels).unwrap();
    let ink = pixels.iter().filter(|&&byte| byte < 128).count();
    assert!(ink > pixels.len() / 100, "{ink} of {}", pixels.len());
    assert!(plot(&Frame::from_records(strong()).unwrap(), Kind::Strong, &folder.0.join("x.pdf")).is_err());
}
