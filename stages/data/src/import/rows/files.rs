//! Lists the files that a source names, in an order that depends only on their names.

use super::{DELIMITED_ENDINGS, ENDINGS, MAX_FILE_BYTES};
use crate::import::format::ImportFormat;
use std::path::{Path, PathBuf};
use trainyard_core::error::io_error;
use trainyard_core::source::Glob;
use trainyard_core::{Error, Result};

/// Names of splits. Files and folders whose names begin with another split than the wanted one are left out.
const SPLITS: [&str; 7] = ["dev", "eval", "test", "train", "val", "valid", "validation"];
/// Files in addition to the rows that libraries write into the folder of a data set.
const METADATA_FILES: [&str; 5] =
    ["dataset_dict.json", "dataset_info.json", "dataset_infos.json", "state.json", "split_tasks.json"];

/// One file of a source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportFile {
    pub path: PathBuf,
    /// Path below the source, or name of the only file; in a data set of the hub, path in its repository.
    pub name: String,
    /// Maximum bytes of the file after decompression.
    pub max_bytes: u64,
}

impl ImportFile {
    /// Creates a file with the default limit.
    pub fn new(path: PathBuf, name: String) -> Self {
        Self { path, name, max_bytes: MAX_FILE_BYTES }
    }
    /// Sets the maximum bytes of the file after decompression.
    pub fn at_most(self, max_bytes: u64) -> Self {
        Self { max_bytes, ..self }
    }
}

/// Returns the files of a source: the file itself, the files that a pattern matches, or the files of a folder that
/// belong to the split. A folder that contains the format's own file yields only that file. Errors: invalid, if there
/// are no files.
pub fn source_files(source: &Path, format: Option<&dyn ImportFormat>, split: &str) -> Result<Vec<ImportFile>> {
    if source.is_file() {
        let name = source.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
        return Ok(vec![ImportFile::new(source.to_path_buf(), name)]);
    }
    let (folder, names) = match Glob::of(source)? {
        // The files of a pattern that came with the attempt are in a folder that has the pattern's name.
        Some(_) if source.is_dir() => (source.to_path_buf(), below(source)?),
        Some(glob) => {
            let names = below(glob.folder())?.into_iter().filter(|name| glob.matches(name)).collect();
            (glob.folder().to_path_buf(), names)
        }
        None if source.is_dir() => (source.to_path_buf(), of_split(below(source)?, format, split)),
        None => return Err(nothing(source, format, split)),
    };
    if names.is_empty() {
        return Err(nothing(source, format, split));
    }
    Ok(names.into_iter().map(|name| ImportFile::new(folder.join(&name), name)).collect())
}

/// Returns the files of a folder, sorted, that belong to a split: the file of the format if present, else files of rows
/// by their names. Files of separated cells count only without others, because many folders have lists of words or
/// scores in addition to their rows.
pub fn of_split(names: Vec<String>, format: Option<&dyn ImportFormat>, split: &str) -> Vec<String> {
    if let Some(file) = format.and_then(|format| format.file_name(split)).filter(|file| names.contains(file)) {
        return vec![file];
    }
    let files = with_endings(&names, &ENDINGS, split);
    if files.is_empty() { with_endings(&names, &DELIMITED_ENDINGS, split) } else { files }
}

/// Returns the files with one of these extensions that belong to a split.
fn with_endings(names: &[String], endings: &[&str], split: &str) -> Vec<String> {
    let mut names = names.to_vec();
    names.retain(|name| has_rows(name, endings) && !is_of_another_split(name, split));
    // If files of the split are present, the other files have another purpose, such as a list of words.
    if names.iter().any(|name| is_of(name, split)) {
        names.retain(|name| is_of(name, split));
    }
    names
}

fn has_rows(name: &str, endings: &[&str]) -> bool {
    let base = name.rsplit('/').next().unwrap_or(name).to_lowercase();
    !METADATA_FILES.contains(&base.as_str()) && endings.iter().any(|ending| base.ends_with(ending))
}

/// Returns whether a part of the path is a split's name, alone or with a suffix: `train/1.json`, `train-00000.parquet`.
fn is_of(name: &str, split: &str) -> bool {
    name.split('/')
        .any(|part| part.strip_prefix(split).is_some_and(|rest| !rest.starts_with(|c: char| c.is_alphanumeric())))
}

fn is_of_another_split(name: &str, split: &str) -> bool {
    !is_of(name, split) && SPLITS.iter().any(|other| *other != split && is_of(name, other))
}

/// Returns the relative paths of the files below a folder, sorted. Names that start with a dot are left out.
fn below(folder: &Path) -> Result<Vec<String>> {
    let mut names = Vec::new();
    let mut folders = vec![String::new()];
    while let Some(at) = folders.pop() {
        let place = folder.join(&at);
        for entry in std::fs::read_dir(&place).map_err(|e| io_error(&place, &e))? {
            let entry = entry.map_err(|e| io_error(&place, &e))?;
            let base = entry.file_name().to_string_lossy().into_owned();
            let name = if at.is_empty() { base.clone() } else { format!("{at}/{base}") };
            let meta = std::fs::metadata(entry.path()).map_err(|e| io_error(&entry.path(), &e))?;
            if base.starts_with('.') {
                continue;
            }
            if meta.is_dir() { folders.push(name) } else { names.push(name) }
        }
    }
    names.sort();
    Ok(names)
}

fn nothing(source: &Path, format: Option<&dyn ImportFormat>, split: &str) -> Error {
    if !source.is_dir() && !matches!(Glob::of(source), Ok(Some(_))) {
        return Error::invalid(format!("{}: no such file", source.display()))
            .help("give `source` the path of a file or a folder, or a pattern such as `data/*.jsonl`");
    }
    if !source.is_dir() {
        return Error::invalid(format!("{}: no file matches", source.display()));
    }
    let file_name = format.and_then(|format| format.file_name(split));
    let endings = [&ENDINGS[..], &DELIMITED_ENDINGS].concat();
    let none = file_name.map_or_else(|| "no".to_string(), |name| format!("neither `{name}` nor a"));
    Error::invalid(format!("{}: {none} file of rows of split `{split}` exists", source.display()))
        .help(format!("files of rows end with {}; `split` chooses among them", endings.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::import::registry::format;

    fn names(source: &Path, name: Option<&str>, split: &str) -> Vec<String> {
        let files = source_files(source, name.and_then(format), split).unwrap();
        files.into_iter().map(|file| file.name).collect()
    }

    fn folder(files: &[&str]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for file in files {
            let path = folder.path().join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "{}").unwrap();
        }
        folder
    }

    #[test]
    fn a_folder_gives_the_files_of_the_split_in_the_order_of_their_names() {
        let shards = folder(&[
            "data/train-2.jsonl.gz",
            "data/train-1.parquet",
            "data/test-1.parquet",
            "data/trains.json",
            "README.md",
            "dataset_infos.json",
            ".cache/train-3.jsonl",
        ]);
        assert_eq!(names(shards.path(), None, "train"), ["data/train-1.parquet", "data/train-2.jsonl.gz"]);
        assert_eq!(names(shards.path(), Some("gsm8k"), "test"), ["data/test-1.parquet"]);
        assert_eq!(names(shards.path(), None, "validation"), ["data/trains.json"]);
        let plain = folder(&["b.jsonl", "a.jsonl", "words.csv"]);
        assert_eq!(names(plain.path(), None, "train"), ["a.jsonl", "b.jsonl"]);
        let tables = folder(&["train.csv", "test.csv", "train.tsv.gz", "README.md"]);
        assert_eq!(names(tables.path(), None, "train"), ["train.csv", "train.tsv.gz"]);
        let graded = folder(&["example_model_solutions.jsonl", "test.jsonl"]);
        assert_eq!(names(graded.path(), Some("gsm8k_solutions"), "test"), ["example_model_solutions.jsonl"]);
    }

    #[test]
    fn patterns_match_below_their_folder() {
        let shards = folder(&["a/x-1.jsonl", "a/x-10.jsonl", "a/x-2.jsonl", "b/x-3.jsonl", "a/y.jsonl"]);
        assert_eq!(names(&shards.path().join("a/x-?.jsonl"), None, "train"), ["x-1.jsonl", "x-2.jsonl"]);
        assert_eq!(
            names(&shards.path().join("*/x-*.jsonl"), None, "test"),
            ["a/x-1.jsonl", "a/x-10.jsonl", "a/x-2.jsonl", "b/x-3.jsonl"]
        );
        let one = shards.path().join("a/y.jsonl");
        assert_eq!(source_files(&one, None, "x").unwrap(), [ImportFile::new(one.clone(), "y.jsonl".into())]);
    }

    #[test]
    fn missing_files_are_reported() {
        let tests = folder(&["test.jsonl"]);
        let error = |path: &str, name: Option<&str>| {
            source_files(&tests.path().join(path), name.and_then(format), "train").unwrap_err().to_string()
        };
        assert!(error("none.jsonl", None).contains("none.jsonl: no such file"));
        assert!(error("", None).contains("no file of rows of split `train`"), "{}", error("", None));
        assert!(error("", Some("tau2")).contains("neither `tasks.json` nor"));
        assert!(error("*.parquet", None).contains("*.parquet: no file matches"));
    }
}
