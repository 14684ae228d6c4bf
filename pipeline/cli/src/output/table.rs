//! Formats tables: padded columns that fit the terminal.

use super::clean::{AllowedCodes, clean};
use super::style::Style;
use super::width;

/// Number of spaces between two columns.
const GAP: usize = 2;
/// Minimum width to which a column is narrowed, unless all of its cells are shorter.
const NARROWEST: usize = 20;
/// Indentation of cells below their row.
const BELOW: &str = "    ";
/// Headers of status columns.
const STATUS: [&str; 3] = ["", "decision", "status"];

/// Formats a table. Columns are padded to their widest cell, and columns of numbers are right-aligned. On a terminal,
/// wide cells are wrapped between words, and the last columns of a table that is still too wide are written below each
/// row. A line feed in a cell is replaced by a symbol, so that a name cannot look like a row.
pub fn table(header: &[&str], rows: &[Vec<String>]) -> String {
    let cell = |cell: &String| clean(cell, AllowedCodes::Nothing).replace('\n', "⏎");
    let rows: Vec<Vec<String>> = rows.iter().map(|row| row.iter().map(cell).collect()).collect();
    draw(header, &rows, width::of_stdout(), Style::of_stdout())
}

/// Widths of one column.
struct Column {
    /// Width of the widest cell.
    natural: usize,
    /// Width to which the column may be narrowed, so that no word is broken.
    least: usize,
    is_numeric: bool,
}

impl Column {
    fn of(header: &[&str], rows: &[Vec<String>], column: usize) -> Self {
        let cells = || rows.iter().filter_map(|r| r.get(column)).map(String::as_str).chain([header[column]]);
        let natural = cells().map(|cell| cell.chars().count()).max().unwrap_or(0);
        let longest = cells().flat_map(|cell| cell.split(' ')).map(|word| word.chars().count()).max().unwrap_or(0);
        let least = if natural > NARROWEST { longest.max(NARROWEST) } else { longest };
        Self { natural, least, is_numeric: is_numeric(rows, column) }
    }
}

fn draw(header: &[&str], rows: &[Vec<String>], max_width: Option<usize>, style: Style) -> String {
    let mut columns: Vec<Column> = (0..header.len()).map(|column| Column::of(header, rows, column)).collect();
    columns.truncate(max_width.map_or(columns.len(), |max_width| side_by_side(&columns, max_width)));
    let widths = fit(&columns, max_width.unwrap_or(usize::MAX));
    let mut lines = Vec::new();
    let head: Vec<String> = header.iter().map(ToString::to_string).collect();
    for (at, cells) in std::iter::once(&head).chain(rows).enumerate() {
        let paint = |column: usize, text: &str| match (at, STATUS.contains(&header[column])) {
            (0, _) => style.bold(text),
            (_, true) => style.status(text),
            _ => text.to_string(),
        };
        lines.extend(row(&cells[..columns.len().min(cells.len())], &columns, &widths, paint));
        if at > 0 && columns.len() < header.len() {
            lines.extend(below(header, cells, columns.len(), max_width.unwrap_or(usize::MAX)));
        }
    }
    lines.join("\n")
}

/// Formats the cells of a row side by side. Wide cells take several lines.
fn row(cells: &[String], columns: &[Column], widths: &[usize], paint: impl Fn(usize, &str) -> String) -> Vec<String> {
    let broken: Vec<Vec<String>> = cells.iter().zip(widths).map(|(cell, width)| break_cell(cell, *width)).collect();
    let height = broken.iter().map(Vec::len).max().unwrap_or(1);
    let line = |at: usize| {
        let padded = broken.iter().enumerate().map(|(c, parts)| {
            let cell = parts.get(at).map_or("", String::as_str);
            let space = " ".repeat(widths[c].saturating_sub(cell.chars().count()));
            let text = paint(c, cell);
            if columns[c].is_numeric { format!("{space}{text}") } else { format!("{text}{space}") }
        });
        padded.collect::<Vec<_>>().join(&" ".repeat(GAP)).trim_end().to_string()
    };
    (0..height).map(line).collect()
}

fn break_cell(cell: &str, width: usize) -> Vec<String> {
    if cell.chars().count() > width { width::break_cell(cell, width) } else { vec![cell.to_string()] }
}

/// Formats the cells from the column `first` on as indented lines: `outputs: model, report  main metric: loss 0.1`.
fn below(header: &[&str], cells: &[String], first: usize, max_width: usize) -> Vec<String> {
    let named = header.iter().zip(cells).skip(first).filter(|(_, cell)| !cell.is_empty());
    let parts: Vec<String> = named.map(|(name, cell)| format!("{name}: {cell}")).collect();
    if parts.is_empty() {
        return Vec::new();
    }
    let width = max_width.saturating_sub(BELOW.len());
    width::break_parts(&parts.join("  "), width, width).iter().map(|line| format!("{BELOW}{line}")).collect()
}

fn is_numeric(rows: &[Vec<String>], column: usize) -> bool {
    let number = |cell: &String| cell.is_empty() || cell == "-" || cell.parse::<f64>().is_ok();
    !rows.is_empty() && rows.iter().all(|r| r.get(column).is_none_or(number))
}

/// Returns the number of columns, at least one, that fit side by side without breaking words. The others are written
/// below their rows.
fn side_by_side(columns: &[Column], max_width: usize) -> usize {
    let total = |count: usize| columns[..count].iter().map(|c| c.least + GAP).sum::<usize>().saturating_sub(GAP);
    (1..=columns.len()).rev().find(|count| total(*count) <= max_width).unwrap_or(columns.len().min(1))
}

/// Narrows the widest columns that may be narrowed, one character at a time, until the table fits.
fn fit(columns: &[Column], max_width: usize) -> Vec<usize> {
    let mut widths: Vec<usize> = columns.iter().map(|column| column.natural).collect();
    let gaps = GAP * widths.len().saturating_sub(1);
    while widths.iter().sum::<usize>() + gaps > max_width {
        let wider = widths.iter_mut().zip(columns).filter(|(width, column)| **width > column.least);
        let Some((width, _)) = wider.max_by_key(|(width, _)| **width) else { break };
        *width -= 1;
    }
    widths
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(header: &[&str], rows: &[Vec<String>], max_width: Option<usize>) -> String {
        draw(header, rows, max_width, Style::of_stdout())
    }

    #[test]
    fn numbers_are_right_aligned() {
        let rows = vec![vec!["sft".into(), "1.5".into()], vec!["rl".into(), "12".into()]];
        assert_eq!(plain(&["stage", "seconds"], &rows, None), "stage  seconds\nsft        1.5\nrl          12");
    }

    #[test]
    fn control_codes_and_line_feeds_of_cells_are_escaped() {
        let rows = vec![vec!["a\x1b[2J\nb".into(), "x".into()]];
        let text = table(&["file", "size"], &rows);
        assert!(text.ends_with("\na\\u{1b}[2J⏎b  x"), "{text}");
    }

    #[test]
    fn wide_columns_are_wrapped_between_words() {
        let rows = vec![vec!["sft".into(), "fine-tunes a model on demonstrations".into()]];
        let text = plain(&["kind", "what it does"], &rows, Some(26));
        assert_eq!(text, "kind  what it does\nsft   fine-tunes a model\n      on demonstrations");
    }

    #[test]
    fn columns_that_do_not_fit_are_below_their_rows_and_no_word_is_broken() {
        let header = ["stage", "status", "took", "outputs", "main metric"];
        let row = |cells: [&str; 5]| cells.map(String::from).to_vec();
        let rows = vec![
            row(["demonstrations_with_mistakes", "done", "12.5s", "problems (7007 rows), report", "kept 12"]),
            row(["sft", "running", "", "", ""]),
        ];
        let text = plain(&header, &rows, Some(50));
        assert_eq!(
            text.lines().collect::<Vec<_>>(),
            [
                "stage                         status   took",
                "demonstrations_with_mistakes  done     12.5s",
                "    outputs: problems (7007 rows), report",
                "    main metric: kept 12",
                "sft                           running",
            ]
        );
        let wide = plain(&header, &rows, Some(80));
        assert!(wide.lines().all(|line| line.chars().count() <= 80), "{wide}");
        assert!(wide.contains("\ndemonstrations_with_mistakes  ") && !wide.contains("main metric:"), "{wide}");
    }
}
