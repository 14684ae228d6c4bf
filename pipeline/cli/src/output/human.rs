//! Prints text and errors for humans, and JSON for programs.

use super::clean::{AllowedCodes, clean};
use super::style::Style;
pub use super::table::table;
use super::width;
use std::borrow::Cow;
use std::io::Write as _;
use trainyard_core::Error;

/// Prints `error: message`, the causes and the help to stderr.
pub fn print_error(error: &Error) {
    print_problem(&Style::of_stderr().red("error"), error);
}

/// Prints `warning: message`, the causes and the help to stderr, for a failure that does not change the result.
pub fn print_warning(error: &Error) {
    print_problem(&Style::of_stderr().yellow("warning"), error);
}

/// Prints a message about the progress of a command to stderr. On a terminal, long lines are wrapped between words.
pub fn print_note(text: &str) {
    let text = sanitize(text, Style::of_stderr());
    let text = width::of_stderr().map_or_else(|| text.to_string(), |width| width::wrap(&text, width));
    // Errors of a closed stderr are ignored.
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// Formats the message and the help on one line, and each cause on a separate line below.
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

/// Formats a value as a JSON document.
pub fn json(value: &impl serde::Serialize) -> trainyard_core::Result<String> {
    serde_json::to_string_pretty(value).map_err(|e| Error::bug(format!("the result has no JSON form: {e}")))
}

/// Prints a JSON document and a line feed to stdout.
pub fn print_json(value: &impl serde::Serialize) -> trainyard_core::Result<()> {
    print_raw(&json(value)?);
    Ok(())
}

/// Prints text to stdout. On a terminal, long lines are wrapped between words.
pub fn print_text(text: &str) {
    let text = sanitize(text, Style::of_stdout());
    match width::of_stdout() {
        Some(width) => print_raw(&width::wrap(&text, width)),
        None => print_raw(&text),
    }
}

/// Prints text to stdout without wrapping lines.
pub fn print_lines(text: &str) {
    print_raw(&sanitize(text, Style::of_stdout()));
}

/// Escapes a text for output. The colors of this program are kept if colors are enabled.
pub fn sanitize(text: &str, style: Style) -> Cow<'_, str> {
    clean(text, if style.is_on() { AllowedCodes::AppColors } else { AllowedCodes::Nothing })
}

/// Prints text to stdout unchanged, for programs or on request. A closed pipe (`| head`) is not an error.
pub fn print_raw(text: &str) {
    let _ = try_print(text);
}

/// Prints text like [`print_raw`], and returns whether stdout is still open, for long output.
#[must_use]
pub fn try_print(text: &str) -> bool {
    writeln!(std::io::stdout().lock(), "{text}").is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn causes_follow_the_message() {
        let error = Error::lost("cannot read s3://b/x").help("try again").caused_by(&std::io::Error::other("refused"));
        assert_eq!(with_causes(&error), "cannot read s3://b/x; try again\n  caused by: refused");
    }
}
