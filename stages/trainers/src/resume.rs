//! Stores and restores resume points: a checkpoint of the trainer, with its reports up to that step.
//!
//! The store accepts flat folders only. The name of a file in a subfolder is its whole path, with `/` written as `%2F`.

use crate::progress::TrainerProgress;
use std::path::{Path, PathBuf};
use trainyard_api::{StageContext, checkpoint};
use trainyard_core::error::io_error;
use trainyard_core::{Error, Result};

/// Prefix of the names of the trainer's files in a resume point.
const PREFIX: &str = "trainer-";

/// Stores the trainer's checkpoint `folder` as the resume point of the last reported step. Errors: data (the folder is
/// missing), and those of the disk.
pub fn save(context: &StageContext, progress: &TrainerProgress, folder: &Path) -> Result<()> {
    let step = progress.steps;
    if !folder.is_dir() {
        return Err(Error::data(format!(
            "the trainer's checkpoint of step {step} is not a folder: {}",
            folder.display()
        ))
        .help("report a checkpoint once it is complete, by its absolute path, and keep it until the next one"));
    }
    checkpoint::save(context, step, progress, |to| {
        for name in list_files(folder)? {
            let (from, to) = (folder.join(&name), to.join(packed(&name)));
            std::fs::hard_link(&from, &to)
                .or_else(|_| std::fs::copy(&from, &to).map(|_| ()))
                .map_err(|e| io_error(&from, &e))?;
        }
        Ok(())
    })
}

/// Restores the newest resume point to `folder`, in the trainer's layout. Returns the reports up to it, or `None` if
/// there is no resume point.
pub fn latest(context: &StageContext, folder: &Path) -> Result<Option<TrainerProgress>> {
    let Some((progress, from)) = checkpoint::latest::<TrainerProgress>(context)? else { return Ok(None) };
    for entry in std::fs::read_dir(&from).map_err(|e| io_error(&from, &e))? {
        let path = entry.map_err(|e| io_error(&from, &e))?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let Some(name) = name.strip_prefix(PREFIX) else { continue };
        let to = folder.join(unpacked(name));
        if let Some(parent) = to.parent() {
            std::fs::create_dir_all(parent).map_err(|e| io_error(parent, &e))?;
        }
        // The file is copied, since trainers write into the folder that they resume from.
        std::fs::copy(&path, &to).map_err(|e| io_error(&to, &e))?;
    }
    Ok(Some(progress))
}

/// Returns the relative paths of all files below a folder, sorted.
fn list_files(folder: &Path) -> Result<Vec<PathBuf>> {
    let (mut found, mut pending) = (Vec::new(), vec![PathBuf::new()]);
    while let Some(at) = pending.pop() {
        let current = folder.join(&at);
        for entry in std::fs::read_dir(&current).map_err(|e| io_error(&current, &e))? {
            let path = at.join(entry.map_err(|e| io_error(&current, &e))?.file_name());
            if folder.join(&path).is_dir() { pending.push(path) } else { found.push(path) }
        }
    }
    found.sort();
    Ok(found)
}

fn packed(name: &Path) -> String {
    format!("{PREFIX}{}", name.to_string_lossy().replace('%', "%25").replace('/', "%2F"))
}

fn unpacked(name: &str) -> PathBuf {
    PathBuf::from(name.replace("%2F", "/").replace("%25", "%"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::context;

    #[test]
    fn checkpoint_with_subfolders_is_restored() {
        let folder = tempfile::tempdir().unwrap();
        let context = context(folder.path());
        assert!(latest(&context, &folder.path().join("none")).unwrap().is_none());
        let checkpoint_folder = folder.path().join("checkpoint-5");
        std::fs::create_dir_all(checkpoint_folder.join("global_step5/a%2Fb")).unwrap();
        std::fs::write(checkpoint_folder.join("weights"), "w").unwrap();
        std::fs::write(checkpoint_folder.join("global_step5/a%2Fb/rank0"), "r").unwrap();
        let mut progress = TrainerProgress { steps: 5, ..TrainerProgress::default() };
        progress.curves.add("loss", 5, 0.5).unwrap();
        save(&context, &progress, &checkpoint_folder).unwrap();
        let restored = folder.path().join("back");
        assert_eq!(latest(&context, &restored).unwrap().as_ref(), Some(&progress));
        assert_eq!(list_files(&restored).unwrap(), list_files(&checkpoint_folder).unwrap());
        assert_eq!(std::fs::read_to_string(restored.join("global_step5/a%2Fb/rank0")).unwrap(), "r");
        progress.steps = 6;
        let missing = save(&context, &progress, &folder.path().join("checkpoint-6")).unwrap_err();
        assert!(missing.message.contains("step 6 is not a folder"), "{missing}");
    }
}
