//! Uploads the sources of stages to the store, for machines that do not see the files of this one.
//!
//! The uploaded content must be the planned content: an attempt cannot verify it, and its results are published under
//! the digest of the plan.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::OnceCell;
use trainyard_core::artifact::FileEntry;
use trainyard_core::attempt::AttemptSpec;
use trainyard_core::{Digest, Error, ErrorKind, Result};
use trainyard_spec::files::{digest_listed, files_below, path_below, source_exists};
use trainyard_store::Store;

/// Help for a source that has changed.
const HELP: &str = "run the command again to make a new plan";

/// Sources that are already uploaded; several stages may use the same source.
#[derive(Default)]
pub(crate) struct Uploads(Mutex<HashMap<(String, Digest), UploadCell>>);

type UploadCell = Arc<OnceCell<Vec<FileEntry>>>;

impl Uploads {
    /// Uploads the sources of a spec, and returns the spec with their files.
    ///
    /// Errors: invalid (a source changed since the plan was made), those of the disk and the store.
    pub async fn upload(&self, store: &Store, spec: &AttemptSpec) -> Result<AttemptSpec> {
        let mut uploaded = BTreeMap::new();
        for (location, planned) in &spec.sources {
            let cell = self.cell(location, planned);
            let files = cell.get_or_try_init(|| upload(store, location, planned)).await?;
            uploaded.insert(location.clone(), files.clone());
        }
        Ok(AttemptSpec { uploaded, ..spec.clone() })
    }

    fn cell(&self, location: &str, planned: &Digest) -> UploadCell {
        let mut cells = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        cells.entry((location.to_string(), planned.clone())).or_default().clone()
    }
}

async fn upload(store: &Store, location: &str, planned: &Digest) -> Result<Vec<FileEntry>> {
    let root = Path::new(location);
    let changed = || Error::invalid(format!("{location} changed since the plan was made")).help(HELP);
    if !source_exists(root) {
        return Err(Error::invalid(format!("{location} was removed since the plan was made")).help(HELP));
    }
    let folder = root.to_path_buf();
    let names = tokio::task::spawn_blocking(move || files_below(&folder)).await;
    let mut files = Vec::new();
    for path in names.map_err(|e| Error::bug(format!("a file task ended early: {e}")))?? {
        let stored = store.put_object_file(&path_below(root, &path)).await;
        let (digest, size) = stored.map_err(|e| if e.kind == ErrorKind::Data { changed() } else { e })?;
        files.push(FileEntry { path, digest, size });
    }
    let listed: Vec<(String, Digest)> = files.iter().map(|f| (f.path.clone(), f.digest.clone())).collect();
    if digest_listed(&listed)? == *planned { Ok(files) } else { Err(changed()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trainyard_spec::files::digest_path;
    use trainyard_store::StoreOptions;

    #[tokio::test]
    async fn upload_stores_exactly_the_planned_sources() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open("memory://", StoreOptions::default()).await.unwrap();
        let (code, one) = (folder.path().join("code"), folder.path().join("one.py"));
        for name in ["a/b.py", "c.py", "__pycache__/c.pyc", ".git/config"] {
            let file = code.join(name);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, name).unwrap();
        }
        std::fs::write(&one, "one").unwrap();
        let entry = |path: &str, text: &str| FileEntry {
            path: path.into(),
            digest: Digest::of(text.as_bytes()),
            size: text.len() as u64,
        };
        let cases = [(&code, vec![entry("a/b.py", "a/b.py"), entry("c.py", "c.py")]), (&one, vec![entry("", "one")])];
        for (path, expected) in cases {
            let planned = digest_path(path).unwrap();
            let location = path.to_str().unwrap();
            let files = upload(&store, location, &planned).await.unwrap();
            assert_eq!(files, expected);
            assert!(store.has_objects(&files).await.unwrap());
            let error = upload(&store, location, &Digest::of(b"other")).await.unwrap_err();
            assert_eq!(error.kind, ErrorKind::Invalid);
            assert!(error.message.ends_with("changed since the plan was made") && error.help.is_some(), "{error}");
        }
        let removed = folder.path().join("none");
        let error = upload(&store, removed.to_str().unwrap(), &Digest::of(b"")).await.unwrap_err();
        assert!(error.message.ends_with("was removed since the plan was made"), "{error}");
    }
}
