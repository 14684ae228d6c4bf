//! Errors and tables for people.

use std::io::{IsTerminal as _, Write as _};
use trainyard_core::Error;

/// Prints `error: message`, its causes, and what to do about it to stderr.
pub fn print_error(error: &Error) {
    print_problem("\x1b[31m", "error", error);
}

/// Prints `warning: message`, its causes and its help: something went wrong that does not change the result.
pub fn print_warning(error: &Error) {
    print_problem("\x1b[33m", "warning", error);
}

fn print_problem(color: &str, word: &str, error: &Error) {
    let mut err = std::io::stderr().lock();
    let (color, bold, reset) = if err.is_terminal() { (color, "\x1b[1m", "\x1b[0m") } else { ("", "", "") };
    // If stderr is closed, nobody can be told.
    let _ = writeln!(err, "{color}{bold}{word}{reset}: {}", error.message);
    for cause in error.causes() {
        let _ = writeln!(err, "  {bold}caused by{reset}: {cause}");
    }
    if let Some(help) = &error.help {
        let _ = writeln!(err, "  {bold}help{reset}: {help}");
    }
}

/// Message and help on one line, and each cause on a line of its own below.
pub fn with_causes(error: &Error) -> String {
    std::iter::once(error.to_string()).chain(error.causes().map(|c| format!("\n  caused by: {c}"))).collect()
}

/// Columns padded to their widest cell, two spaces between; numbers (cells that parse as one) to the right.
pub fn table(header: &[&str], rows: &[Vec<String>]) -> String {
    let width = |column: usize| {
        rows.iter()
            .filter_map(|r| r.get(column))
            .map(|c| c.chars().count())
            .chain([header[column].chars().count()])
            .max()
            .unwrap_or(0)
    };
    let widths: Vec<usize> = (0..header.len()).map(width).collect();
    let numeric: Vec<bool> = (0..header.len())
        .map(|c| {
            !rows.is_empty()
                && rows
                    .iter()
                    .all(|r| r.get(c).is_none_or(|cell| cell.is_empty() || cell == "-" || cell.parse::<f64>().is_ok()))
        })
        .collect();
    let line = |cells: &[String]| {
        let padded = cells.iter().enumerate().map(|(c, cell)| {
            let space = " ".repeat(widths[c].saturating_sub(cell.chars().count()));
            if numeric[c] { format!("{space}{cell}") } else { format!("{cell}{space}") }
        });
        padded.collect::<Vec<_>>().join("  ").trim_end().to_string()
    };
    let head: Vec<String> = header.iter().map(ToString::to_string).collect();
    std::iter::once(line(&head)).chain(rows.iter().map(|r| line(r))).collect::<Vec<_>>().join("\n")
}

/// One JSON document, as it is printed.
pub fn json(value: &impl serde::Serialize) -> trainyard_core::Result<String> {
    serde_json::to_string_pretty(value).map_err(|e| Error::bug(format!("no JSON for this result: {e}")))
}

/// Prints one JSON document and a line feed.
pub fn print_json(value: &impl serde::Serialize) -> trainyard_core::Result<()> {
    print_text(&json(value)?);
    Ok(())
}

/// Prints to stdout; a closed pipe (`| head`) is no error.
pub fn print_text(text: &str) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{text}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn causes_stand_below_the_message() {
        let error = Error::lost("cannot read s3://b/x").help("try again").caused_by(&std::io::Error::other("refused"));
        assert_eq!(with_causes(&error), "cannot read s3://b/x; try again\n  caused by: refused");
    }

    #[test]
    fn numbers_stand_to_the_right() {
        let rows = vec![vec!["sft".into(), "1.5".into()], vec!["rl".into(), "12".into()]];
        assert_eq!(table(&["stage", "seconds"], &rows), "stage  seconds\nsft        1.5\nrl          12");
    }
}
