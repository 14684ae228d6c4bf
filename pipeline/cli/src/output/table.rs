//! Formats tables: padded columns that fit the terminal.

use super::clean::{AllowedCodes, clean};
use super::style::Style;
use super::width;

/// Number of spaces between two columns.
const GAP: usize = 2;
/// Minimum width to which a column is narrowed.
const NARROWEST: usize = 12;
/// Headers of status columns.
const STATUS: [&str; 3] = ["", "decision", "status"];

/// Formats a table. Columns are padded to their widest cell, and columns of numbers are right-aligned. On a terminal,
/// wide cells are wrapped between words. A line feed in a cell is replaced by a symbol, so that a name cannot look like
/// a row.
pub fn table(header: &[&str], rows: &[Vec<String>]) -> String {
    let cell = |cell: &String| clean(cell, AllowedCodes::Nothing).replace('\n', "⏎");
    let rows: Vec<Vec<String>> = rows.iter().map(|row| row.iter().map(cell).collect()).collect();
    draw(header, &rows, width::of_stdout(), Style::of_stdout())
}

fn draw(header: &[&str], rows: &[Vec<String>], max_width: Option<usize>, style: Style) -> String {
    let natural: Vec<usize> = (0..header.len()).map(|column| widest(header, rows, column)).collect();
    let widths = max_width.map_or_else(|| natural.clone(), |max_width| fit(&natural, max_width));
    let numeric: Vec<bool> = (0..header.len()).map(|column| is_numeric(rows, column)).collect();
    let mut lines = Vec::new();
    let head: Vec<String> = header.iter().map(ToString::to_string).collect();
    for (at, cells) in std::iter::once(&head).chain(rows).enumerate() {
        let broken: Vec<Vec<String>> =
            cells
                .iter()
                .enumerate()
                .map(|(c, cell)| {
                    if cell.chars().count() > widths[c] {
                        width::break_cell(cell, widths[c])
                    } else {
                        vec![cell.clone()]
                    }
                })
                .collect();
        let height = broken.iter().map(Vec::len).max().unwrap_or(1);
        for line in 0..height {
            let padded = broken.iter().enumerate().map(|(c, parts)| {
                let cell = parts.get(line).map_or("", String::as_str);
                let space = " ".repeat(widths[c].saturating_sub(cell.chars().count()));
                let text = match (at, STATUS.contains(&header[c])) {
                    (0, _) => style.bold(cell),
                    (_, true) => style.status(cell),
                    _ => cell.to_string(),
                };
                if numeric[c] { format!("{space}{text}") } else { format!("{text}{space}") }
            });
            lines.push(padded.collect::<Vec<_>>().join(&" ".repeat(GAP)).trim_end().to_string());
        }
    }
    lines.join("\n")
}

fn widest(header: &[&str], rows: &[Vec<String>], column: usize) -> usize {
    let cells = rows.iter().filter_map(|r| r.get(column)).map(|c| c.chars().count());
    cells.chain([header[column].chars().count()]).max().unwrap_or(0)
}

fn is_numeric(rows: &[Vec<String>], column: usize) -> bool {
    let number = |cell: &String| cell.is_empty() || cell == "-" || cell.parse::<f64>().is_ok();
    !rows.is_empty() && rows.iter().all(|r| r.get(column).is_none_or(number))
}

/// Narrows the widest columns, one character at a time, until the table fits or all are at the minimum width.
fn fit(natural: &[usize], max_width: usize) -> Vec<usize> {
    let mut widths = natural.to_vec();
    let gaps = GAP * widths.len().saturating_sub(1);
    while widths.iter().sum::<usize>() + gaps > max_width {
        match widths.iter_mut().max() {
            Some(widest) if *widest > NARROWEST => *widest -= 1,
            _ => break,
        }
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
}
