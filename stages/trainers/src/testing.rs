//! Provides a stage context over a folder for the tests of this crate.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use trainyard_api::{CheckpointStore, SilentReporter, StageContext};
use trainyard_core::Result;

/// Checkpoint store in a folder.
struct FolderCheckpointStore {
    folder: PathBuf,
    steps: Mutex<Vec<u64>>,
}

impl CheckpointStore for FolderCheckpointStore {
    fn latest(&self) -> Result<Option<(u64, PathBuf)>> {
        Ok(self.steps.lock().unwrap().last().map(|step| (*step, self.folder.join(step.to_string()))))
    }
    fn save(&self, step: u64, folder: &Path) -> Result<()> {
        let to = self.folder.join(step.to_string());
        std::fs::create_dir_all(&to).unwrap();
        for file in std::fs::read_dir(folder).unwrap() {
            let file = file.unwrap();
            std::fs::copy(file.path(), to.join(file.file_name())).unwrap();
        }
        self.steps.lock().unwrap().push(step);
        Ok(())
    }
}

/// Creates a context without inputs, whose outputs, scratch and resume points are in `folder`. It finds the resume
/// points of an earlier context of the same folder.
pub fn context(folder: &Path) -> StageContext {
    let checkpoints = folder.join("kept");
    std::fs::create_dir_all(&checkpoints).unwrap();
    let names = std::fs::read_dir(&checkpoints).unwrap().map(|entry| entry.unwrap().file_name());
    let mut steps: Vec<u64> = names.map(|name| name.to_str().unwrap().parse().unwrap()).collect();
    steps.sort_unstable();
    let output = |port: &str| {
        let path = folder.join("outputs").join(port);
        std::fs::create_dir_all(&path).unwrap();
        (port.to_string(), path)
    };
    let scratch = folder.join("scratch");
    let _ = std::fs::remove_dir_all(&scratch);
    std::fs::create_dir_all(&scratch).unwrap();
    let checkpoints = FolderCheckpointStore { folder: checkpoints, steps: Mutex::new(steps) };
    let context = StageContext::new(scratch, Arc::new(SilentReporter), Arc::new(checkpoints));
    StageContext { output_folders: ["model", "report"].map(output).into(), ..context }
}
