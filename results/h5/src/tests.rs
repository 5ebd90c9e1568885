//! Round trips, slabs against an index formula, and every error seen as one line.

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::{Dtype, Error, File, Kind, Layout, Result};

/// A folder of its own for one test, removed at the end.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let name = format!("shardmark-h5-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn line(error: &Error) -> String {
    let text = error.to_string();
    assert!(!text.contains('\n'), "one line: {text}");
    assert!(
        text.contains("expected") && text.contains(", got ") && text.contains("; "),
        "shape of the message: {text}"
    );
    text
}

#[test]
fn all_types_and_ranks_round_trip() {
    fn check<T: crate::Elem + PartialEq + std::fmt::Debug>(file: &File, name: &str, value: impl Fn(usize) -> T) {
        for (rank, shape) in [&[][..], &[5], &[2, 3], &[1, 2, 3, 4, 2], &[0, 3]].into_iter().enumerate() {
            let name = format!("{name}/rank{rank}");
            let data: Vec<T> = (0..shape.iter().product()).map(&value).collect();
            file.write(&name, shape, &data).unwrap();
            assert_eq!(file.read::<T>(&name).unwrap(), (data, shape.to_vec()));
            assert_eq!(file.dtype(&name).unwrap(), T::DTYPE);
        }
    }
    let folder = Folder::new();
    let file = File::create(folder.file("all.h5")).unwrap();
    check(&file, "f32", |i| i as f32 * 0.1);
    check(&file, "f64", |i| i as f64 * 0.1);
    check(&file, "i16", |i| i as i16 - 3);
    check(&file, "i32", |i| i as i32 - 3);
    check(&file, "i64", |i| i as i64 - 3);
    check(&file, "u8", |i| i as u8);
    check(&file, "u64", |i| u64::MAX - i as u64);
}

#[test]
fn slabs_of_contiguous_and_compressed_datasets() {
    let folder = Folder::new();
    let path = folder.file("slab.h5");
    let shape = [3, 5, 7];
    let file = File::create(&path).unwrap();
    for (name, layout) in [("plain", Layout::contiguous()), ("gzip", Layout::chunked(&[2, 9, 3]).deflate(4))] {
        file.create_dataset::<i32>(name, &shape, &layout).unwrap();
        for d in 0..3 {
            let plane: Vec<i32> = (0..35).map(|i| (d * 35 + i) as i32).collect();
            file.write_slab(name, &[d..d + 1, 0..5, 0..7], &plane).unwrap();
        }
    }
    file.close().unwrap();

    let file = File::open(&path).unwrap();
    for name in ["plain", "gzip"] {
        let (data, dims) = file.read_slab::<i32>(name, &[1..3, 2..5, 6..7]).unwrap();
        let want: Vec<i32> = (1..3).flat_map(|d| (2..5).map(move |h| d * 35 + h * 7 + 6)).collect();
        assert_eq!((data, dims), (want, vec![2, 3, 1]));
        assert_eq!(file.read_slab::<i32>(name, &[1..1, 0..5, 0..7]).unwrap(), (vec![], vec![0, 5, 7]));
        let error = file.read_slab::<i32>(name, &[0..4, 0..5, 0..7]).unwrap_err();
        assert!(line(&error).contains("[3, 5, 7]"), "{error}");
        assert!(matches!(file.read_slab::<i32>(name, &[0..1, 0..1]), Err(Error::Shape { .. })));
    }
}

#[test]
fn strings_and_attributes() {
    let folder = Folder::new();
    let path = folder.file("text.h5");
    let file = File::create(&path).unwrap();
    file.write_str("one", "Ω = 0.3\n").unwrap();
    file.write_strs("many", &["a", "", "ß"]).unwrap();
    file.write_strs::<&str>("none", &[]).unwrap();
    file.set_attr("/", "schema", 3).unwrap();
    file.set_attr("/", "schema", 4).unwrap();
    file.set_attr("one", "seconds", 0.5).unwrap();
    file.set_attr("one", "names", vec!["x".to_owned(), "y".to_owned()]).unwrap();
    file.set_attr("many", "sizes", vec![1, 2, 3]).unwrap();
    file.set_attr("many", "unit", "GiB").unwrap();
    file.close().unwrap();

    let file = File::open(&path).unwrap();
    assert_eq!(file.read_str("one").unwrap(), "Ω = 0.3\n");
    assert_eq!(file.read_strs("many").unwrap(), ["a", "", "ß"]);
    assert!(file.read_strs("none").unwrap().is_empty());
    assert_eq!(file.attr::<i64>("/", "schema").unwrap(), 4);
    assert_eq!(file.attr::<f64>("one", "seconds").unwrap(), 0.5);
    assert_eq!(file.attr::<Vec<String>>("/one", "names").unwrap(), ["x", "y"]);
    assert_eq!(file.attr::<Vec<i64>>("many", "sizes").unwrap(), [1, 2, 3]);
    assert_eq!(file.attr::<String>("many", "unit").unwrap(), "GiB");
    assert_eq!(file.attrs("many").unwrap(), ["sizes", "unit"]);
    let wrong = file.attr::<i64>("many", "unit").unwrap_err();
    assert!(line(&wrong).contains("\"many@unit\": expected i64, got a string"), "{wrong}");
    assert!(line(&file.attr::<i64>("many", "nothing").unwrap_err()).contains("attribute"));
}

#[test]
fn groups_are_listed_in_order() {
    let folder = Folder::new();
    let file = File::create(folder.file("tree.h5")).unwrap();
    file.create_group("b/empty").unwrap();
    file.write("a/x", &[1], &[1.0f32]).unwrap();
    file.write("top", &[], &[1u8]).unwrap();
    let names: Vec<(String, Kind)> = file.list_all().unwrap().into_iter().map(|e| (e.name, e.kind)).collect();
    let want = [
        ("a", Kind::Group),
        ("a/x", Kind::Dataset),
        ("b", Kind::Group),
        ("b/empty", Kind::Group),
        ("top", Kind::Dataset),
    ];
    assert_eq!(names, want.map(|(name, kind)| (name.to_owned(), kind)));
    assert!(file.exists("/a/x") && file.exists("b") && !file.exists("a/y") && !file.exists("none/x"));
    assert_eq!(file.kind("a").unwrap(), Kind::Group);
}

#[test]
fn wrong_names_types_and_lengths_are_one_line_errors() {
    let folder = Folder::new();
    let file = File::create(folder.file("x.h5")).unwrap();
    file.write("x", &[2, 2], &[1.0f64; 4]).unwrap();
    assert!(line(&file.read::<f32>("x").unwrap_err()).contains("\"x\": expected f32, got f64"));
    assert!(line(&file.read_str("x").unwrap_err()).contains("expected strings, got float64"));
    assert!(line(&file.read::<f32>("y").unwrap_err()).contains("dataset \"y\", got none"));
    assert!(line(&file.write("y", &[2, 2], &[1.0f64; 3]).unwrap_err()).contains("4 elements for [2, 2], got 3"));
    assert!(!file.exists("y"));
    line(&file.write("x", &[1], &[1.0f64]).unwrap_err());
    line(&file.create_dataset::<u8>("z", &[4], &Layout::chunked(&[2, 2])).unwrap_err());
}

#[test]
fn missing_foreign_and_truncated_files_are_one_line_errors() {
    let folder = Folder::new();
    let path = folder.file("whole.h5");
    let file = File::create(&path).unwrap();
    file.write("x", &[5000], &[1.5f64; 5000]).unwrap();
    file.close().unwrap();

    assert!(line(&File::open(folder.file("no.h5")).unwrap_err()).contains("No such file"));
    assert!(line(&File::open(&folder.0).unwrap_err()).contains("a folder"));
    assert!(line(&File::create(folder.file("no/x.h5")).unwrap_err()).contains("create the folder"));
    let bytes = fs::read(&path).unwrap();
    for (what, content, want) in [
        ("empty.h5", &bytes[..0], "an empty one"),
        ("foreign.h5", &b"# this is text, of some length, and no HDF5 at all\n"[..], "a file of another kind"),
        ("cut.h5", &bytes[..bytes.len() - 1], "a truncated one"),
        ("half.h5", &bytes[..bytes.len() / 2], "a truncated one"),
        ("stub.h5", &bytes[..9], ""),
    ] {
        fs::write(folder.file(what), content).unwrap();
        let text = line(&File::open(folder.file(what)).unwrap_err());
        assert!(text.contains(want), "{what}: {text}");
    }
}

#[test]
fn atomic_files_appear_whole_or_not_at_all() {
    let folder = Folder::new();
    let path = folder.file("atomic.h5");
    let names = || fs::read_dir(&folder.0).unwrap().map(|e| e.unwrap().file_name()).collect::<Vec<_>>();
    let answer: Result<i32> = File::create_atomic(&path, |file| {
        file.write("x", &[1], &[1.0f64])?;
        assert!(!path.exists());
        Ok(42)
    });
    assert_eq!(answer.unwrap(), 42);
    assert_eq!(names(), ["atomic.h5"]);
    let failed: Result<()> = File::create_atomic(&path, |file| {
        file.write("x", &[2], &[2.0f64, 2.0])?;
        file.write("y", &[2], &[2.0f64])
    });
    line(&failed.unwrap_err());
    assert_eq!(names(), ["atomic.h5"]);
    assert_eq!(File::open(&path).unwrap().read::<f64>("x").unwrap().0, [1.0]);
    let nowhere: Result<()> = File::create_atomic(folder.file("no/x.h5"), |_| Ok(()));
    line(&nowhere.unwrap_err());
}

#[test]
fn several_threads_may_read_and_write() {
    let folder = Folder::new();
    let path = folder.file("shared.h5");
    let file = File::create(&path).unwrap();
    file.write("x", &[4, 1000], &(0..4000).map(|i| i as f32).collect::<Vec<_>>()).unwrap();
    file.close().unwrap();
    std::thread::scope(|scope| {
        for rank in 0..4usize {
            let (path, own) = (path.clone(), folder.file(&format!("own{rank}.h5")));
            scope.spawn(move || {
                for _ in 0..50 {
                    let file = File::open(&path).unwrap();
                    let (row, _) = file.read_slab::<f32>("x", &[rank..rank + 1, 0..1000]).unwrap();
                    assert_eq!(row[1], (rank * 1000 + 1) as f32);
                    assert!(file.read::<f64>("x").is_err());
                    File::create_atomic(&own, |file| file.write("row", &[1000], &row)).unwrap();
                }
            });
        }
    });
}

/// A full disk, played by a limit on the file size in a child process: the error names it, nothing stays behind.
#[test]
fn a_full_disk_is_reported_and_leaves_nothing() {
    const KEY: &str = "SHARDMARK_H5_FULL_DISK";
    if let Ok(path) = std::env::var(KEY) {
        // SAFETY: plain calls of the C library, before any other thread of this child writes a file.
        unsafe {
            libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
            let limit = libc::rlimit { rlim_cur: 1 << 20, rlim_max: 1 << 20 };
            assert_eq!(libc::setrlimit(libc::RLIMIT_FSIZE, &limit), 0);
        }
        let data = vec![1.0f64; 1 << 20];
        let failed: Result<()> = File::create_atomic(&path, |file| file.write("x", &[1 << 20], &data));
        let text = line(&failed.unwrap_err());
        assert!(text.contains("File too large") && text.contains("free some space"), "{text}");
        return;
    }
    let folder = Folder::new();
    let path = folder.file("big.h5");
    let output = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "tests::a_full_disk_is_reported_and_leaves_nothing"])
        .env(KEY, &path)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    assert!(!String::from_utf8_lossy(&output.stderr).contains("HDF5-DIAG"));
    assert_eq!(fs::read_dir(&folder.0).unwrap().count(), 0);
}

#[test]
fn types_have_names_for_messages() {
    assert_eq!(Dtype::F32.to_string(), "f32");
    assert_eq!(crate::library_version().split('.').count(), 3);
}

/// A child that was started while a file was open keeps the descriptor; that must not lock the next writer or reader out.
#[test]
fn a_child_process_does_not_keep_files_locked() {
    let folder = Folder::new();
    let path = folder.file("x.h5");
    let file = File::create(&path).unwrap();
    let mut child = std::process::Command::new("sleep").arg("10").spawn().unwrap();
    file.write("x", &[1], &[1.0f32]).unwrap();
    file.close().unwrap();
    let opened = File::open(&path).map(drop).and_then(|()| File::create(&path)).map(drop);
    child.kill().unwrap();
    child.wait().unwrap();
    opened.unwrap();
}
