//! Tests the lines that announce checkpoints, and the folders that are stored and restored.

use super::*;
use crate::attempt::tests::RecordingReporter;
use std::io::Write as _;
use std::sync::{Arc, Mutex};
use tempfile::TempDir;
use trainyard_core::attempt::AttemptMessage;

/// Checkpoint store in a folder. It saves only while its gate is open.
struct GatedCheckpoints {
    folder: PathBuf,
    gate: Arc<Mutex<()>>,
}

impl GatedCheckpoints {
    fn steps(&self) -> Vec<u64> {
        let entries = std::fs::read_dir(&self.folder).unwrap();
        let mut steps: Vec<u64> =
            entries.map(|entry| entry.unwrap().file_name().to_str().unwrap().parse().unwrap()).collect();
        steps.sort_unstable();
        steps
    }
}

impl CheckpointStore for GatedCheckpoints {
    fn latest(&self) -> Result<Option<(u64, PathBuf)>> {
        Ok(self.steps().last().map(|step| (*step, self.folder.join(step.to_string()))))
    }
    fn save(&self, step: u64, folder: &Path) -> Result<()> {
        let _open = self.gate.lock().unwrap();
        let to = self.folder.join(step.to_string());
        std::fs::create_dir(&to).unwrap();
        for file in std::fs::read_dir(folder).unwrap() {
            let file = file.unwrap();
            std::fs::copy(file.path(), to.join(file.file_name())).unwrap();
        }
        Ok(())
    }
}

/// A command with its working folder `work`.
struct Scene {
    folder: TempDir,
    store: Arc<GatedCheckpoints>,
    reporter: Arc<RecordingReporter>,
    context: StageContext,
}

impl Scene {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (work, stored) = (folder.path().join("work"), folder.path().join("stored"));
        std::fs::create_dir(&work).unwrap();
        std::fs::create_dir(&stored).unwrap();
        let store = Arc::new(GatedCheckpoints { folder: stored, gate: Arc::default() });
        let reporter = Arc::new(RecordingReporter::default());
        let context = StageContext::new(work, reporter.clone(), store.clone());
        Self { folder, store, reporter, context }
    }
    fn metrics(&self) -> PathBuf {
        self.context.scratch.join("metrics.jsonl")
    }
    fn follower(&self, resumed: Option<u64>) -> CheckpointFollower<'_> {
        let staging = Some(self.folder.path().join("staging"));
        CheckpointFollower::new(&self.context, &self.metrics(), &CommandCheckpoints { resumed, staging }).unwrap()
    }
    /// Writes the checkpoint of a step.
    fn write(&self, step: u64) {
        let folder = self.context.scratch.join(format!("c/{step}/deep"));
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("steps"), step.to_string()).unwrap();
    }
    /// Appends the line of a step.
    fn announce(&self, step: u64) {
        let mut file = std::fs::File::options().append(true).create(true).open(self.metrics()).unwrap();
        writeln!(file, "{{\"checkpoint\": \"c/{step}\", \"step\": {step}}}").unwrap();
    }
    fn logged(&self, text: &str) -> bool {
        let messages = self.reporter.0.lock().unwrap();
        messages.iter().any(|message| matches!(message, AttemptMessage::Log { text: line, .. } if line.contains(text)))
    }
}

/// Looks for new lines now.
fn poll(follower: &mut CheckpointFollower<'_>) -> Result<()> {
    follower.next = Duration::ZERO;
    follower.poll()
}

#[test]
fn last_of_the_new_lines_is_stored_and_restored() {
    let mut scene = Scene::new();
    scene.announce(10);
    scene.write(20);
    scene.announce(20);
    scene.follower(None).finish().unwrap();
    assert_eq!(scene.store.steps(), [20], "the folder of step 10 may have been removed");
    let resume = scene.folder.path().join("resume");
    assert_eq!(restore(&mut scene.context, &resume).unwrap(), Some(20));
    assert_eq!(std::fs::read_to_string(resume.join("deep/steps")).unwrap(), "20");
    assert_eq!(scene.context.env[RESUME_VARIABLE], resume.display().to_string());
    assert!(scene.logged("resuming after step 20"));
    assert!(!scene.folder.path().join("staging").exists());
}

#[test]
fn command_without_a_resume_point_has_no_variable() {
    let mut scene = Scene::new();
    let resume = scene.folder.path().join("resume");
    assert_eq!(restore(&mut scene.context, &resume).unwrap(), None);
    assert!(scene.context.env.is_empty() && !resume.exists());
    scene.follower(None).finish().unwrap();
    assert!(CheckpointFollower::new(&scene.context, &scene.metrics(), &CommandCheckpoints::default()).is_none());
}

#[test]
fn step_that_does_not_grow_is_ignored() {
    let scene = Scene::new();
    for step in [20, 30, 30] {
        scene.write(step);
        scene.announce(step);
    }
    scene.follower(Some(20)).finish().unwrap();
    assert_eq!(scene.store.steps(), [30]);
    assert!(scene.logged("$TRAINYARD_METRICS line 1 is ignored: its step 20 is not above step 20"));
    assert!(scene.logged("$TRAINYARD_METRICS line 3 is ignored"));
}

#[test]
fn lines_are_read_again_once_a_folder_is_stored() {
    let scene = Scene::new();
    let mut follower = scene.follower(None);
    let gate = scene.store.gate.clone();
    let closed = gate.lock().unwrap();
    scene.write(10);
    scene.announce(10);
    follower.next = Duration::MAX;
    follower.poll().unwrap();
    assert!(follower.saving.is_none(), "it is not time to look");
    poll(&mut follower).unwrap();
    for step in [20, 30] {
        scene.announce(step);
        poll(&mut follower).unwrap();
    }
    scene.write(30);
    assert_eq!((follower.step, scene.store.steps()), (Some(10), vec![]));
    drop(closed);
    follower.finish().unwrap();
    assert_eq!(scene.store.steps(), [10, 30]);
}

#[test]
fn missing_folder_is_an_error_unless_a_later_one_was_announced() {
    let scene = Scene::new();
    let mut follower = scene.follower(None);
    scene.announce(10);
    poll(&mut follower).unwrap();
    scene.write(20);
    scene.announce(20);
    follower.finish().unwrap();
    assert_eq!(scene.store.steps(), [20]);
    assert!(scene.logged("the checkpoint of step 20 is stored instead"));
    scene.announce(30);
    let error = scene.follower(Some(20)).finish().unwrap_err();
    assert_eq!(error.kind, ErrorKind::Data);
    let message = "$TRAINYARD_METRICS line 3: the checkpoint of step 30 is not a folder: ";
    assert!(error.message.starts_with(message) && error.message.ends_with("work/c/30"), "{error}");
}
