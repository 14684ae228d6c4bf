//! Finds the index of an output, or builds it, and keeps it: in the store, or in a folder of this machine if the store
//! may not be written to.

use super::build::build;
use super::index::{IndexBytes, MessageIndex};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tempfile::{NamedTempFile, TempPath};
use tokio::runtime::Handle;
use trainyard_core::{Digest, Error, ErrorKind, Result};
use trainyard_store::{Store, layout};
use trainyard_tables::TableSource;

/// Receiver of notes about indexes that are built.
pub type NoteSink = Arc<dyn Fn(&str) + Send + Sync>;

/// Places of indexes.
pub(super) struct IndexPlaces {
    pub store: Store,
    /// Folder of this machine.
    pub home: Option<PathBuf>,
    pub runtime: Handle,
    pub note: NoteSink,
}

impl IndexPlaces {
    /// Opens the index of an output, and builds it if it is missing or unreadable.
    pub fn open(&self, artifact: &str, output: &Digest, table: &TableSource) -> Result<MessageIndex> {
        let mut unreadable = None;
        for found in [self.open_at_home(output), self.open_in_store(output)] {
            match found {
                Ok(Some(index)) => return Ok(index),
                Ok(None) => {}
                Err(error) if error.kind == ErrorKind::Data => unreadable = Some(error),
                Err(error) => return Err(error),
            }
        }
        self.rebuild(artifact, output, table, unreadable.as_ref())
    }
    /// Builds an index and replaces the one before it. `unreadable` says what is wrong with that one.
    pub fn rebuild(
        &self,
        artifact: &str,
        output: &Digest,
        table: &TableSource,
        unreadable: Option<&Error>,
    ) -> Result<MessageIndex> {
        let why = unreadable.map(|error| format!(" again: {}", error.message)).unwrap_or_default();
        (self.note)(&format!("building the index of the messages of {artifact}{why}"));
        let at_home = self.home_path(output);
        if let Some(path) = &at_home {
            // An index there would hide the new one.
            let _ = std::fs::remove_file(path);
        }
        let built = temporary(at_home.as_deref())?;
        build(table, &built)?;
        let index = MessageIndex::open(IndexBytes::of_file(File::open(&built).map_err(|e| made_error(&built, &e))?)?)?;
        self.keep(output, built, at_home);
        Ok(index)
    }

    /// Keeps a built index in the store, or else at home. A search also works without a kept index.
    fn keep(&self, output: &Digest, built: TempPath, at_home: Option<PathBuf>) {
        let why = match self.store.options().read_only {
            true => "the store was opened read-only".to_string(),
            false => match self.runtime.block_on(self.store.put_message_index(output, &built)) {
                Ok(()) => return,
                Err(error) => error.message,
            },
        };
        let kept = at_home.and_then(|path| built.persist(&path).ok().map(|()| path));
        (self.note)(&match kept {
            Some(path) => format!("the index is kept in {}: {why}", path.display()),
            None => format!("the index is not kept: {why}"),
        });
    }
    fn open_in_store(&self, output: &Digest) -> Result<Option<MessageIndex>> {
        if let Some(path) = self.store.message_index_path(output) {
            return open_file(&path);
        }
        let Some(size) = self.runtime.block_on(self.store.message_index_size(output))? else { return Ok(None) };
        let (store, runtime) = (self.store.clone(), self.runtime.clone());
        MessageIndex::open(IndexBytes::Stored { store, output: output.clone(), size, runtime }).map(Some)
    }
    fn open_at_home(&self, output: &Digest) -> Result<Option<MessageIndex>> {
        self.home_path(output).map_or(Ok(None), |path| open_file(&path))
    }
    fn home_path(&self, output: &Digest) -> Option<PathBuf> {
        self.home.as_ref().map(|home| home.join(layout::message_index(output)))
    }
}

fn open_file(path: &Path) -> Result<Option<MessageIndex>> {
    // A file that cannot be opened is built elsewhere.
    let Ok(file) = File::open(path) else { return Ok(None) };
    MessageIndex::open(IndexBytes::of_file(file)?).map(Some)
}

/// Makes a temporary file next to the path at home, from where it can be renamed, or else in the system's folder.
fn temporary(at_home: Option<&Path>) -> Result<TempPath> {
    let beside = at_home.and_then(Path::parent).and_then(|folder| {
        std::fs::create_dir_all(folder).ok()?;
        NamedTempFile::new_in(folder).ok()
    });
    let file = match beside {
        Some(file) => file,
        None => NamedTempFile::new().map_err(|e| made_error(&std::env::temp_dir(), &e))?,
    };
    Ok(file.into_temp_path())
}

fn made_error(path: &Path, error: &std::io::Error) -> Error {
    Error::retryable(format!("cannot make an index in {}: {error}", path.display()))
        .help("set TRAINYARD_HOME to a folder that may be written to")
}
