//! Folders made, made again, read in every way, and broken on purpose.

use std::fs;
use std::path::{Path, PathBuf};

use shardmark_h5::File;

use super::*;
use crate::Error;
use crate::universe::simulate;

/// A folder that is removed at the end of its test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("shardmark-datasets-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn small(dtype: Dtype) -> DatasetSpec {
    DatasetSpec {
        cells: 8,
        side_mpc_h: 64.0,
        redshifts: vec![0.0, 2.0],
        dtype,
        samples: Samples { train: 3, validation: 2, test: 1 },
        ..DatasetSpec::default()
    }
}

fn make_quietly(spec: &DatasetSpec, dir: &Path) -> crate::Result<usize> {
    make(spec, dir, 2, &mut |_, _| {})
}

/// Writes a file of another program: `full[i] = i`, no attributes.
fn foreign(path: &Path, shape: &[usize]) {
    let file = File::create(path).unwrap();
    let len: usize = shape.iter().product();
    file.write("full", shape, &(0..len as i16).collect::<Vec<_>>()).unwrap();
    file.write("unitPar", &[4], &[0.5f64, -0.5, 0.25, 0.0]).unwrap();
    file.close().unwrap();
}

#[test]
fn a_folder_is_made_once_and_completed_after_a_loss() {
    let folder = Folder::new("resume");
    let spec = small(Dtype::F32);
    let mut calls = Vec::new();
    assert_eq!(make(&spec, &folder.0, 2, &mut |done, total| calls.push((done, total))).unwrap(), 6);
    assert_eq!(calls, [(0, 6), (1, 6), (2, 6), (3, 6), (4, 6), (5, 6), (6, 6)]);
    assert_eq!(make_quietly(&spec, &folder.0).unwrap(), 0);

    let lost = folder.0.join("validation/universe_000004.hdf5");
    let before = File::open(&lost).unwrap().read::<f32>("full").unwrap().0;
    fs::remove_file(&lost).unwrap();
    let incomplete = Dataset::open(&folder.0, Options::default()).unwrap_err();
    assert!(matches!(incomplete, Error::Incomplete { expected: 6, got: 5, .. }), "{incomplete}");
    assert_eq!(make(&spec, &folder.0, 1, &mut |_, _| {}).unwrap(), 1);
    assert_eq!(File::open(&lost).unwrap().read::<f32>("full").unwrap().0, before);
}

#[test]
fn another_specification_is_refused_with_what_differs() {
    let folder = Folder::new("other");
    make_quietly(&small(Dtype::F32), &folder.0).unwrap();
    let mut other = DatasetSpec { seed: 2, ..small(Dtype::F32) };
    other.ranges.h = [0.6, 0.7];
    let message = make_quietly(&other, &folder.0).unwrap_err().to_string();
    assert!(message.contains("expected seed = 1, h = [0.5, 0.9]"), "{message}");
    assert!(message.contains("got seed = 2, h = [0.6, 0.7]"), "{message}");
    assert!(!message.contains('\n'));

    fs::write(folder.0.join("dataset.toml"), "format = 9\n").unwrap();
    assert!(matches!(make_quietly(&other, &folder.0).unwrap_err(), Error::Index { .. }));
}

#[test]
fn files_hold_what_the_simulator_makes() {
    for dtype in [Dtype::F32, Dtype::I16] {
        let folder = Folder::new(&format!("content-{dtype}"));
        let spec = small(dtype);
        make_quietly(&spec, &folder.0).unwrap();
        let dataset = Dataset::open(&folder.0, Options::default()).unwrap();
        assert_eq!(Split::ALL.map(|split| dataset.len(split)), [3, 2, 1]);
        assert_eq!(dataset.shape(), [2, 8, 8, 8]);

        let universe = spec.universe(4);
        let expected = simulate(&universe, 1);
        let read = dataset.read_region(Split::Validation, 1, 0..8, 0..8, 0..8).unwrap();
        let step = if dtype == Dtype::I16 { 0.5001 / 128.0 } else { 0.0 };
        for (i, &value) in read.iter().enumerate() {
            assert!((value - expected[i % 2 * 512 + i / 2]).abs() <= step, "{dtype}, {i}");
        }
        let c = universe.cosmology;
        let physical = spec.ranges.to_physical(dataset.labels(Split::Validation, 1).unwrap().map(f64::from));
        for (a, b) in physical.into_iter().zip([c.omega_m, c.sigma_8, c.n_s, c.h]) {
            assert!((a - b).abs() < 1e-7);
        }
        let file = File::open(folder.0.join("validation/universe_000004.hdf5")).unwrap();
        assert_eq!(file.read_strs("namePar").unwrap(), ["Omega_m", "sigma_8", "n_s", "h"]);
        assert_eq!(file.read::<f32>("physPar").unwrap().0[0], c.omega_m as f32);
        assert_eq!(file.attr::<i64>("/", "index").unwrap(), 4);
        assert_eq!(file.attr::<Vec<f64>>("/", "redshifts").unwrap(), [0.0, 2.0]);
    }
}

/// The margins of a block of any rank, also where a block lies wholly outside.
#[test]
fn regions_are_the_volume_with_zeros_around_it() {
    let folder = Folder::new("region");
    make_quietly(&small(Dtype::F32), &folder.0).unwrap();
    let plain = Dataset::open(&folder.0, Options::default()).unwrap();
    let whole = plain.read_region(Split::Train, 2, 0..8, 0..8, 0..8).unwrap();
    let log = Dataset::open(&folder.0, Options { transform: Transform::Log1p, cube: None }).unwrap();
    for (d, h, w) in [
        (0..8, 0..8, 0..8),
        (-1..3, 2..5, 6..10),
        (-3..11, -1..9, -2..1),
        (3..3, 0..8, 0..8),
        (9..12, 0..2, 0..2),
        (-4..0, 0..1, 0..1),
    ] {
        let region = plain.read_region(Split::Train, 2, d.clone(), h.clone(), w.clone()).unwrap();
        let logs = log.read_region(Split::Train, 2, d.clone(), h.clone(), w.clone()).unwrap();
        let mut i = 0;
        for z in d {
            for y in h.clone() {
                for x in w.clone() {
                    let inside = [z, y, x].iter().all(|v| (0..8).contains(v));
                    for c in 0..2 {
                        let expected = if inside { whole[((z * 64 + y * 8 + x) * 2 + c) as usize] } else { 0.0 };
                        assert_eq!(region[i], expected);
                        assert_eq!(logs[i], expected.ln_1p());
                        i += 1;
                    }
                }
            }
        }
        assert_eq!(region.len(), i);
    }
}

#[test]
fn cubes_of_a_file_are_samples_of_their_own() {
    let folder = Folder::new("cubes");
    make_quietly(&small(Dtype::I16), &folder.0).unwrap();
    let whole = Dataset::open(&folder.0, Options::default()).unwrap();
    let cubes = Dataset::open(&folder.0, Options { cube: Some(4), ..Options::default() }).unwrap();
    assert_eq!((cubes.len(Split::Train), cubes.shape()), (24, [2, 4, 4, 4]));
    // Sample 13 is cube 5 = (1, 0, 1) of file 1; beyond its faces there are zeros, not its neighbours.
    let cube = cubes.read_region(Split::Train, 13, -1..4, 0..4, 0..5).unwrap();
    let part = whole.read_region(Split::Train, 1, 4..8, 0..4, 4..8).unwrap();
    let inside: Vec<f32> = cube[4 * 5 * 2..].chunks_exact(10).flat_map(|row| row[..8].to_vec()).collect();
    assert_eq!(inside, part);
    assert!(cube[..4 * 5 * 2].iter().all(|&v| v == 0.0));
    assert_eq!(cubes.labels(Split::Train, 13).unwrap(), whole.labels(Split::Train, 1).unwrap());

    let refused = Dataset::open(&folder.0, Options { cube: Some(3), ..Options::default() }).unwrap_err();
    assert!(matches!(refused, Error::Cube { extents: [8, 8, 8], edge: 3 }));
    assert!(matches!(cubes.labels(Split::Test, 8).unwrap_err(), Error::Sample { len: 8, sample: 8 }));
}

#[test]
fn files_of_other_tools_are_read_in_both_orders() {
    let folder = Folder::new("foreign");
    fs::create_dir_all(folder.0.join("train")).unwrap();
    foreign(&folder.0.join("train/a_0_0_1.hdf5"), &[2, 3, 3, 3]);
    let first = Dataset::open(&folder.0, Options::default()).unwrap();
    assert_eq!((first.len(Split::Train), first.len(Split::Test), first.shape()), (1, 0, [2, 3, 3, 3]));
    assert_eq!(first.read_region(Split::Train, 0, 1..2, 0..1, 2..3).unwrap(), [11.0, 38.0]);
    assert_eq!(first.labels(Split::Train, 0).unwrap(), [0.5, -0.5, 0.25, 0.0]);

    let flat = Folder::new("last");
    fs::create_dir_all(&flat.0).unwrap();
    foreign(&flat.0.join("b.h5"), &[3, 3, 3, 2]);
    let last = Dataset::open(&flat.0, Options { transform: Transform::Scale(0.5), cube: None }).unwrap();
    assert_eq!(last.shape(), [2, 3, 3, 3]);
    assert_eq!(last.read_region(Split::Train, 0, 1..2, 0..1, 2..3).unwrap(), [11.0, 11.5]);
}

#[test]
fn broken_files_are_named_in_one_line() {
    let folder = Folder::new("broken");
    make_quietly(&small(Dtype::F32), &folder.0).unwrap();
    let path = |i: usize| folder.0.join(format!("train/universe_{i:06}.hdf5"));
    let bytes = fs::read(path(1)).unwrap();
    fs::write(path(1), &bytes[..bytes.len() / 2]).unwrap();
    fs::remove_file(path(2)).unwrap();
    foreign(&path(2), &[2, 4, 4, 4]);
    fs::write(folder.0.join("test/universe_000005.hdf5"), "text").unwrap();

    let dataset = Dataset::open(&folder.0, Options::default()).unwrap();
    for sample in [1, 2] {
        let error = dataset.read_region(Split::Train, sample, 0..8, 0..8, 0..8).unwrap_err().to_string();
        assert!(error.contains(&format!("universe_{sample:06}.hdf5")) && !error.contains('\n'), "{error}");
    }
    let summary = inspect(&folder.0).unwrap();
    assert_eq!((summary.files, summary.missing, summary.broken.len()), ([1, 2, 0], 0, 3));
    assert_eq!(summary.volume, Some(([2, 8, 8, 8], Dtype::F32)));
    let text = summary.to_string();
    assert_eq!(text.lines().filter(|line| line.starts_with("broken")).count(), 3, "{text}");
}

#[test]
fn a_summary_has_the_statistics_of_all_files() {
    let folder = Folder::new("summary");
    let spec = small(Dtype::F32);
    make_quietly(&spec, &folder.0).unwrap();
    fs::remove_file(folder.0.join("test/universe_000005.hdf5")).unwrap();
    let summary = inspect(&folder.0).unwrap();
    assert_eq!((summary.files, summary.missing), ([3, 2, 0], 1));
    let second: Vec<f64> = (0..5).flat_map(|i| simulate(&spec.universe(i), 1)[512..].to_vec()).map(f64::from).collect();
    let mean = second.iter().sum::<f64>() / 2560.0;
    let variance = second.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / 2560.0;
    assert!(
        (summary.channels[1].mean - mean).abs() < 1e-12 && (summary.channels[1].std - variance.sqrt()).abs() < 1e-12
    );
    let omegas: Vec<f64> = (0..5).map(|i| spec.universe(i).cosmology.omega_m).collect();
    let low = omegas.iter().copied().fold(f64::INFINITY, f64::min);
    assert!((f64::from(summary.parameters.unwrap()[0][0]) - low).abs() < 1e-7);

    let empty = Folder::new("empty");
    fs::create_dir_all(&empty.0).unwrap();
    assert!(matches!(inspect(&empty.0).unwrap_err(), Error::Empty { .. }));
    assert!(matches!(Dataset::open(&empty.0, Options::default()).unwrap_err(), Error::Empty { .. }));
}

#[test]
fn impossible_specifications_are_refused() {
    let refused = |change: &dyn Fn(&mut DatasetSpec)| {
        let mut spec = small(Dtype::F32);
        change(&mut spec);
        spec.check().unwrap_err().to_string()
    };
    assert!(refused(&|s| s.cells = 2).starts_with("cells: expected 4 to 4096, got 2"));
    assert!(refused(&|s| s.cells = 1_000_000).starts_with("cells: expected 4 to 4096, got 1000000"));
    assert!(refused(&|s| s.side_mpc_h = f64::NAN).starts_with("side_mpc_h"));
    assert!(refused(&|s| s.redshifts.clear()).starts_with("redshifts"));
    let counts = |train, test| refused(&|s| s.samples = Samples { train, validation: 0, test });
    assert!(counts(0, 0).starts_with("samples: expected 1 to 10000000 universes in all, got 0"));
    assert!(counts(usize::MAX, 1).starts_with("samples: expected 1 to 10000000 universes in all, got"));
    assert!(refused(&|s| s.seed = u64::MAX).starts_with("seed"));
    assert!(refused(&|s| s.ranges.omega_m = [0.04, 0.3]).starts_with("ranges.omega_m"));
    assert!(refused(&|s| s.ranges.h = [0.9, 0.5]).starts_with("ranges.h"));
}

/// A larger set begins with the universes of a smaller one, and no two of its fields are equal.
#[test]
fn universes_follow_from_seed_and_index() {
    let (few, many) = (small(Dtype::F32), DatasetSpec { samples: Samples::default(), ..small(Dtype::F32) });
    assert_eq!(few.universe(5), many.universe(5));
    assert_ne!(few.universe(0).seed, few.universe(1).seed);
    let unit: Vec<[f64; 4]> = (0..2000)
        .map(|i| {
            let c = many.universe(i).cosmology;
            many.ranges.to_unit([c.omega_m, c.sigma_8, c.n_s, c.h])
        })
        .collect();
    for a in 0..4 {
        let mean = unit.iter().map(|u| u[a]).sum::<f64>() / 2000.0;
        let variance = unit.iter().map(|u| u[a] * u[a]).sum::<f64>() / 2000.0;
        assert!(mean.abs() < 0.05 && (variance - 1.0 / 3.0).abs() < 0.03 && unit.iter().all(|u| u[a].abs() < 1.0));
    }
}
