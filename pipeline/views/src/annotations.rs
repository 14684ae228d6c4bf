//! Tags of runs and notes about artifacts, as users give them.

use crate::run_names::{LATEST, LATEST_SUCCESS};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use trainyard_core::units::format_time;
use trainyard_core::{Digest, Error, Result, RunId};
use trainyard_store::{Note, Store, Tag};

/// Maximum characters of a tag.
const MAX_TAG: usize = 64;
/// Maximum bytes of a note.
const MAX_NOTE: usize = 4 << 10;
/// Digits at the beginning of a run id: its date.
const DATE_DIGITS: usize = 8;

/// Note about an artifact or one of its rows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NoteRow {
    /// Number of the note.
    pub number: u64,
    /// Position of the row, from 0; null for the whole artifact.
    pub row: Option<u64>,
    /// Text of the note.
    pub text: String,
    /// Author of the note.
    pub by: Option<String>,
    /// Time of the note; RFC 3339, UTC.
    pub at: String,
}

/// Names of the tags of runs.
pub type RunTags = BTreeMap<RunId, Vec<String>>;

/// Checks the name of a tag. Errors: invalid (other characters, too long, the name of another run).
pub fn check_tag(name: &str) -> Result<()> {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    let wrong = |why: &str| {
        Err(Error::invalid(format!("`{name}` cannot be a tag: {why}"))
            .help("a tag has letters, digits, `.`, `_` and `-`, e.g. `paper-table-2`"))
    };
    if name.is_empty() {
        return wrong("it is empty");
    }
    if name.chars().count() > MAX_TAG {
        return wrong(&format!("it is longer than {MAX_TAG} characters"));
    }
    if !name.chars().all(is_allowed) {
        return wrong("it has other characters");
    }
    if name == LATEST || name == LATEST_SUCCESS {
        return wrong("it already names a run");
    }
    if is_like_run_id(name) {
        return wrong("it looks like a run id");
    }
    Ok(())
}

/// Returns whether a name may be a prefix of a run id, such as `20261121-041530-7f3a9c`.
fn is_like_run_id(name: &str) -> bool {
    let digits = name.bytes().take_while(u8::is_ascii_digit).count();
    digits == name.len() || (digits == DATE_DIGITS && name.as_bytes()[digits] == b'-')
}

/// Checks the text of a note. Errors: invalid (empty, too long).
pub fn check_note(text: &str) -> Result<()> {
    if text.trim().is_empty() {
        return Err(Error::invalid("the note is empty").help("write its text after the artifact"));
    }
    if text.len() > MAX_NOTE {
        return Err(Error::invalid(format!("the note has {} bytes: at most {MAX_NOTE} are stored", text.len()))
            .help("shorten it, or keep the text in a file and name the file"));
    }
    Ok(())
}

/// Returns the tags of all runs that have any. Errors: those of the store.
pub async fn tags(store: &Store) -> Result<RunTags> {
    Ok(store.tags().await?.into_iter().map(|(run, tags)| (run, names(tags))).collect())
}

/// Returns the tags of a run, sorted. Errors: those of the store.
pub async fn tags_of(store: &Store, run: &RunId) -> Result<Vec<String>> {
    store.tags_of(run).await.map(names)
}

fn names(tags: Vec<Tag>) -> Vec<String> {
    tags.into_iter().map(|tag| tag.tag).collect()
}

/// Returns the notes about an output and its rows, oldest first. Errors: those of the store.
pub async fn notes_of(store: &Store, output: &Digest) -> Result<Vec<NoteRow>> {
    Ok(store.notes_of(output).await?.into_iter().map(NoteRow::from).collect())
}

/// Returns a name `RUN/STAGE/OUTPUT` of each output content in the store: that of the publication read first. Errors:
/// those of the store; a manifest that cannot be read is skipped.
pub async fn names_of_outputs(store: &Store) -> Result<BTreeMap<Digest, String>> {
    let mut names = BTreeMap::new();
    for (stage, generation) in store.list_manifests().await? {
        let Ok(Some(manifest)) = store.manifest_at(&stage, generation).await else { continue };
        let made = &manifest.provenance;
        for (port, output) in &manifest.outputs {
            names.entry(output.digest.clone()).or_insert_with(|| format!("{}/{}/{port}", made.run, made.stage));
        }
    }
    Ok(names)
}

/// Returns the run with a tag; `None` if no run has it. Errors: invalid (several runs have it).
pub fn tagged_run(name: &str, runs: &[RunId], tags: &RunTags) -> Result<Option<RunId>> {
    let has_tag = |run: &&RunId| tags.get(*run).is_some_and(|tags| tags.iter().any(|tag| tag == name));
    let found: Vec<&RunId> = runs.iter().filter(has_tag).collect();
    match found.as_slice() {
        [] => Ok(None),
        [one] => Ok(Some((*one).clone())),
        many => {
            let ids: Vec<String> = many.iter().map(|run| format!("`{run}`")).collect();
            Err(Error::invalid(format!("{} runs have the tag `{name}`: {}", many.len(), ids.join(", ")))
                .help("use a run id, or remove the tag from the others with `trainyard runs untag`"))
        }
    }
}

impl From<Note> for NoteRow {
    fn from(note: Note) -> Self {
        let Note { number, row, text, at, by, output: _ } = note;
        Self { number, row, text, by, at: format_time(at) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_tags_are_checked() {
        for name in ["best", "paper-table-2", "v1.0_a", "2026-paper", "20261121x", "a"] {
            check_tag(name).unwrap();
        }
        check_tag(&"x".repeat(64)).unwrap();
        let wrong = |name: &str, why: &str| {
            let message = check_tag(name).unwrap_err().message;
            assert!(message.ends_with(why), "{message}");
        };
        wrong("", "it is empty");
        wrong(&"x".repeat(65), "longer than 64 characters");
        wrong("a b", "it has other characters");
        wrong("a/b", "it has other characters");
        wrong("größe", "it has other characters");
        wrong("latest", "it already names a run");
        wrong("latest-success", "it already names a run");
        wrong("2026", "it looks like a run id");
        wrong("20261121-041530-7f3a9c", "it looks like a run id");
        wrong("20261121-x", "it looks like a run id");
    }

    #[test]
    fn notes_are_bounded() {
        check_note(&"x".repeat(4_096)).unwrap();
        assert!(check_note(&"x".repeat(4_097)).unwrap_err().message.contains("4097 bytes"));
        assert!(check_note(" \n").unwrap_err().message.contains("empty"));
    }

    #[test]
    fn a_tag_names_a_run_if_it_is_unique() {
        let runs: Vec<RunId> = ["20261121-a", "20261121-b"].map(|id| RunId(id.into())).to_vec();
        let removed = RunId("20261120-c".into());
        let both = vec!["both".to_string(), "one".to_string()];
        let tags = RunTags::from([
            (runs[0].clone(), both),
            (runs[1].clone(), vec!["both".to_string()]),
            (removed, vec!["gone".to_string()]),
        ]);
        assert_eq!(tagged_run("one", &runs, &tags).unwrap(), Some(runs[0].clone()));
        assert_eq!(tagged_run("none", &runs, &tags).unwrap(), None);
        assert_eq!(tagged_run("gone", &runs, &tags).unwrap(), None, "its run was removed");
        let message = tagged_run("both", &runs, &tags).unwrap_err().message;
        assert_eq!(message, "2 runs have the tag `both`: `20261121-a`, `20261121-b`");
    }
}
