//! Compares the files of two artifacts by path and digest.

use crate::artifacts::{FileRow, file};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;
use trainyard_core::FileEntry;

/// Maximum files in each list.
const MAX_FILES: usize = 1_000;

/// Files that differ.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct FilesDiff {
    /// Number of files with the same path and content.
    pub equal: usize,
    /// Number of files that only A has.
    pub only_a: usize,
    /// Number of files that only B has.
    pub only_b: usize,
    /// Number of files with the same path and other content.
    pub changed: usize,
    /// First files that only A has, at most 1000.
    pub first_only_a: Vec<FileRow>,
    /// First files that only B has, at most 1000.
    pub first_only_b: Vec<FileRow>,
    /// First files with other content, at most 1000.
    pub first_changed: Vec<ChangedFile>,
}

/// File with other content.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ChangedFile {
    /// File of A.
    pub a: FileRow,
    /// File of B, with the same path.
    pub b: FileRow,
}

/// Compares files by path, without those that `is_left_out` names.
pub fn compare_files(a: &[FileEntry], b: &[FileEntry], is_left_out: impl Fn(&str) -> bool) -> FilesDiff {
    let by_path = |files: &'_ [FileEntry]| -> BTreeMap<String, FileEntry> {
        files.iter().filter(|file| !is_left_out(&file.path)).map(|file| (file.path.clone(), file.clone())).collect()
    };
    let (a, mut b) = (by_path(a), by_path(b));
    let mut diff = FilesDiff::default();
    for (path, in_a) in &a {
        match b.remove(path) {
            Some(in_b) if in_b.digest == in_a.digest => diff.equal += 1,
            Some(in_b) => {
                diff.changed += 1;
                push(&mut diff.first_changed, ChangedFile { a: file(in_a), b: file(&in_b) });
            }
            None => {
                diff.only_a += 1;
                push(&mut diff.first_only_a, file(in_a));
            }
        }
    }
    diff.only_b = b.len();
    diff.first_only_b = b.values().take(MAX_FILES).map(file).collect();
    diff
}

fn push<T>(list: &mut Vec<T>, item: T) {
    if list.len() < MAX_FILES {
        list.push(item);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trainyard_core::Digest;

    fn entry(path: &str, content: &str) -> FileEntry {
        FileEntry { path: path.into(), digest: Digest::of(content.as_bytes()), size: content.len() as u64 }
    }

    #[test]
    fn files_are_compared_by_path_and_digest() {
        let a = [entry("a", "1"), entry("b", "2"), entry("c", "3"), entry("skip", "4")];
        let b = [entry("b", "22"), entry("c", "3"), entry("d", "1"), entry("skip", "5")];
        let found = compare_files(&a, &b, |path| path == "skip");
        assert_eq!((found.equal, found.only_a, found.only_b, found.changed), (1, 1, 1, 1));
        assert_eq!((found.first_only_a[0].path.as_str(), found.first_only_b[0].path.as_str()), ("a", "d"));
        let changed = &found.first_changed[0];
        assert_eq!((changed.a.path.as_str(), changed.a.bytes, changed.b.bytes), ("b", 1, 2));
    }

    #[test]
    fn long_lists_are_cut_and_counted() {
        let many: Vec<FileEntry> = (0..MAX_FILES + 5).map(|i| entry(&format!("{i:06}"), "x")).collect();
        let found = compare_files(&many, &[], |_| false);
        assert_eq!((found.only_a, found.first_only_a.len()), (MAX_FILES + 5, MAX_FILES));
        let found = compare_files(&[], &many, |_| false);
        assert_eq!((found.only_b, found.first_only_b.len()), (MAX_FILES + 5, MAX_FILES));
    }
}
