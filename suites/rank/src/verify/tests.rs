//! The committed reference files pass on many grids; files with one change are refused or named.

use super::*;
use shardmark_comm::threads;
use shardmark_h5::{Dtype, File, Kind};
use std::path::PathBuf;

fn committed(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../ci/reference/files").join(name)
}

fn rows<T: Float>(path: &Path, grid: &str) -> Result<Vec<Row>, String> {
    let grid: Grid = grid.parse().unwrap();
    let all = threads::run(grid.size(), &threads::Options::default(), |comm| verify::<T>(comm, path, grid));
    all.map(|all| all.into_iter().next().unwrap()).map_err(|error| error.to_string())
}

fn wrong(rows: &[Row]) -> Vec<String> {
    rows.iter().filter(|row| !row.passed()).map(Row::to_string).collect()
}

#[test]
fn committed_files_pass_on_grids() {
    for (file, grids) in [
        ("2020-w32-sgd.h5", ["1x1x1x1", "1x2x2x1"]),
        ("2020-w32-adam.h5", ["1x1x1x3", "2x1x2x1"]),
        ("2020-w32-dropout.h5", ["2x1x1x1", "1x1x2x3"]),
        ("2020-w32-norm.h5", ["1x2x1x1", "3x1x2x1"]),
        ("2020-odd-sgd.h5", ["1x3x1x2", "3x1x1x1"]),
        ("mlperf-w32-sgd.h5", ["1x1x1x1", "1x2x2x2"]),
        ("mlperf-w32-adam.h5", ["1x4x1x1", "2x1x1x2"]),
        ("mlperf-w32-norm.h5", ["1x1x3x1", "4x1x1x2"]),
    ] {
        for grid in grids {
            let rows = rows::<f32>(&committed(file), grid).unwrap();
            assert!(rows.len() > 20, "{file} holds {} tensors", rows.len());
            assert_eq!(wrong(&rows), [""; 0], "{file} on {grid}");
        }
    }
}

#[test]
fn double_precision_agrees_to_its_own_rounding() {
    for (file, grid) in [("2020-odd-sgd.h5", "1x2x1x1"), ("mlperf-w32-norm.h5", "2x1x1x1")] {
        assert_eq!(wrong(&rows::<f64>(&committed(file), grid).unwrap()), [""; 0], "{file} in f64 on {grid}");
    }
}

#[test]
fn a_changed_tensor_is_named() {
    for (tensor, elements) in [("grads/conv3.weight", 55296), ("buffers/bn3.running_var", 64)] {
        let path = edited("changed", "2020-w32-norm.h5", |name, values| {
            if name == tensor {
                values[7] *= 1.001;
            }
            true
        });
        let wrong = wrong(&rows::<f32>(&path, "1x1x2x1").unwrap());
        assert_eq!(wrong.len(), 1, "{wrong:?}");
        let start = format!("{tensor}: {elements} elements");
        assert!(wrong[0].starts_with(&start) && wrong[0].contains("expected"), "{wrong:?}");
        std::fs::remove_file(path).unwrap();
    }
}

#[test]
fn kinks_excuse_no_change_beyond_them() {
    let tensors = ["grads/conv1.weight", "grads/conv2.weight", "grads/conv3.weight"];
    for (file, factor) in [("2020-w32-sgd.h5", 1.001), ("mlperf-w32-sgd.h5", 1.02)] {
        let path = edited("beyond", file, |name, values| {
            let larger = |a: &&mut f64, b: &&mut f64| a.abs().total_cmp(&b.abs());
            if tensors.contains(&name) {
                *values.iter_mut().max_by(larger).unwrap() *= factor;
            }
            true
        });
        let wrong = wrong(&rows::<f32>(&path, "1x1x2x1").unwrap());
        assert_eq!(wrong.len(), tensors.len(), "{wrong:?}");
        assert!(wrong.iter().zip(tensors).all(|(row, tensor)| row.starts_with(tensor)), "{wrong:?}");
        std::fs::remove_file(path).unwrap();
    }
}

#[test]
fn files_without_kinks_are_read() {
    let path = edited("smooth", "2020-odd-sgd.h5", |name, _| !name.starts_with("kinks"));
    let with = rows::<f32>(&committed("2020-odd-sgd.h5"), "1x1x1x1").unwrap();
    let without = rows::<f32>(&path, "1x1x1x1").unwrap();
    assert!(with.len() == without.len() && with.iter().zip(&without).all(|(a, b)| a.used <= b.used));
    std::fs::remove_file(path).unwrap();
}

#[test]
fn incomplete_files_are_refused_in_one_line() {
    let text = scratch("foreign");
    std::fs::write(&text, "no HDF5 here\n").unwrap();
    let truncated = scratch("truncated");
    let whole = std::fs::read(committed("2020-w32-norm.h5")).unwrap();
    std::fs::write(&truncated, &whole[..whole.len() / 2]).unwrap();
    let lacking = edited("lacking", "2020-w32-norm.h5", |name, _| name != "grads/fc2.bias");
    let reshaped = edited("reshaped", "2020-w32-norm.h5", |name, values| {
        if name == "output" {
            values.pop();
        }
        true
    });
    for (path, reason) in [
        (scratch("none"), "expected a readable file"),
        (text, "a file of another kind"),
        (truncated, "a truncated one"),
        (lacking, "expected dataset \"grads/fc2.bias\", got none"),
        (reshaped, "output: expected [6, 4], got [23]"),
    ] {
        let error = rows::<f32>(&path, "2x1x1x1").unwrap_err();
        assert!(error.contains(reason) && error.lines().count() == 1, "{error}");
        let _ = std::fs::remove_file(path);
    }
}

#[test]
fn a_grid_of_other_ranks_is_refused() {
    let error = threads::run(2, &threads::Options::default(), |comm| {
        verify::<f32>(comm, &committed("2020-w32-norm.h5"), "1x3x1x1".parse().unwrap())
    })
    .unwrap_err()
    .to_string();
    assert!(error.contains("expected 3 for grid 1x3x1x1, got 2"), "{error}");
}

fn scratch(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("shardmark-verify-{}-{name}.h5", std::process::id()))
}

/// A copy of a committed file in which `edit` may change the values of a dataset, or leave it out by `false`.
fn edited(name: &str, source: &str, edit: impl Fn(&str, &mut Vec<f64>) -> bool) -> PathBuf {
    let path = scratch(name);
    let from = File::open(committed(source)).unwrap();
    let to = File::create(&path).unwrap();
    copy_attributes(&from, &to, "/");
    for entry in from.list_all().unwrap().iter().filter(|entry| entry.kind == Kind::Dataset) {
        let dtype = from.dtype(&entry.name).unwrap();
        let mut values = match dtype {
            Dtype::F32 => from.read::<f32>(&entry.name).unwrap().0.into_iter().map(f64::from).collect(),
            _ => from.read::<f64>(&entry.name).unwrap().0,
        };
        let (mut shape, len) = (from.shape(&entry.name).unwrap(), values.len());
        if !edit(&entry.name, &mut values) {
            continue;
        }
        if values.len() != len {
            shape = vec![values.len()];
        }
        match dtype {
            Dtype::F32 => {
                let values: Vec<f32> = values.iter().map(|&v| v as f32).collect();
                to.write(&entry.name, &shape, &values).unwrap();
            }
            _ => to.write(&entry.name, &shape, &values).unwrap(),
        }
        copy_attributes(&from, &to, &entry.name);
    }
    to.close().unwrap();
    path
}

fn copy_attributes(from: &File, to: &File, object: &str) {
    for key in from.attrs(object).unwrap() {
        if let Ok(text) = from.attr::<String>(object, &key) {
            to.set_attr(object, &key, text).unwrap();
        } else if let Ok(number) = from.attr::<i64>(object, &key) {
            to.set_attr(object, &key, number).unwrap();
        } else {
            to.set_attr(object, &key, from.attr::<f64>(object, &key).unwrap()).unwrap();
        }
    }
}
