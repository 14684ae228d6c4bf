//! Stores and restores resume points: a checkpoint of the trainer, with its reports up to that step.

use crate::progress::TrainerProgress;
use std::path::Path;
use trainyard_api::{StageContext, checkpoint, checkpoint_folder};
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
    checkpoint::save(context, step, progress, |to| checkpoint_folder::pack(folder, PREFIX, to))
}

/// Restores the newest resume point to `folder`, in the trainer's layout. Returns the reports up to it, or `None` if
/// there is no resume point.
pub fn latest(context: &StageContext, folder: &Path) -> Result<Option<TrainerProgress>> {
    let Some((progress, from)) = checkpoint::latest::<TrainerProgress>(context)? else { return Ok(None) };
    checkpoint_folder::restore(&from, PREFIX, folder)?;
    Ok(Some(progress))
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
        assert_eq!(std::fs::read_to_string(restored.join("weights")).unwrap(), "w");
        assert_eq!(std::fs::read_to_string(restored.join("global_step5/a%2Fb/rank0")).unwrap(), "r");
        assert_eq!(std::fs::read_dir(&restored).unwrap().count(), 2, "the reports are no file of the trainer");
        progress.steps = 6;
        let missing = save(&context, &progress, &folder.path().join("checkpoint-6")).unwrap_err();
        assert!(missing.message.contains("step 6 is not a folder"), "{missing}");
    }
}
