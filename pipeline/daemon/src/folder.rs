//! Watches the folder of workflow files, and detects schedules, changes, mistakes and removed files.
//!
//! A file is read again when the modification time or the size of the file, of a parent or of an embedded file changes.
//! If a file is broken, its previous content remains valid.

use crate::texts::WorkflowTexts;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::SystemTime;
use trainyard_core::{Error, Result};
use trainyard_spec::Schedule;
use trainyard_spec::compile::Compilation;

/// Compiles a file. Errors: invalid, if there is no working directory.
pub type CompileFn = dyn Fn(&Path) -> Result<Compilation> + Send + Sync;

/// Folder, with its state at the last check.
pub struct WorkflowFolder {
    path: PathBuf,
    files: BTreeMap<PathBuf, KnownFile>,
}

/// Difference to the last check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FolderChange {
    /// A schedule is new or changed.
    Defined {
        /// Name of the workflow and its schedule.
        name: String,
        /// File, relative to the folder.
        file: String,
        /// Schedule as declared in the file.
        schedule: Schedule,
        /// Texts of all files read.
        texts: WorkflowTexts,
    },
    /// No file declares this schedule any more.
    Removed {
        /// Schedule name.
        name: String,
    },
    /// A file has mistakes.
    Broken {
        /// File, relative to the folder.
        file: String,
        /// Mistakes, one per line.
        why: String,
    },
}

/// Workflow file of the folder, as of the last check.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FolderFile {
    /// File, relative to the folder.
    pub file: String,
    /// Name of the workflow.
    pub workflow: String,
    /// Whether the file declares a schedule that is in force.
    pub is_scheduled: bool,
    /// Mistakes, one per line. A file whose params have no defaults has those of the missing values.
    pub mistakes: Option<String>,
}

/// Known state of a file.
struct KnownFile {
    /// Time and size of each file that was read.
    stamps: Vec<(PathBuf, Option<FileStamp>)>,
    /// Name of the declared schedule.
    schedule: Option<String>,
    broken: Option<String>,
    /// Name of the workflow; `None` for a file of another kind.
    workflow: Option<String>,
    mistakes: Option<String>,
}

type FileStamp = (SystemTime, u64);

impl WorkflowFolder {
    /// Returns a folder before its first check. Errors: invalid (no such folder).
    pub fn new(path: &Path) -> Result<Self> {
        let path = path
            .canonicalize()
            .map_err(|e| Error::invalid(format!("{}: {e}", path.display())).help("give a folder of workflow files"))?;
        if !path.is_dir() {
            return Err(Error::invalid(format!("{} is not a folder", path.display())));
        }
        Ok(Self { path, files: BTreeMap::new() })
    }
    /// Returns the absolute path of the folder.
    pub fn path(&self) -> &Path {
        &self.path
    }
    /// Returns mistakes by file, as of the last check.
    pub fn broken(&self) -> BTreeMap<String, String> {
        let broken = self.files.iter().filter_map(|(path, known)| Some((self.name(path), known.broken.clone()?)));
        broken.collect()
    }
    /// Returns the workflow files of the folder, by name.
    pub fn workflows(&self) -> Vec<FolderFile> {
        let file = |(path, known): (&PathBuf, &KnownFile)| {
            let (workflow, is_scheduled) = (known.workflow.clone()?, known.schedule.is_some());
            Some(FolderFile { file: self.name(path), workflow, is_scheduled, mistakes: known.mistakes.clone() })
        };
        self.files.iter().filter_map(file).collect()
    }
    /// Returns the names of the schedules in the folder.
    pub fn schedules(&self) -> impl Iterator<Item = &str> {
        self.files.values().filter_map(|known| known.schedule.as_deref())
    }
    /// Reads changed files, and returns the differences to the last check. If the folder cannot be listed, no schedule
    /// counts as removed. Errors: retryable (the folder cannot be listed), those of `compile`.
    pub fn poll(&mut self, compile: &CompileFn) -> Result<Vec<FolderChange>> {
        let found = self.list()?;
        let mut changes = Vec::new();
        let removed: Vec<PathBuf> = self.files.keys().filter(|path| !found.contains(path)).cloned().collect();
        for path in removed {
            if let Some(name) = self.files.remove(&path).and_then(|known| known.schedule) {
                changes.push(FolderChange::Removed { name });
            }
        }
        for path in found {
            let known = self.files.get(&path);
            if known.is_none_or(|known| known.stamps.iter().any(|(path, was)| stamp(path) != *was)) {
                self.read(&path, compile, &mut changes)?;
            }
        }
        // A schedule that moved from one file to another is not removed.
        let names: Vec<String> = self.schedules().map(str::to_string).collect();
        changes.retain(|change| !matches!(change, FolderChange::Removed { name } if names.contains(name)));
        Ok(changes)
    }

    fn list(&self) -> Result<Vec<PathBuf>> {
        let cannot = |e: std::io::Error| Error::retryable(format!("cannot list {}: {e}", self.path.display()));
        let mut found = Vec::new();
        for entry in std::fs::read_dir(&self.path).map_err(cannot)? {
            let path = entry.map_err(cannot)?.path();
            let is_yaml = path.extension().is_some_and(|end| end == "yaml" || end == "yml");
            let hidden = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'));
            if is_yaml && !hidden && path.is_file() {
                found.push(path);
            }
        }
        found.sort();
        Ok(found)
    }
    fn read(&mut self, path: &Path, compile: &CompileFn, changes: &mut Vec<FolderChange>) -> Result<()> {
        // Taken before the file is read, so that a concurrent change is detected next time.
        let mut stamps = vec![(path.to_path_buf(), stamp(path))];
        let before = self.files.get(path).and_then(|known| known.schedule.clone());
        let compiled = compile(path)?;
        let texts = WorkflowTexts::of(&compiled.sources, &self.path);
        stamps.extend(texts.paths().filter(|other| other != path).map(|other| (other.clone(), stamp(&other))));
        let file = self.name(path);
        let (schedule, broken) = match self.classify(path, &compiled, before.is_some()) {
            ParsedFile::Scheduled(name, schedule) => {
                changes.extend(before.filter(|was| *was != name).map(|name| FolderChange::Removed { name }));
                changes.push(FolderChange::Defined { name: name.clone(), file, schedule, texts });
                (Some(name), None)
            }
            ParsedFile::Unscheduled => {
                changes.extend(before.map(|name| FolderChange::Removed { name }));
                (None, None)
            }
            ParsedFile::Broken(why) => {
                changes.push(FolderChange::Broken { file, why: why.clone() });
                (before, Some(why))
            }
        };
        let workflow = compiled.workflow.clone().filter(|name| !name.is_empty());
        let mistakes = mistakes(&compiled);
        self.files.insert(path.to_path_buf(), KnownFile { stamps, schedule, broken, workflow, mistakes });
        Ok(())
    }
    fn classify(&self, path: &Path, compiled: &Compilation, was_scheduled: bool) -> ParsedFile {
        let text = compiled.sources.0.first().map_or("", |source| source.text.as_str());
        let Some(plan) = &compiled.plan else {
            // Parents, parts and the site file are in the same folder and are not workflows.
            let declares_schedule = text.lines().any(|line| line.starts_with("schedule:"));
            if !was_scheduled && !declares_schedule {
                return ParsedFile::Unscheduled;
            }
            return ParsedFile::Broken(mistakes(compiled).unwrap_or_default());
        };
        let Some(schedule) = &plan.schedule else { return ParsedFile::Unscheduled };
        let name = &plan.workflow;
        let other = self.files.iter().find(|(other, known)| *other != path && known.schedule.as_ref() == Some(name));
        match other {
            Some((other, _)) => ParsedFile::Broken(format!("{} also defines the workflow `{name}`", self.name(other))),
            None => ParsedFile::Scheduled(name.clone(), schedule.clone()),
        }
    }
    fn name(&self, path: &Path) -> String {
        path.strip_prefix(&self.path).unwrap_or(path).display().to_string()
    }
}

enum ParsedFile {
    Scheduled(String, Schedule),
    Unscheduled,
    Broken(String),
}

/// Returns the errors of a file, one per line; `None` if it has a plan.
pub fn mistakes(compiled: &Compilation) -> Option<String> {
    let errors = compiled.diagnostics.iter().filter(|d| d.is_error());
    compiled.plan.is_none().then(|| errors.map(|d| compiled.sources.line(d)).collect::<Vec<_>>().join("\n"))
}

/// Returns time and size of a file; `None` if it does not exist.
fn stamp(path: &Path) -> Option<FileStamp> {
    let meta = std::fs::metadata(path).ok()?;
    Some((meta.modified().ok()?, meta.len()))
}

#[cfg(test)]
#[path = "folder_tests.rs"]
mod tests;
