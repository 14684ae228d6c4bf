//! Tests the detection of files that are added, changed, broken, moved and removed.

use super::*;
use crate::testing;
use tempfile::TempDir;

fn compiled(path: &Path) -> Result<Compilation> {
    testing::compiled(path, &[])
}

struct FolderFixture {
    root: TempDir,
    folder: WorkflowFolder,
}

impl FolderFixture {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        let folder = WorkflowFolder::new(root.path()).unwrap();
        Self { root, folder }
    }
    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.root.path().join(name), text).unwrap();
    }
    /// Returns the changes of a check, in short.
    fn look(&mut self) -> Vec<String> {
        let changes = self.folder.poll(&compiled).unwrap();
        let lines = changes.into_iter().map(|change| match change {
            FolderChange::Defined { name, file, .. } => format!("+{name} {file}"),
            FolderChange::Removed { name } => format!("-{name}"),
            FolderChange::Broken { file, why } => format!("!{file} {}", why.lines().next().unwrap_or_default()),
        });
        lines.collect()
    }
}

fn workflow(name: &str, cron: &str) -> String {
    format!(
        "version: 1\nname: {name}\nschedule: {{cron: \"{cron}\"}}\nstages:\n  one: {{run: [\"true\"], cache: false}}\n"
    )
}

#[test]
fn only_changed_files_are_read_again() {
    let mut place = FolderFixture::new();
    place.write("a.yaml", &workflow("a", "0 2 * * *"));
    place.write("notes.txt", "schedule: nonsense");
    place.write("part.yaml", "stages: {}\n");
    assert_eq!(place.look(), ["+a a.yaml"], "files without a schedule may lie beside");
    let file = place.folder.workflows().into_iter().find(|file| file.file == "a.yaml").unwrap();
    assert_eq!((file.workflow.as_str(), file.is_scheduled, file.mistakes), ("a", true, None));
    assert_eq!(place.look(), Vec::<String>::new());
    place.write("a.yaml", &workflow("a", "0 12 * * *"));
    assert_eq!(place.look(), ["+a a.yaml"]);
    place.write("a.yaml", &workflow("renamed", "0 12 * * *"));
    assert_eq!(place.look(), ["-a", "+renamed a.yaml"]);
    std::fs::rename(place.root.path().join("a.yaml"), place.root.path().join("b.yml")).unwrap();
    assert_eq!(place.look(), ["+renamed b.yml"], "one that moved is not gone");
    std::fs::remove_file(place.root.path().join("b.yml")).unwrap();
    assert_eq!(place.look(), ["-renamed"]);
}

#[test]
fn changed_parent_updates_its_children() {
    let mut place = FolderFixture::new();
    place.write("parent.yaml", &workflow("parent", "0 2 * * *").replace("schedule: {cron: \"0 2 * * *\"}\n", ""));
    place.write("child.yaml", "extends: ./parent.yaml\nname: child\nschedule: {cron: \"0 2 * * *\"}\n");
    assert_eq!(place.look(), ["+child child.yaml"]);
    let longer = workflow("parent", "x").replace("schedule: {cron: \"x\"}\n", "description: longer\n");
    place.write("parent.yaml", &longer);
    assert_eq!(place.look(), ["+child child.yaml"]);
}

#[test]
fn broken_file_keeps_its_schedule_and_is_reported_once() {
    let mut place = FolderFixture::new();
    place.write("a.yaml", &workflow("a", "0 2 * * *"));
    place.look();
    place.write("a.yaml", &workflow("a", "61 2 * * *"));
    let changes = place.look();
    assert_eq!(changes.len(), 1);
    assert!(changes[0].starts_with("!a.yaml ") && changes[0].contains("not a cron pattern"), "{changes:?}");
    assert_eq!(place.look(), Vec::<String>::new());
    assert_eq!(place.folder.schedules().collect::<Vec<_>>(), ["a"]);
    assert_eq!(place.folder.broken().len(), 1);
    place.write("a.yaml", &workflow("a", "1 2 * * *"));
    assert_eq!(place.look(), ["+a a.yaml"]);
    assert!(place.folder.broken().is_empty());
}

#[test]
fn new_broken_file_and_duplicate_name_are_reported() {
    let mut place = FolderFixture::new();
    place.write("a.yaml", "version: 1\nname: a\nschedule: {cron: \"0 2 * * *\"}\nstages: {}\n");
    assert!(place.look()[0].starts_with("!a.yaml "));
    place.write("b.yaml", &workflow("same", "0 2 * * *"));
    place.write("c.yaml", &workflow("same", "0 3 * * *"));
    assert_eq!(place.look(), ["+same b.yaml", "!c.yaml b.yaml also defines the workflow `same`"]);
}

#[test]
fn missing_folder_is_reported() {
    let error = WorkflowFolder::new(Path::new("/nowhere/at/all")).err().unwrap();
    assert!(error.message.contains("/nowhere/at/all"), "{error}");
}
