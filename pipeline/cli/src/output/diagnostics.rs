//! Prints diagnostics as snippets of the file, rendered by miette, and converts them to JSON.

use super::clean::{AllowedCodes, clean};
use miette::{GraphicalReportHandler, GraphicalTheme, LabeledSpan, MietteDiagnostic, NamedSource, Severity as Grade};
use serde_json::{Value, json};
use std::io::{IsTerminal as _, Write as _};
use textwrap::{WordSeparator, WordSplitter};
use trainyard_spec::{Diagnostic, Severity, Sources};

/// Prints diagnostics with snippets on stderr.
pub fn print(diagnostics: &[Diagnostic], sources: &Sources) {
    let color = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty());
    let terminal = terminal_size::terminal_size_of(std::io::stderr()).map(|(width, _)| usize::from(width.0));
    let handler = handler(terminal, color);
    let mut err = std::io::stderr().lock();
    for diagnostic in diagnostics {
        let mut text = String::new();
        let rendered = handler.render_report(&mut text, report(diagnostic, sources).as_ref());
        // A diagnostic that cannot be rendered is printed on one line. Errors of a closed stderr are ignored.
        let line = if rendered.is_ok() { text } else { sources.line(diagnostic) };
        let allowed = if color { AllowedCodes::Colors } else { AllowedCodes::Nothing };
        let _ = writeln!(err, "{}", clean(line.trim_end(), allowed));
    }
}

/// Returns the renderer for a terminal of this width. `None` stands for a pipe or a file, whose lines are not wrapped,
/// since piped text is searched and stored.
fn handler(terminal: Option<usize>, color: bool) -> GraphicalReportHandler {
    let theme = if color { GraphicalTheme::unicode() } else { GraphicalTheme::unicode_nocolor() };
    GraphicalReportHandler::new_themed(theme)
        .with_width(terminal.unwrap_or(120))
        .with_wrap_lines(terminal.is_some())
        // Readers copy names (`cold-start`), options (`--until`) and paths, so a word breaks only if it is wider than a
        // line.
        .with_word_separator(WordSeparator::AsciiSpace)
        .with_word_splitter(WordSplitter::NoHyphenation)
        .with_context_lines(1)
}

/// Formats the number of diagnostics by severity: `2 errors and 1 warning`.
pub fn count(diagnostics: &[Diagnostic]) -> String {
    let of = |severity, name: &str| {
        let n = diagnostics.iter().filter(|d| d.severity == severity).count();
        (n > 0).then(|| format!("{n} {name}{}", if n == 1 { "" } else { "s" }))
    };
    let parts: Vec<String> =
        [of(Severity::Error, "error"), of(Severity::Warning, "warning"), of(Severity::Note, "note")]
            .into_iter()
            .flatten()
            .collect();
    if parts.is_empty() { "no mistakes".into() } else { parts.join(" and ") }
}

fn report(diagnostic: &Diagnostic, sources: &Sources) -> miette::Report {
    let label = |span: trainyard_spec::Span, text: String| {
        LabeledSpan::new(Some(text), span.start as usize, (span.end - span.start) as usize)
    };
    let mut labels = vec![LabeledSpan::new_primary_with_span(
        None,
        (diagnostic.span.start as usize, (diagnostic.span.end - diagnostic.span.start) as usize),
    )];
    let (near, far): (Vec<_>, Vec<_>) = diagnostic.related.iter().partition(|r| is_near(r.span, diagnostic.span));
    labels.extend(near.into_iter().map(|r| label(r.span, r.message.clone())));
    let places = far.into_iter().map(|r| format!("{}: {}", sources.place(r.span), r.message));
    let help: Vec<String> = diagnostic.help.clone().into_iter().chain(places).collect();
    let grade = match diagnostic.severity {
        Severity::Error => Grade::Error,
        Severity::Warning => Grade::Warning,
        Severity::Note => Grade::Advice,
    };
    let mut rendered = MietteDiagnostic::new(format!("{}: {}", sources.place(diagnostic.span), diagnostic.message))
        .with_code(diagnostic.code)
        .with_severity(grade)
        .with_labels(labels);
    if !help.is_empty() {
        rendered = rendered.with_help(help.join("\n"));
    }
    let (name, text) =
        sources.get(diagnostic.span.file).map_or_else(Default::default, |f| (f.name.clone(), f.text.clone()));
    miette::Report::new(rendered).with_source_code(NamedSource::new(name, text))
}

/// Returns whether one snippet can show both positions with every line between them.
fn is_near(a: trainyard_spec::Span, b: trainyard_spec::Span) -> bool {
    a.file == b.file && a.line.abs_diff(b.line) <= 10
}

/// Returns the JSON output of `check`: the number of errors, and every diagnostic.
pub fn document(diagnostics: &[Diagnostic], sources: &Sources) -> Value {
    let errors = diagnostics.iter().filter(|d| d.is_error()).count();
    let all: Vec<Value> = diagnostics.iter().map(|d| json(d, sources)).collect();
    json!({"errors": errors, "diagnostics": all})
}

/// Returns one diagnostic as JSON: position, code, severity, message and help.
pub fn json(diagnostic: &Diagnostic, sources: &Sources) -> Value {
    json!({
        "file": sources.get(diagnostic.span.file).map(|f| f.name.clone()),
        "line": diagnostic.span.line,
        "column": diagnostic.span.column,
        "code": diagnostic.code,
        "severity": diagnostic.severity,
        "message": diagnostic.message,
        "help": diagnostic.help,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_on_a_terminal_break_between_words() {
        let rendered = |columns: Option<usize>, message: &str| {
            let mut text = String::new();
            let diagnostic = MietteDiagnostic::new(message).with_help(message);
            handler(columns, false).render_report(&mut text, &diagnostic).unwrap();
            text
        };
        let fits = |text: &str| text.lines().all(|line| line.chars().count() <= 40);
        let message = "the stage `cold-start` comes after `held-out-problems`, which reads data/grade-school.jsonl";
        let narrow = rendered(Some(40), message);
        assert!(fits(&narrow) && narrow.lines().count() > 4, "{narrow}");
        let words: Vec<&str> = narrow.split_whitespace().collect();
        let broken: Vec<&str> = message.split(' ').filter(|word| !words.contains(word)).collect();
        assert!(broken.is_empty(), "{broken:?}: {narrow}");
        assert!(
            fits(&rendered(Some(40), &format!("there is no file /{}", "folder/".repeat(12)))),
            "too wide for a line"
        );
        assert!(rendered(None, message).lines().any(|line| line.ends_with(message)));
    }
}
