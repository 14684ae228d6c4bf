//! Keeps the edits of rules on rows in a temporary file, by row, and applies them to batches.

use arrow_array::{Array, RecordBatch};
use arrow_select::interleave::interleave;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;
use trainyard_api::ScratchFile;
use trainyard_core::{Error, Result};
use trainyard_tables::{ExtraColumns, Message, Trajectory, encode_columns};

/// Columns that an edit replaces.
pub const EDITED_COLUMNS: [&str; 2] = ["messages", "answer"];

/// New messages of a row, with its answer.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct RowEdit {
    /// All messages.
    pub messages: Vec<Message>,
    /// Final answer.
    pub answer: Option<String>,
}

impl RowEdit {
    /// Creates an edit that replaces the messages of a row. An answer that is the whole last message is replaced too.
    pub fn of(row: &Trajectory, messages: Vec<Message>) -> Self {
        let is_whole_message = row.messages.last().is_some_and(|last| row.answer.as_ref() == Some(&last.content));
        let last = messages.last().filter(|_| is_whole_message);
        let answer = last.map_or_else(|| row.answer.clone(), |last| Some(last.content.clone()));
        Self { messages, answer }
    }
}

/// Edits by number of the row. In memory are their places.
pub struct RowEdits {
    file: ScratchFile,
    places: BTreeMap<usize, EditPlace>,
}

/// Place of an edit in the file.
#[derive(Debug, Clone, Copy)]
struct EditPlace {
    offset: u64,
    length: usize,
}

impl RowEdits {
    /// Creates the temporary file. Errors: those of [`ScratchFile::create`].
    pub fn create(path: &Path) -> Result<Self> {
        Ok(Self::in_file(ScratchFile::create(path)?))
    }
    fn in_file(file: ScratchFile) -> Self {
        Self { file, places: BTreeMap::new() }
    }
    /// Adds an edit, which replaces an earlier one of the row. Errors: retryable (a full disk).
    pub fn insert(&mut self, row: usize, edit: &RowEdit) -> Result<()> {
        let record = serde_json::to_vec(edit).map_err(|e| Error::bug(format!("an edit is not JSON: {e}")))?;
        let offset = self.file.append(&record)?;
        self.places.insert(row, EditPlace { offset, length: record.len() });
        Ok(())
    }
    /// Forgets the edits of the rows before `row`.
    pub fn release_before(&mut self, row: usize) {
        self.places = self.places.split_off(&row);
    }
    /// Returns a batch, the first row of which is row `first`, with the edits of its rows.
    ///
    /// Errors: bug (columns of another type than trajectories have), those of reading.
    pub fn applied(&self, batch: &RecordBatch, first: usize) -> Result<RecordBatch> {
        let places = self.places.range(first..first + batch.num_rows());
        let has_columns = EDITED_COLUMNS.iter().any(|name| batch.column_by_name(name).is_some());
        let read = |(row, place): (&usize, &EditPlace)| Ok((row - first, self.read(*place)?));
        let edits = if has_columns { places.map(read).collect::<Result<Vec<_>>>()? } else { Vec::new() };
        if edits.is_empty() {
            return Ok(batch.clone());
        }
        let row = |edit: &RowEdit| Trajectory {
            messages: edit.messages.clone(),
            answer: edit.answer.clone(),
            ..Trajectory::default()
        };
        let rows: Vec<Trajectory> = edits.iter().map(|(_, edit)| row(edit)).collect();
        let encoded =
            encode_columns(&rows.iter().collect::<Vec<_>>(), &EDITED_COLUMNS.map(str::to_string), ExtraColumns::ALL)?;
        let mut sources: Vec<(usize, usize)> = (0..batch.num_rows()).map(|i| (0, i)).collect();
        for (number, (i, _)) in edits.iter().enumerate() {
            sources[*i] = (1, number);
        }
        let mut columns = batch.columns().to_vec();
        for (field, column) in batch.schema_ref().fields().iter().zip(&mut columns) {
            if let Some(new) = encoded.column_by_name(field.name()) {
                let both: [&dyn Array; 2] = [&**column, &**new];
                *column = interleave(&both, &sources).map_err(unusual)?;
            }
        }
        RecordBatch::try_new(batch.schema(), columns).map_err(unusual)
    }

    fn read(&self, place: EditPlace) -> Result<RowEdit> {
        let mut record = vec![0; place.length];
        self.file.read_at(place.offset, &mut record)?;
        serde_json::from_slice(&record)
            .map_err(|e| Error::bug(format!("an edit in the temporary file is damaged: {e}")))
    }
}

fn unusual(error: impl std::fmt::Display) -> Error {
    Error::bug(format!("edited rows do not fit their columns: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filter::RuleRows;
    use trainyard_core::ErrorKind;

    fn row(id: &str, text: &str, answer: Option<&str>) -> Trajectory {
        Trajectory {
            id: id.into(),
            messages: vec![Message::new("user", "q"), Message::new("assistant", text)],
            answer: answer.map(str::to_string),
            ..Trajectory::default()
        }
    }

    fn new_messages() -> Vec<Message> {
        let call = Message { tool_calls: Some("[]".into()), ..Message::new("assistant", "new") };
        vec![Message::new("user", "q"), call]
    }

    #[test]
    fn an_answer_that_is_the_last_message_is_replaced_with_it() {
        let answer = |before| RowEdit::of(&row("a", "She has 5.", before), new_messages()).answer;
        assert_eq!(answer(Some("She has 5.")).as_deref(), Some("new"));
        assert_eq!(answer(Some("5")).as_deref(), Some("5"));
        assert_eq!(answer(None), None);
        let without = Trajectory { messages: Vec::new(), ..row("a", "", Some("5")) };
        assert_eq!(RowEdit::of(&without, new_messages()).answer.as_deref(), Some("5"));
    }

    #[test]
    fn only_the_edited_rows_of_a_batch_change() {
        let rows = [row("a", "x", Some("x")), row("b", "y", None), row("c", "z", Some("9"))];
        let batch = RuleRows::of(&rows.iter().collect::<Vec<_>>()).unwrap().batch().clone();
        let folder = tempfile::tempdir().unwrap();
        let mut edits = RowEdits::create(&folder.path().join("edits")).unwrap();
        edits.insert(10, &RowEdit::default()).unwrap();
        edits.insert(10, &RowEdit::of(&rows[0], new_messages())).unwrap();
        edits.insert(12, &RowEdit::of(&rows[2], new_messages())).unwrap();
        edits.insert(13, &RowEdit::default()).unwrap();
        let edited = |row: &Trajectory, answer: &str| Trajectory {
            messages: new_messages(),
            answer: Some(answer.into()),
            ..row.clone()
        };
        let read = |batch| RuleRows::new("x".as_ref(), batch).trajectories().unwrap().to_vec();
        let all = read(edits.applied(&batch, 10).unwrap());
        assert_eq!(all, [edited(&rows[0], "new"), rows[1].clone(), edited(&rows[2], "9")]);
        // A batch that starts elsewhere has the same rows under other numbers; one without edits is unchanged.
        assert_eq!(read(edits.applied(&batch.slice(1, 2), 11).unwrap()), all[1..]);
        assert_eq!(edits.applied(&batch, 20).unwrap(), batch);
        edits.release_before(12);
        assert_eq!(read(edits.applied(&batch, 10).unwrap()), [rows[0].clone(), rows[1].clone(), all[2].clone()]);
        // A column that the batch lacks is not needed.
        let part = batch.project(&[batch.schema_ref().index_of("messages").unwrap()]).unwrap();
        assert_eq!(edits.applied(&part, 10).unwrap().num_columns(), 1);
    }

    #[test]
    fn a_full_disk_is_an_error_of_the_edit() {
        let full = std::fs::File::options().read(true).write(true).open("/dev/full").unwrap();
        let mut edits = RowEdits::in_file(ScratchFile::of(Path::new("/disk/edits"), full));
        let long = RowEdit { answer: Some("x".repeat(5 << 20)), ..RowEdit::default() };
        let error = edits.insert(0, &long).unwrap_err();
        assert!(error.kind == ErrorKind::Retryable && error.message.starts_with("/disk: no room"), "{error}");
    }
}
