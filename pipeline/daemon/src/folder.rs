//! The folder of workflow files: detects schedules, changes, mistakes and removed files.
//!
//! A file is read again when its time or size, or that of a parent or an embedded file, changes. The previous content
//! of a broken file stays in force.

use crate::texts::Texts;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::SystemTime;
use trainyard_core::{Error, Result};
use trainyard_spec::Schedule;
use trainyard_spec::compile::Compiled;

/// Compiles a file. Errors: invalid, if there is no working directory.
pub type Compile = dyn Fn(&Path) -> Result<Compiled> + Send + Sync;

/// Folder, with its state at the last check.
pub struct Folder {
    path: PathBuf,
    files: BTreeMap<PathBuf, Known>,
}

/// Difference to the last check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// A schedule is new or changed.
    Defined {
        /// Name of the workflow and its schedule.
        name: String,
        /// File, relative to the folder.
        file: String,
        /// Schedule as declared in the file.
        schedule: Schedule,
        /// Texts of all files read.
        texts: Texts,
    },
    /// No file declares this schedule any more.
    Gone {
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

/// Known state of a file.
struct Known {
    /// Time and size of each file that was read.
    stamps: Vec<(PathBuf, Option<Stamp>)>,
    /// Name of the declared schedule.
    schedule: Option<String>,
    broken: Option<String>,
}

type Stamp = (SystemTime, u64);

impl Folder {
    /// Returns a folder before its first check. Errors: invalid (no such folder).
    pub fn new(path: &Path) -> Result<Self> {
        let path = path
            .canonicalize()
            .map_err(|e| Error::invalid(format!("{}: {e}", path.display())).help("name a folder of workflow files"))?;
        if !path.is_dir() {
            return Err(Error::invalid(format!("{} is not a folder", path.display())));
        }
        Ok(Self { path, files: BTreeMap::new() })
    }
    /// Returns the absolute path.
    pub fn path(&self) -> &Path {
        &self.path
    }
    /// Returns mistakes by file, as of the last check.
    pub fn broken(&self) -> BTreeMap<String, String> {
        let broken = self.files.iter().filter_map(|(path, known)| Some((self.name(path), known.broken.clone()?)));
        broken.collect()
    }
    /// Returns the names of the schedules in the folder.
    pub fn schedules(&self) -> impl Iterator<Item = &str> {
        self.files.values().filter_map(|known| known.schedule.as_deref())
    }
    /// Reads changed files. Errors: retryable (the folder cannot be listed), without removals.
    pub fn look(&mut self, compile: &Compile) -> Result<Vec<Change>> {
        let found = self.list()?;
        let mut changes = Vec::new();
        let gone: Vec<PathBuf> = self.files.keys().filter(|path| !found.contains(path)).cloned().collect();
        for path in gone {
            if let Some(name) = self.files.remove(&path).and_then(|known| known.schedule) {
                changes.push(Change::Gone { name });
            }
        }
        for path in found {
            let known = self.files.get(&path);
            if known.is_none_or(|known| known.stamps.iter().any(|(path, was)| stamp(path) != *was)) {
                self.read(&path, compile, &mut changes)?;
            }
        }
        // A schedule that moved from one file to another is not gone.
        let still: Vec<String> = self.schedules().map(str::to_string).collect();
        changes.retain(|change| !matches!(change, Change::Gone { name } if still.contains(name)));
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
    fn read(&mut self, path: &Path, compile: &Compile, changes: &mut Vec<Change>) -> Result<()> {
        // Taken before the file is read, so that a concurrent change is detected next time.
        let mut stamps = vec![(path.to_path_buf(), stamp(path))];
        let before = self.files.get(path).and_then(|known| known.schedule.clone());
        let compiled = compile(path)?;
        let texts = Texts::of(&compiled.sources, &self.path);
        stamps.extend(texts.paths().filter(|other| other != path).map(|other| (other.clone(), stamp(&other))));
        let file = self.name(path);
        let (schedule, broken) = match self.judge(path, &compiled, before.is_some()) {
            Judged::Scheduled(name, schedule) => {
                changes.extend(before.filter(|was| *was != name).map(|name| Change::Gone { name }));
                changes.push(Change::Defined { name: name.clone(), file, schedule, texts });
                (Some(name), None)
            }
            Judged::Unscheduled => {
                changes.extend(before.map(|name| Change::Gone { name }));
                (None, None)
            }
            Judged::Broken(why) => {
                changes.push(Change::Broken { file, why: why.clone() });
                (before, Some(why))
            }
        };
        self.files.insert(path.to_path_buf(), Known { stamps, schedule, broken });
        Ok(())
    }
    fn judge(&self, path: &Path, compiled: &Compiled, was_scheduled: bool) -> Judged {
        let text = compiled.sources.0.first().map_or("", |source| source.text.as_str());
        let Some(plan) = &compiled.plan else {
            // Parents, parts and the site file are in the same folder and are not workflows.
            let says = text.lines().any(|line| line.starts_with("schedule:"));
            if !was_scheduled && !says {
                return Judged::Unscheduled;
            }
            let errors = compiled.diagnostics.iter().filter(|d| d.is_error());
            return Judged::Broken(errors.map(|d| compiled.sources.line(d)).collect::<Vec<_>>().join("\n"));
        };
        let Some(schedule) = &plan.schedule else { return Judged::Unscheduled };
        let name = &plan.workflow;
        let other = self.files.iter().find(|(other, known)| *other != path && known.schedule.as_ref() == Some(name));
        match other {
            Some((other, _)) => Judged::Broken(format!("{} has a workflow `{name}` too", self.name(other))),
            None => Judged::Scheduled(name.clone(), schedule.clone()),
        }
    }
    fn name(&self, path: &Path) -> String {
        path.strip_prefix(&self.path).unwrap_or(path).display().to_string()
    }
}

enum Judged {
    Scheduled(String, Schedule),
    Unscheduled,
    Broken(String),
}

/// Returns time and size of a file; `None` if it does not exist.
fn stamp(path: &Path) -> Option<Stamp> {
    let meta = std::fs::metadata(path).ok()?;
    Some((meta.modified().ok()?, meta.len()))
}

#[cfg(test)]
#[path = "folder_tests.rs"]
mod tests;
