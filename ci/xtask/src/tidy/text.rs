//! Rules for all files.

use super::Finding;
use crate::tree::Tree;

/// No space at a line's end, no carriage return, and one line feed at the end of the file.
pub fn whitespace(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in tree.texts("") {
        for (index, line) in text.split('\n').enumerate() {
            if line.ends_with([' ', '\t', '\r']) {
                findings.push(Finding::new(
                    path,
                    index + 1,
                    "expected no space at the line's end, got some; remove it",
                ));
            }
        }
        if !text.is_empty() && (!text.ends_with('\n') || text.ends_with("\n\n")) {
            findings.push(Finding::new(path, 0, "expected one line feed at the end, got none or several; correct it"));
        }
    }
    findings
}

/// The repository works on any machine: no home folders, no package hosts (cargo, apt and pip know theirs).
pub fn machine_paths(tree: &Tree) -> Vec<Finding> {
    // Written in parts, so that this file is not found itself.
    const WORDS: [(&str, &str); 8] = [
        ("/wo", "rk/"),
        ("/ho", "me/"),
        ("/ro", "ot/"),
        ("/Us", "ers/"),
        ("static.cra", "tes.io"),
        ("py", "pi.org"),
        ("pyth", "onhosted.org"),
        ("deb.de", "bian.org"),
    ];
    let mut findings = Vec::new();
    for (path, text) in tree.texts("") {
        for (index, line) in text.lines().enumerate() {
            for word in WORDS.map(|(start, end)| format!("{start}{end}")) {
                if line.contains(&word) {
                    let message = format!("expected nothing of one machine, got {word}; make it relative or an option");
                    findings.push(Finding::new(path, index + 1, message));
                }
            }
        }
    }
    findings
}

/// Clones stay small: what is large is generated or fetched.
pub fn blob(tree: &Tree) -> Vec<Finding> {
    const MAX_BYTES: u64 = 100_000;
    let large = tree.files.iter().filter(|file| file.size > MAX_BYTES);
    large
        .map(|file| {
            let message =
                format!("expected at most {MAX_BYTES} bytes, got {}; generate it or make it smaller", file.size);
            Finding::new(&file.path, 0, message)
        })
        .collect()
}
