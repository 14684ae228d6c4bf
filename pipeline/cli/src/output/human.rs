//! Text and errors on the terminal, JSON for programs.

use super::style::Style;
pub use super::table::table;
use super::width;
use std::io::Write as _;
use trainyard_core::Error;

/// `error: message`, then `help: what to do` on stderr.
pub fn print_error(error: &Error) {
    print_problem(&Style::of_stderr().red("error"), error);
}

/// `warning: message`, then its help: something went wrong that changes nothing about the result.
pub fn print_warning(error: &Error) {
    print_problem(&Style::of_stderr().yellow("warning"), error);
}

fn print_problem(word: &str, error: &Error) {
    let mut err = std::io::stderr().lock();
    // Nothing is left to tell if stderr is closed.
    let _ = writeln!(err, "{word}: {}", error.message);
    if let Some(help) = &error.help {
        let _ = writeln!(err, "  {}: {help}", Style::of_stderr().bold("help"));
    }
}

/// One JSON document, as it is printed.
pub fn json(value: &impl serde::Serialize) -> trainyard_core::Result<String> {
    serde_json::to_string_pretty(value).map_err(|e| Error::bug(format!("no JSON for this result: {e}")))
}

/// Prints one JSON document and a line feed.
pub fn print_json(value: &impl serde::Serialize) -> trainyard_core::Result<()> {
    print_raw(&json(value)?);
    Ok(())
}

/// Prints to stdout; on a terminal, lines that are too long go on below, broken between words.
pub fn print_text(text: &str) {
    match width::of_stdout() {
        Some(width) => print_raw(&width::wrap(text, width)),
        None => print_raw(text),
    }
}

/// Prints to stdout as it is. A closed pipe (`| head`) ends the output and is not an error.
pub fn print_raw(text: &str) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{text}");
}
