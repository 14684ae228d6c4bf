//! Stores the texts of a workflow: its file, the file's parents and embedded files, as they were when the schedule was
//! read.
//!
//! The run of a tick reads these texts instead of the current files. A file that is being edited therefore breaks no
//! run, and a run that is resumed after days still has the same plan.

use bytes::Bytes;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use trainyard_core::{Digest, Error, Result};
use trainyard_spec::files::absolute;
use trainyard_spec::{FileSystem, SourceForm, Sources};
use trainyard_store::{Store, layout};

/// Texts by path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkflowTexts {
    folder: PathBuf,
    /// Texts by path. Paths of files below the folder are relative to it, so that they are equal on all hosts.
    texts: BTreeMap<String, String>,
}

/// Texts layered over other files.
pub struct LayeredFiles<'a> {
    texts: &'a WorkflowTexts,
    others: &'a dyn FileSystem,
}

impl WorkflowTexts {
    /// Collects all files that a compilation read. `folder` is the absolute path of the workflow folder.
    pub fn of(sources: &Sources, folder: &Path) -> Self {
        let named = sources.0.iter().filter_map(|source| Some((source.path.as_deref()?, &source.text)));
        let texts = named.map(|(path, text)| (name(folder, path), text.clone())).collect();
        Self { folder: folder.to_path_buf(), texts }
    }
    /// Returns the paths of the files.
    pub fn paths(&self) -> impl Iterator<Item = PathBuf> {
        self.texts.keys().map(|name| absolute(&self.folder, name))
    }
    /// Stores the texts for a schedule; returns their digest. Errors: those of the store.
    pub async fn store(&self, store: &Store, schedule: &str) -> Result<Digest> {
        let bytes = self.bytes()?;
        let digest = Digest::of(&bytes);
        store.create(&layout::schedule_texts(schedule, &digest), bytes).await?;
        Ok(digest)
    }
    pub fn digest(&self) -> Result<Digest> {
        Ok(Digest::of(&self.bytes()?))
    }
    /// Reads stored texts. Errors: lost (missing), data (damaged).
    pub async fn fetch(store: &Store, path: &str, folder: &Path) -> Result<Self> {
        let bytes = store.get(path).await?;
        let bytes = bytes.ok_or_else(|| Error::lost(format!("{}/{path} does not exist", store.url())))?;
        let texts = serde_json::from_slice(&bytes)
            .map_err(|e| Error::data(format!("{}/{path} is damaged: {e}", store.url())))?;
        Ok(Self { folder: folder.to_path_buf(), texts })
    }
    /// Returns a file system that reads these texts, and all other files from `others`.
    pub fn layered_over<'a>(&'a self, others: &'a dyn FileSystem) -> LayeredFiles<'a> {
        LayeredFiles { texts: self, others }
    }

    fn bytes(&self) -> Result<Bytes> {
        serde_json::to_vec(&self.texts).map(Bytes::from).map_err(|e| Error::bug(format!("texts have no JSON: {e}")))
    }
    fn text(&self, path: &Path) -> Option<&String> {
        self.texts.get(&name(&self.folder, path))
    }
}

impl FileSystem for LayeredFiles<'_> {
    fn read(&self, path: &Path) -> Result<String> {
        self.texts.text(path).map_or_else(|| self.others.read(path), |text| Ok(text.clone()))
    }
    fn exists(&self, path: &Path) -> bool {
        self.texts.text(path).is_some() || self.others.exists(path)
    }
    fn is_file(&self, path: &Path) -> bool {
        self.texts.text(path).is_some() || self.others.is_file(path)
    }
    fn digest(&self, location: &str) -> Result<Digest> {
        self.others.digest(location)
    }
    fn pin(&self, url: &str, form: SourceForm) -> Result<String> {
        self.others.pin(url, form)
    }
}

fn name(folder: &Path, path: &Path) -> String {
    path.strip_prefix(folder).unwrap_or(path).display().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use trainyard_spec::LocalFileSystem;
    use trainyard_store::StoreOptions;

    #[tokio::test]
    async fn stored_texts_override_the_files() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a.yaml");
        std::fs::write(&file, "new").unwrap();
        std::fs::write(folder.path().join("b.yaml"), "beside").unwrap();
        let mut sources = Sources::default();
        sources.add("a.yaml", Some(&file), "old");
        sources.add("-p x=1", None, "-p x=1");
        let texts = WorkflowTexts::of(&sources, folder.path());
        let store = Store::open("memory://", StoreOptions::default()).await.unwrap();
        let digest = texts.store(&store, "s").await.unwrap();
        assert_eq!(digest, texts.digest().unwrap());
        let elsewhere = Path::new("/elsewhere");
        let fetched = WorkflowTexts::fetch(&store, &layout::schedule_texts("s", &digest), elsewhere).await.unwrap();
        assert_eq!(fetched.layered_over(&LocalFileSystem).read(&elsewhere.join("a.yaml")).unwrap(), "old");
        let over = texts.layered_over(&LocalFileSystem);
        assert_eq!(
            (over.read(&file).unwrap(), over.read(&folder.path().join("b.yaml")).unwrap()),
            ("old".into(), "beside".into())
        );
        assert!(!over.exists(&folder.path().join("c.yaml")));
        assert_eq!(texts.paths().collect::<Vec<_>>(), [file]);
    }
}
