//! Formats differences of columns, rows, tensors and files.

use crate::output::metrics::number;
use crate::output::table::table;
use std::fmt::Write as _;
use trainyard_core::units::format_size;
use trainyard_views::artifacts::FileRow;
use trainyard_views::diff::{
    ChangedFile, ChangedRow, ChangedTensor, ColumnsDiff, FilesDiff, RowName, RowsDiff, TensorsDiff,
};

/// Maximum tensors, names or files of a list.
const MAX_LISTED: usize = 20;

/// Formats the columns that differ; `None` if none does.
pub fn columns(diff: &ColumnsDiff) -> Option<String> {
    let mut lines = Vec::new();
    for (side, names) in [("A", &diff.only_a), ("B", &diff.only_b)] {
        if !names.is_empty() {
            lines.push(format!("columns only in {side}: {}", names.join(", ")));
        }
    }
    let retyped = diff.retyped.iter();
    lines.extend(
        retyped.map(|column| format!("column {} has another type: {} → {}", column.column, column.a, column.b)),
    );
    (!lines.is_empty()).then(|| lines.join("\n"))
}

/// Formats the counts of rows, the changed columns, and the first rows of each kind.
pub fn rows(diff: &RowsDiff) -> String {
    let key = diff.key.as_ref().map_or_else(|| "position".to_string(), |key| format!("`{key}`"));
    let counts =
        [("only in A", diff.only_a), ("only in B", diff.only_b), ("equal", diff.equal), ("changed", diff.changed)];
    let counts: Vec<String> = counts.iter().map(|(name, count)| format!("{count} {name}")).collect();
    let mut text = format!("rows by {key}: {}", counts.join(", "));
    let repeated = [("A", diff.repeated_a), ("B", diff.repeated_b)].into_iter().filter(|(_, count)| *count > 0);
    for (side, count) in repeated {
        let _ =
            write!(text, "\nkeys are repeated in {count} {} of {side}; they are matched in their order", noun(count));
    }
    if !diff.columns.is_empty() {
        let columns: Vec<String> =
            diff.columns.iter().map(|column| format!("{} ({})", column.column, column.rows)).collect();
        let _ = write!(text, "\nchanged columns, with the number of rows: {}", columns.join(", "));
    }
    for row in &diff.first_changed {
        changed_row(&mut text, row);
    }
    let hidden = diff.changed - diff.first_changed.len();
    if hidden > 0 {
        let _ = write!(text, "\n… {hidden} more changed {}; `--rows N` shows more", noun(hidden));
    }
    for (side, first, count) in [("A", &diff.first_only_a, diff.only_a), ("B", &diff.first_only_b, diff.only_b)] {
        if !first.is_empty() {
            let names: Vec<String> = first.iter().map(row_name).collect();
            let more = if count > first.len() { ", …" } else { "" };
            let _ = write!(text, "\nonly in {side}: {}{more}", names.join(", "));
        }
    }
    text
}

fn noun(count: usize) -> &'static str {
    if count == 1 { "row" } else { "rows" }
}

fn row_name(row: &RowName) -> String {
    match &row.key {
        Some(key) => format!("{key} (row {})", row.row),
        None => format!("row {}", row.row),
    }
}

fn changed_row(text: &mut String, row: &ChangedRow) {
    let places = format!("row {} of A, row {} of B", row.row_a, row.row_b);
    match &row.key {
        Some(key) => text.push_str(&format!("\n\n{key} ({places})")),
        None => text.push_str(&format!("\n\n{places}")),
    }
    for cell in &row.cells {
        let line = |cell: &str| cell.replace('\n', "⏎");
        let _ = write!(text, "\n  {}\n    A  {}\n    B  {}", cell.column, line(&cell.a), line(&cell.b));
    }
}

/// Formats the tensors that differ, those with the largest relative difference first.
pub fn tensors(diff: &TensorsDiff) -> String {
    let mut text = format!("tensors: {} equal, {} changed", diff.equal, diff.changed.len());
    let others =
        [("other shape", diff.reshaped.len()), ("only in A", diff.only_a.len()), ("only in B", diff.only_b.len())];
    for (name, count) in others.into_iter().filter(|(_, count)| *count > 0) {
        let _ = write!(text, ", {count} {name}");
    }
    if let Some(relative) = diff.relative {
        let _ = write!(text, "; ‖a−b‖/‖a‖ of all {}", number(relative));
    }
    if !diff.changed.is_empty() {
        let rows: Vec<Vec<String>> = diff.changed.iter().take(MAX_LISTED).map(tensor_row).collect();
        let _ = write!(text, "\n{}", table(&["tensor", "shape", "type", "‖a−b‖/‖a‖", "‖a−b‖"], &rows));
    }
    more(&mut text, diff.changed.len(), "changed tensors");
    for tensor in diff.reshaped.iter().take(MAX_LISTED) {
        let _ = write!(text, "\n{} has another shape: {:?} → {:?}", tensor.name, tensor.a, tensor.b);
    }
    more(&mut text, diff.reshaped.len(), "tensors of another shape");
    for (side, names) in [("A", &diff.only_a), ("B", &diff.only_b)] {
        if !names.is_empty() {
            let shown: Vec<&str> = names.iter().take(MAX_LISTED).map(String::as_str).collect();
            let _ = write!(text, "\nonly in {side}: {}", shown.join(", "));
            more(&mut text, names.len(), &format!("only in {side}"));
        }
    }
    text
}

fn tensor_row(tensor: &ChangedTensor) -> Vec<String> {
    let or_dash = |value: Option<f64>| value.map_or_else(|| "-".to_string(), number);
    let dtype = match tensor.dtype_a == tensor.dtype_b {
        true => tensor.dtype_a.clone(),
        false => format!("{} → {}", tensor.dtype_a, tensor.dtype_b),
    };
    let shape = format!("{:?}", tensor.shape);
    vec![tensor.name.clone(), shape, dtype, or_dash(tensor.relative), or_dash(tensor.norm)]
}

fn more(text: &mut String, count: usize, what: &str) {
    if count > MAX_LISTED {
        let _ = write!(text, "\n… {} more {what}; `--format json` lists them", count - MAX_LISTED);
    }
}

/// Formats the files that differ; `None` if none does.
pub fn files(diff: &FilesDiff) -> Option<String> {
    let FilesDiff { only_a, only_b, changed, equal, .. } = diff;
    if only_a + only_b + changed == 0 {
        return None;
    }
    let mut text = format!("files: {only_a} only in A, {only_b} only in B, {equal} equal, {changed} changed");
    for ChangedFile { a, b } in diff.first_changed.iter().take(MAX_LISTED) {
        let _ = write!(text, "\n  changed    {}, {} → {}", a.path, format_size(a.bytes), format_size(b.bytes));
    }
    more(&mut text, *changed, "changed files");
    for (side, first, count) in [("A", &diff.first_only_a, only_a), ("B", &diff.first_only_b, only_b)] {
        for FileRow { path, bytes, .. } in first.iter().take(MAX_LISTED) {
            let _ = write!(text, "\n  only in {side}  {path}, {}", format_size(*bytes));
        }
        more(&mut text, *count, &format!("files only in {side}"));
    }
    Some(text)
}
