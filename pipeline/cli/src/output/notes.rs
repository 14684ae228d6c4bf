//! Formats notes about artifacts and rows.

use std::fmt::Write as _;
use trainyard_views::annotations::NoteRow;

/// Formats notes, each with its number, row, author and time: `2 (row 17, by ada, 2026-11-28 10:00): text`. Further
/// lines of a text are indented.
pub fn lines(notes: &[NoteRow]) -> String {
    let mut text = String::new();
    for note in notes {
        let row = note.row.map(|row| format!("row {row}, ")).unwrap_or_default();
        let by = note.by.as_ref().map(|by| format!("by {by}, ")).unwrap_or_default();
        let at = note.at.get(..16).unwrap_or_default().replace('T', " ");
        let body = note.text.trim_end().replace('\n', "\n  ");
        let _ = writeln!(text, "{} ({row}{by}{at} UTC): {body}", note.number);
    }
    text.trim_end().to_string()
}

/// Formats notes like [`lines`], indented.
pub fn indented(notes: &[NoteRow]) -> String {
    lines(notes).lines().map(|line| format!("  {line}")).collect::<Vec<_>>().join("\n")
}

/// Formats the notes that belong below a page or a row, with a heading; empty without notes.
pub fn below(notes: &[NoteRow]) -> String {
    if notes.is_empty() { String::new() } else { format!("\n\nnotes:\n{}", indented(notes)) }
}

/// Formats the notes about one row like [`below`].
pub fn below_row(notes: &[NoteRow], row: usize) -> String {
    let of_row: Vec<NoteRow> = notes.iter().filter(|note| note.row == Some(row as u64)).cloned().collect();
    below(&of_row)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(number: u64, row: Option<u64>, by: Option<&str>) -> NoteRow {
        let (text, by) = ("one\ntwo".to_string(), by.map(str::to_string));
        NoteRow { number, row, text, by, at: "2026-11-28T10:00:59.000Z".into() }
    }

    #[test]
    fn notes_name_their_row_and_author() {
        let notes = [note(1, None, None), note(3, Some(17), Some("ada"))];
        let expected = "1 (2026-11-28 10:00 UTC): one\n  two\n3 (row 17, by ada, 2026-11-28 10:00 UTC): one\n  two";
        assert_eq!(lines(&notes), expected);
        assert_eq!(below_row(&notes, 17), "\n\nnotes:\n  3 (row 17, by ada, 2026-11-28 10:00 UTC): one\n    two");
        assert_eq!(below_row(&notes, 1), "");
        assert_eq!(below(&[]), "");
    }
}
