//! Attaches notes to the content of artifacts and to their rows. Notes keep nothing from garbage collection, which
//! removes the notes of removed artifacts.
//!
//! Each note and each removal of a note is a record `notes/<aa>/<output-digest>/<n>`. The number of a note is that of
//! its record, so it never changes.

use crate::layout;
use crate::statements::{FORMAT, append, read};
use crate::store::Store;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use trainyard_core::{Digest, Result};

/// Note about an artifact or one of its rows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Note {
    /// Digest of the output's content.
    pub output: Digest,
    /// Number of the note.
    pub number: u64,
    /// Position of the row, from 0; `None` for the whole artifact.
    pub row: Option<u64>,
    /// Text of the note.
    pub text: String,
    /// Time of the note, in Unix milliseconds.
    pub at: i64,
    /// Author of the note.
    pub by: Option<String>,
}

/// Record about the notes of an output.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct NoteRecord {
    /// Version of this format: 1.
    format: u32,
    /// Time of the record, in Unix milliseconds.
    at: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    by: Option<String>,
    #[serde(flatten)]
    change: NoteChange,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum NoteChange {
    Added {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        row: Option<u64>,
        text: String,
    },
    /// Number of the removed note.
    Removed(u64),
}

impl Store {
    /// Adds a note to an output or one of its rows, and returns its number.
    ///
    /// Errors: invalid (the store was opened read-only), data (an earlier record cannot be read).
    pub async fn add_note(&self, output: &Digest, row: Option<u64>, text: &str, by: Option<&str>) -> Result<u64> {
        let change = NoteChange::Added { row, text: text.to_string() };
        let record = self.note_record(change, by);
        let number = append(self, &layout::notes(output), |_| Some(record.clone())).await?;
        Ok(number.unwrap_or_default())
    }
    /// Removes a note. Returns whether it existed. Errors: those of [`Store::add_note`].
    pub async fn remove_note(&self, output: &Digest, number: u64, by: Option<&str>) -> Result<bool> {
        let record = self.note_record(NoteChange::Removed(number), by);
        let next = |before: &[(u64, NoteRecord)]| {
            notes_in_force(output, before).iter().any(|note| note.number == number).then(|| record.clone())
        };
        Ok(append(self, &layout::notes(output), next).await?.is_some())
    }
    /// Returns the notes of an output, oldest first. Errors: data (a record cannot be read), invalid (a newer program
    /// wrote it).
    pub async fn notes_of(&self, output: &Digest) -> Result<Vec<Note>> {
        Ok(notes_in_force(output, &read::<NoteRecord>(self, &layout::notes(output)).await?))
    }
    /// Returns the notes of all outputs that have any. Errors: those of [`Store::notes_of`].
    pub async fn notes(&self) -> Result<BTreeMap<Digest, Vec<Note>>> {
        let paths = self.list(layout::NOTES).await?;
        let outputs: BTreeSet<Digest> = paths.iter().filter_map(|path| noted_output(path)).collect();
        let mut notes = BTreeMap::new();
        for output in outputs {
            let of_output = self.notes_of(&output).await?;
            if !of_output.is_empty() {
                notes.insert(output, of_output);
            }
        }
        Ok(notes)
    }

    fn note_record(&self, change: NoteChange, by: Option<&str>) -> NoteRecord {
        NoteRecord { format: FORMAT, at: self.options().clock.unix_millis(), by: by.map(str::to_string), change }
    }
}

/// Returns the output digest in the path of a record.
pub(crate) fn noted_output(path: &str) -> Option<Digest> {
    path.split('/').nth(2).and_then(|digest| Digest::try_from(digest.to_string()).ok())
}

fn notes_in_force(output: &Digest, records: &[(u64, NoteRecord)]) -> Vec<Note> {
    let mut notes: BTreeMap<u64, Note> = BTreeMap::new();
    for (number, record) in records {
        match &record.change {
            NoteChange::Added { row, text } => {
                let (output, text, by) = (output.clone(), text.clone(), record.by.clone());
                notes.insert(*number, Note { output, number: *number, row: *row, text, at: record.at, by });
            }
            NoteChange::Removed(number) => drop(notes.remove(number)),
        }
    }
    notes.into_values().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::StoreOptions;

    #[tokio::test]
    async fn notes_keep_their_numbers() {
        let store = Store::open("memory://", StoreOptions::default()).await.unwrap();
        let output = Digest::of(b"o");
        assert_eq!(store.add_note(&output, None, "first", Some("ada")).await.unwrap(), 1);
        assert_eq!(store.add_note(&output, Some(3), "second", None).await.unwrap(), 2);
        assert!(store.remove_note(&output, 1, None).await.unwrap());
        assert!(!store.remove_note(&output, 1, None).await.unwrap(), "it was removed before");
        assert!(!store.remove_note(&output, 3, None).await.unwrap(), "record 3 is a removal");
        assert_eq!(store.add_note(&output, None, "third", None).await.unwrap(), 4);
        let notes = store.notes_of(&output).await.unwrap();
        let found: Vec<_> = notes.iter().map(|note| (note.number, note.row, note.text.as_str())).collect();
        assert_eq!(found, [(2, Some(3), "second"), (4, None, "third")]);
        assert_eq!(store.notes().await.unwrap().keys().collect::<Vec<_>>(), [&output]);
        assert!(store.notes_of(&Digest::of(b"other")).await.unwrap().is_empty());
    }
}
