//! Prints diagnostics as snippets of the file, rendered by miette, and converts them to JSON.

use super::clean::{AllowedCodes, clean};
use super::excerpt::Excerpt;
use miette::{GraphicalReportHandler, GraphicalTheme, LabeledSpan, MietteDiagnostic, Severity as Grade};
use serde_json::{Value, json};
use std::io::{IsTerminal as _, Write as _};
use std::ops::Range;
use textwrap::{WordSeparator, WordSplitter};
use trainyard_spec::{Diagnostic, Severity, Sources};

/// Maximum number of printed diagnostics. JSON has all.
const MAX_PRINTED: usize = 100;

/// Prints diagnostics with snippets on stderr: the first hundred, errors before others, and the number of the rest.
pub fn print(diagnostics: &[Diagnostic], sources: &Sources) {
    let color = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty());
    let terminal = terminal_size::terminal_size_of(std::io::stderr()).map(|(width, _)| usize::from(width.0));
    let handler = handler(terminal, color);
    let mut err = std::io::stderr().lock();
    for diagnostic in printed(diagnostics) {
        let mut text = String::new();
        let rendered = handler.render_report(&mut text, report(diagnostic, sources).as_ref());
        // A diagnostic that cannot be rendered is printed on one line. Errors of a closed stderr are ignored.
        let line = if rendered.is_ok() { text } else { sources.line(diagnostic) };
        let allowed = if color { AllowedCodes::Colors } else { AllowedCodes::Nothing };
        let _ = writeln!(err, "{}", clean(line.trim_end(), allowed));
    }
    let more = diagnostics.len().saturating_sub(MAX_PRINTED);
    if more > 0 {
        let _ = writeln!(err, "and {more} more; `check --format json` has all");
    }
}

/// Returns the diagnostics that are printed. If they are too many, errors come before the others.
fn printed(diagnostics: &[Diagnostic]) -> Vec<&Diagnostic> {
    let mut printed: Vec<&Diagnostic> = diagnostics.iter().collect();
    if printed.len() > MAX_PRINTED {
        printed.sort_by_key(|diagnostic| diagnostic.severity);
        printed.truncate(MAX_PRINTED);
    }
    printed
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
    let (near, far): (Vec<_>, Vec<_>) = diagnostic.related.iter().partition(|r| is_near(r.span, diagnostic.span));
    let (name, text) =
        sources.get(diagnostic.span.file).map_or_else(Default::default, |f| (f.name.as_str(), f.text.as_str()));
    let spans = [diagnostic.span].into_iter().chain(near.iter().map(|related| related.span));
    let excerpt = Excerpt::new(name, text, &spans.map(bytes).collect::<Vec<_>>(), diagnostic.span.line as usize);
    let mut labels = vec![LabeledSpan::new_primary_with_span(None, excerpt.label(&bytes(diagnostic.span)))];
    labels.extend(
        near.into_iter().map(|related| {
            LabeledSpan::new_with_span(Some(related.message.clone()), excerpt.label(&bytes(related.span)))
        }),
    );
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
    miette::Report::new(rendered).with_source_code(excerpt)
}

/// Returns the bytes of a span in its source text.
fn bytes(span: trainyard_spec::Span) -> Range<usize> {
    span.start as usize..span.end as usize
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
    use trainyard_spec::Span;

    fn rendered(diagnostic: &Diagnostic, sources: &Sources) -> String {
        let mut text = String::new();
        handler(None, false).render_report(&mut text, report(diagnostic, sources).as_ref()).unwrap();
        text
    }

    #[test]
    fn mistakes_far_into_a_line_are_shown() {
        let mut sources = Sources::default();
        let before = "x".repeat(70_000);
        sources.add("long.yaml", None, format!("version: 1\n{before}mistake: 7\n"));
        let (start, line) = (11 + 70_000, 2);
        let span = Span { file: 0, start, end: start + 7, line, column: 70_001 };
        let first = Span { file: 0, start: 0, end: 7, line: 1, column: 1 };
        let text = rendered(&Diagnostic::error("unknown-key", span, "unknown").related(first, "here"), &sources);
        assert!(text.contains("long.yaml:2:70001: unknown") && text.contains("[long.yaml:2:70001]"), "{text}");
        assert!(text.contains("version: 1") && text.contains("xxmistake: 7") && text.contains("here"), "{text}");
        assert!(text.lines().all(|line| line.chars().count() < 500), "{text}");
    }

    #[test]
    fn errors_come_before_others_when_there_are_too_many() {
        let span = Span { file: 0, start: 0, end: 0, line: 1, column: 1 };
        let mut all = vec![Diagnostic::warning("w", span, "w"); MAX_PRINTED];
        assert_eq!(printed(&all).len(), MAX_PRINTED);
        all.push(Diagnostic::error("e", span, "e"));
        let shown = printed(&all);
        assert_eq!((shown.len(), shown[0].code, shown[MAX_PRINTED - 1].code), (MAX_PRINTED, "e", "w"));
    }

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
