//! Errors and tables for people.

use std::io::{IsTerminal as _, Write as _};
use trainyard_core::Error;

/// `error: message`, then `help: what to do` on stderr.
pub fn print_error(error: &Error) {
    let mut err = std::io::stderr().lock();
    let (red, bold, reset) = if err.is_terminal() { ("\x1b[31m", "\x1b[1m", "\x1b[0m") } else { ("", "", "") };
    // Nothing is left to tell if stderr is closed.
    let _ = writeln!(err, "{red}{bold}error{reset}: {}", error.message);
    if let Some(help) = &error.help {
        let _ = writeln!(err, "  {bold}help{reset}: {help}");
    }
}

/// `warning: message`, then its help: something went wrong that changes nothing about the result.
pub fn print_warning(error: &Error) {
    let mut err = std::io::stderr().lock();
    let (yellow, bold, reset) = if err.is_terminal() { ("\x1b[33m", "\x1b[1m", "\x1b[0m") } else { ("", "", "") };
    let _ = writeln!(err, "{yellow}{bold}warning{reset}: {}", error.message);
    if let Some(help) = &error.help {
        let _ = writeln!(err, "  {bold}help{reset}: {help}");
    }
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
    fn numbers_stand_to_the_right() {
        let rows = vec![vec!["sft".into(), "1.5".into()], vec!["rl".into(), "12".into()]];
        assert_eq!(table(&["stage", "seconds"], &rows), "stage  seconds\nsft        1.5\nrl          12");
    }
}
