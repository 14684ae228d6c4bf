//! Cuts the part of a source text that a diagnostic shows: the lines of its labels, with some lines around them. Long
//! lines are cut around the labels, because the renderer cannot point at a column beyond 65,535.

use miette::{MietteError, MietteSpanContents, SourceCode, SourceSpan, SpanContents};
use std::ops::Range;

/// Lines before and after the labels, at least as many as the renderer shows.
const CONTEXT_LINES: usize = 2;
/// Maximum bytes of a line that is shown as a whole.
const MAX_LINE_BYTES: usize = 4_000;
/// Bytes around the labels of a longer line.
const MARGIN_BYTES: usize = 200;
/// Sign for the missing part of a line.
const CUT: &str = "…";

/// Lines of a source text, numbered as in the text.
#[derive(Debug)]
pub struct Excerpt {
    name: String,
    text: String,
    lines: Vec<ExcerptLine>,
    /// Lines of the source text before the excerpt.
    lines_before: usize,
    /// Byte of the first label in the excerpt, and in its line of the source text.
    primary: (usize, usize),
}

/// Line of an excerpt.
#[derive(Debug)]
struct ExcerptLine {
    /// Bytes of the whole line in the source text.
    source: Range<usize>,
    /// Bytes of its shown part in the source text.
    kept: Range<usize>,
    /// First byte of the shown part in the excerpt.
    at: usize,
}

impl Excerpt {
    /// Cuts a text around labels, which are ranges of bytes. The first one begins in the line `line`, from 1.
    pub fn new(name: &str, text: &str, labels: &[Range<usize>], line: usize) -> Self {
        let inside = |place: usize| text.floor_char_boundary(place);
        let labels: Vec<Range<usize>> =
            labels.iter().map(|label| inside(label.start)..inside(label.end.max(label.start))).collect();
        let primary = labels.first().map_or(0, |label| label.start);
        let first = labels.iter().map(|label| label.start).min().unwrap_or(0);
        let last = labels.iter().map(|label| label.end).max().unwrap_or(0);
        let start = text[..first].rmatch_indices('\n').nth(CONTEXT_LINES).map_or(0, |(at, _)| at + 1);
        let end = text[last..].match_indices('\n').nth(CONTEXT_LINES).map_or(text.len(), |(at, _)| last + at + 1);
        let lines_before = line.saturating_sub(1).saturating_sub(text[start..primary].matches('\n').count());
        let column = primary - text[..primary].rfind('\n').map_or(0, |at| at + 1);
        let (lines, shown) = (Vec::new(), String::new());
        let mut excerpt = Self { name: name.to_string(), text: shown, lines, lines_before, primary: (0, column) };
        let mut from = start;
        for line in text[start..end].split_inclusive('\n') {
            excerpt.push(text, from..from + line.len(), &labels);
            from += line.len();
        }
        excerpt.primary.0 = excerpt.place(primary);
        excerpt
    }

    /// Adds a line of the source text, cut if it is long.
    fn push(&mut self, text: &str, line: Range<usize>, labels: &[Range<usize>]) {
        let kept = kept_part(text, &line, labels);
        if kept.start > line.start {
            self.text.push_str(CUT);
        }
        let at = self.text.len();
        self.text.push_str(&text[kept.clone()]);
        if kept.end < line.end {
            self.text.push_str(CUT);
            if text[line.clone()].ends_with('\n') {
                self.text.push('\n');
            }
        }
        self.lines.push(ExcerptLine { source: line, kept, at });
    }

    /// Returns the byte of the excerpt that shows a byte of the source text, or the nearest one.
    pub fn place(&self, byte: usize) -> usize {
        let line = self.lines.iter().find(|line| byte < line.source.end).or(self.lines.last());
        line.map_or(0, |line| line.at + byte.clamp(line.kept.start, line.kept.end) - line.kept.start)
    }

    /// Returns the first byte and the length of a label in the excerpt.
    pub fn label(&self, label: &Range<usize>) -> (usize, usize) {
        let start = self.place(label.start);
        (start, self.place(label.end.max(label.start)).saturating_sub(start))
    }
}

/// Returns the part of a line that is shown: all of a short line, and the surroundings of the labels of a long one.
fn kept_part(text: &str, line: &Range<usize>, labels: &[Range<usize>]) -> Range<usize> {
    if line.len() <= MAX_LINE_BYTES {
        return line.clone();
    }
    let inside = || labels.iter().filter(|label| label.start < line.end && label.end >= line.start);
    let first = inside().map(|label| label.start.max(line.start)).min().unwrap_or(line.start);
    let last = inside().map(|label| label.end.min(line.end)).max().unwrap_or(first);
    let start = text.floor_char_boundary(first.saturating_sub(MARGIN_BYTES)).max(line.start);
    let end = text.floor_char_boundary((last + MARGIN_BYTES).min(start + MAX_LINE_BYTES)).min(line.end);
    start..end
}

impl SourceCode for Excerpt {
    fn read_span<'a>(
        &'a self,
        span: &SourceSpan,
        lines_before: usize,
        lines_after: usize,
    ) -> Result<Box<dyn SpanContents<'a> + 'a>, MietteError> {
        let shown = <str as SourceCode>::read_span(&self.text, span, lines_before, lines_after)?;
        let (byte, column) = self.primary;
        let column = if lines_before == 0 && span.offset() == byte { column } else { shown.column() };
        // The renderer expects both numbers to count from the beginning of the source text.
        let (line, line_count) = (shown.line() + self.lines_before, shown.line_count() + self.lines_before);
        let name = self.name.clone();
        Ok(Box::new(MietteSpanContents::new_named(name, shown.data(), *shown.span(), line, column, line_count)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the excerpt around one label.
    fn around(text: &str, label: Range<usize>, line: usize) -> Excerpt {
        Excerpt::new("x.yaml", text, std::slice::from_ref(&label), line)
    }

    #[test]
    fn lines_around_the_labels_are_kept_with_their_numbers() {
        let text: String = (1..=9).map(|n| format!("line {n}\n")).collect();
        let excerpt = around(&text, 28..32, 5);
        assert_eq!(excerpt.text, "line 3\nline 4\nline 5\nline 6\nline 7\n");
        assert_eq!(excerpt.label(&(28..32)), (14, 4));
        let span = SourceSpan::from((14, 4));
        let shown = excerpt.read_span(&span, 1, 1).unwrap();
        assert_eq!(shown.line(), 3);
        assert!(shown.data().starts_with(b"line 4\nline 5\nline 6"), "{:?}", shown.data());
        let place = excerpt.read_span(&span, 0, 0).unwrap();
        assert_eq!((place.line(), place.column(), place.name()), (4, 0, Some("x.yaml")));
        assert_eq!(around(&text, 0..4, 1).text, "line 1\nline 2\nline 3\n");
        assert_eq!(around(&text, 63..63, 10).place(63), 14);
        assert_eq!(around("", 0..0, 1).label(&(0..0)), (0, 0));
    }

    #[test]
    fn long_lines_are_cut_around_their_labels() {
        let text = format!("a: 1\n{}mistake{}\nb: 2\n", "é".repeat(50_000), "ü".repeat(50_000));
        let start = 5 + 100_000;
        let excerpt = Excerpt::new("x", &text, &[start..start + 7, 0..1], 2);
        let expected = format!("a: 1\n…{}mistake{}…\nb: 2\n", "é".repeat(100), "ü".repeat(100));
        assert_eq!(excerpt.text, expected);
        let (at, length) = excerpt.label(&(start..start + 7));
        assert_eq!(&excerpt.text[at..at + length], "mistake");
        assert_eq!(excerpt.label(&(0..1)), (0, 1));
        let place = excerpt.read_span(&SourceSpan::from((at, length)), 0, 0).unwrap();
        assert_eq!((place.line(), place.column()), (1, 100_000));
        // A label that is too far from the first one is empty, at the end of the shown part.
        let far = Excerpt::new("x", &text, &[6..7, start..start + 7], 2);
        assert!(far.text.len() < 2 * MAX_LINE_BYTES && far.label(&(start..start + 7)).1 == 0, "{far:?}");
    }
}
