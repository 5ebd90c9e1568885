//! The files of the repository: what git tracks, and what it would track.

use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use crate::run::output;

/// One file.
pub struct File {
    /// From the root, with `/`.
    pub path: String,
    /// Bytes.
    pub size: u64,
    /// Whether it may be run.
    pub executable: bool,
    /// Its text; `None` if it is binary.
    pub text: Option<String>,
}

/// The files, by path.
#[derive(Default)]
pub struct Tree {
    /// All of them.
    pub files: Vec<File>,
}

impl Tree {
    /// Reads the repository in the current folder.
    ///
    /// # Errors
    /// This is no git repository, or a file cannot be read.
    pub fn read() -> Result<Tree, String> {
        let list = output(Command::new("git").args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]))?;
        let mut paths: Vec<&str> = list.split_terminator('\0').collect();
        paths.sort_unstable();
        let mut files = Vec::new();
        for path in paths {
            match read_file(path) {
                Ok(file) => files.push(file),
                // Deleted, and the deletion not yet committed.
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                Err(error) => return Err(format!("{path}: expected to read it, got: {error}; repair the checkout")),
            }
        }
        Ok(Tree { files })
    }

    /// All paths.
    pub fn paths(&self) -> impl Iterator<Item = &str> {
        self.files.iter().map(|file| file.path.as_str())
    }

    /// The file at `path`.
    pub fn file(&self, path: &str) -> Option<&File> {
        self.files.iter().find(|file| file.path == path)
    }

    /// The text of the file at `path`.
    pub fn text(&self, path: &str) -> Option<&str> {
        self.file(path)?.text.as_deref()
    }

    /// The text files with this ending, as (path, text).
    pub fn texts<'a>(&'a self, ending: &'a str) -> impl Iterator<Item = (&'a str, &'a str)> {
        let with_ending = self.files.iter().filter(move |file| file.path.ends_with(ending));
        with_ending.filter_map(|file| Some((file.path.as_str(), file.text.as_deref()?)))
    }
}

fn read_file(path: &str) -> std::io::Result<File> {
    let bytes = std::fs::read(path)?;
    let executable = std::fs::metadata(path)?.permissions().mode() & 0o100 != 0;
    let size = bytes.len() as u64;
    let text = if bytes.contains(&0) { None } else { String::from_utf8(bytes).ok() };
    Ok(File { path: path.into(), size, executable, text })
}
