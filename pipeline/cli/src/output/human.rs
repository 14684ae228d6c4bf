//! Text and errors on the terminal, JSON for programs.

use super::clean::{Kept, clean};
use super::style::Style;
pub use super::table::table;
use super::width;
use std::borrow::Cow;
use std::io::Write as _;
use trainyard_core::Error;

/// Prints `error: message`, its causes, and what to do about it to stderr.
pub fn print_error(error: &Error) {
    print_problem(&Style::of_stderr().red("error"), error);
}

/// Prints `warning: message`, its causes and its help: something went wrong that does not change the result.
pub fn print_warning(error: &Error) {
    print_problem(&Style::of_stderr().yellow("warning"), error);
}

/// Prints to stderr: what a command is doing, beside its result.
pub fn print_note(text: &str) {
    // Nothing is left to tell if stderr is closed.
    let _ = writeln!(std::io::stderr(), "{}", shown(text, Style::of_stderr()));
}

/// Message and help on one line, and each cause on a line of its own below.
pub fn with_causes(error: &Error) -> String {
    std::iter::once(error.to_string()).chain(error.causes().map(|c| format!("\n  caused by: {c}"))).collect()
}

fn print_problem(word: &str, error: &Error) {
    let mut text = format!("{word}: {}", error.message);
    for cause in error.causes() {
        text.push_str(&format!("\n  caused by: {cause}"));
    }
    if let Some(help) = &error.help {
        text.push_str(&format!("\n  {}: {help}", Style::of_stderr().bold("help")));
    }
    print_note(&text);
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
    let text = shown(text, Style::of_stdout());
    match width::of_stdout() {
        Some(width) => print_raw(&width::wrap(&text, width)),
        None => print_raw(&text),
    }
}

/// Prints to stdout, every line as long as it is.
pub fn print_lines(text: &str) {
    print_raw(&shown(text, Style::of_stdout()));
}

/// A text as it may be printed for people: of terminal codes only the colors of this program pass, where there are any.
pub fn shown(text: &str, style: Style) -> Cow<'_, str> {
    clean(text, if style.is_on() { Kept::Ours } else { Kept::Nothing })
}

/// Prints to stdout exactly this, for programs or because it was asked for. A closed pipe (`| head`) ends the output
/// and is not an error.
pub fn print_raw(text: &str) {
    let _ = prints(text);
}

/// [`print_raw`] for long outputs: whether somebody still reads them.
#[must_use]
pub fn prints(text: &str) -> bool {
    writeln!(std::io::stdout().lock(), "{text}").is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn causes_stand_below_the_message() {
        let error = Error::lost("cannot read s3://b/x").help("try again").caused_by(&std::io::Error::other("refused"));
        assert_eq!(with_causes(&error), "cannot read s3://b/x; try again\n  caused by: refused");
    }
}
