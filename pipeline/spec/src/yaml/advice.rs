//! Explains errors in text that is not YAML.
//!
//! A parser reports the position where it stopped, often a line after the mistake, in terms of its grammar. This module
//! searches the text around that position for common mistakes: tabs, bare expressions inside brackets, indentation that
//! fits no line above, colons inside text, brackets that are not closed.

/// Position, message and help of an error; better than the parser's if the text shows a common mistake.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Advice {
    /// Byte offset.
    pub at: usize,
    pub message: String,
    pub help: Option<String>,
}

/// Returns advice about an error that the parser found at a byte offset.
pub(super) fn advise(text: &str, at: usize, message: &str) -> Advice {
    let lines = TextLines::new(text);
    let line = lines.of(at);
    tab(&lines, line)
        .or_else(|| bare_expression(text, &lines, line))
        .or_else(|| colon(&lines, line, message))
        .or_else(|| indentation(&lines, line, message))
        .unwrap_or_else(|| Advice { at, message: message.to_string(), help: open_bracket(text, &lines, at) })
}

struct TextLines<'t> {
    /// Offset and text of each line.
    all: Vec<(usize, &'t str)>,
}

impl<'t> TextLines<'t> {
    fn new(text: &'t str) -> Self {
        let mut start = 0;
        let all = text.split('\n').map(|line| {
            let this = (start, line);
            start += line.len() + 1;
            this
        });
        Self { all: all.collect() }
    }
    /// Returns the number, from 0, of the line that holds an offset.
    fn of(&self, at: usize) -> usize {
        self.all.partition_point(|(start, _)| *start <= at).saturating_sub(1)
    }
    /// Whether a line holds more than spaces and comments.
    fn is_filled(&self, line: usize) -> bool {
        let text = self.all[line].1.trim_start();
        !text.is_empty() && !text.starts_with('#')
    }
    fn indent(&self, line: usize) -> usize {
        let text = self.all[line].1;
        text.len() - text.trim_start_matches(' ').len()
    }
    /// Returns the line itself and its neighbors.
    fn around(&self, line: usize) -> impl Iterator<Item = usize> {
        [Some(line), line.checked_sub(1), Some(line + 1)].into_iter().flatten().filter(|l| *l < self.all.len())
    }
}

fn tab(lines: &TextLines<'_>, line: usize) -> Option<Advice> {
    let place = |line: usize| {
        let (start, text) = lines.all[line];
        let indent = &text[..text.len() - text.trim_start().len()];
        indent.find('\t').filter(|_| !text.trim().is_empty()).map(|column| start + column)
    };
    let at = lines.around(line).find_map(place)?;
    Some(Advice {
        at,
        message: "a tab cannot indent a line".into(),
        help: Some("indent with spaces; most editors can insert them for the tab key".into()),
    })
}

fn bare_expression(text: &str, lines: &TextLines<'_>, line: usize) -> Option<Advice> {
    let last = lines.around(line).max()?;
    let end = lines.all[last].0 + lines.all[last].1.len();
    let found = scan(&text[..end]).bare;
    let at = found.into_iter().rev().find(|at| lines.around(line).any(|l| l == lines.of(*at)))?;
    let rest = &text[at..end];
    let written = rest.find("}}").map_or("${{ … }}", |close| &rest[..close + 2]);
    let written = if written.contains('\n') { "${{ … }}" } else { written };
    Some(Advice {
        at,
        message: "inside […] and {…} an expression needs quotes".into(),
        help: Some(format!("write \"{written}\"")),
    })
}

fn colon(lines: &TextLines<'_>, line: usize, message: &str) -> Option<Advice> {
    let (start, text) = lines.all[line];
    let first = text.find(": ").filter(|_| message.contains("mapping values"))?;
    let value = text[first + 1..].trim_start();
    if value.starts_with(['"', '\'', '[', '{', '#']) {
        return None;
    }
    let second = first + 2 + text[first + 2..].find(": ")?;
    Some(Advice {
        at: start + second,
        message: "this colon starts a second value on the line".into(),
        help: Some(format!("put the text in quotes: `{}: \"{}\"`", text[..first].trim_start(), value.trim_end())),
    })
}

fn indentation(lines: &TextLines<'_>, line: usize, message: &str) -> Option<Advice> {
    let about_blocks = ["mapping values", "block", "simple key", "indentation", "document start"];
    if !about_blocks.iter().any(|words| message.contains(words)) {
        return None;
    }
    // The parser may stop at the end of a line, or at the start of the next.
    let line = lines.around(line).find(|l| lines.is_filled(*l) && !fits(&open_levels(lines, *l), lines.indent(*l)))?;
    let found = lines.indent(line);
    let levels = open_levels(lines, line);
    let (expected, model_line) = *levels.iter().min_by_key(|(indent, _)| indent.abs_diff(found))?;
    let spaces = |n: usize| if n == 1 { "1 space".to_string() } else { format!("{n} spaces") };
    Some(Advice {
        at: lines.all[line].0 + found,
        message: format!("this line is indented by {}, which matches no line above it", spaces(found)),
        help: Some(format!("indent this like line {}, by {}", model_line + 1, spaces(expected))),
    })
}

fn fits(levels: &[(usize, usize)], indent: usize) -> bool {
    levels.is_empty() || levels.iter().any(|(level, _)| *level == indent)
}

/// Returns the indentations that a line may have: those of the lines above that are still open, each with the last line
/// of its kind. A line that ends with a colon, or opens an item, also allows deeper ones; no advice is given then.
fn open_levels(lines: &TextLines<'_>, line: usize) -> Vec<(usize, usize)> {
    let mut levels: Vec<(usize, usize)> = Vec::new();
    for above in (0..line).rev().filter(|l| lines.is_filled(*l)) {
        let indent = lines.indent(above);
        if levels.is_empty() && lines.all[above].1.trim_end().ends_with([':', '|', '>']) && lines.indent(line) > indent
        {
            return Vec::new();
        }
        if levels.last().is_none_or(|(deepest, _)| indent < *deepest) {
            // An item's keys follow its dash.
            let text = lines.all[above].1[indent..].trim_start_matches("- ");
            let behind = lines.all[above].1.len() - text.len();
            if behind > indent && levels.is_empty() {
                levels.push((behind, above));
            }
            levels.push((indent, above));
        }
        if indent == 0 {
            break;
        }
    }
    levels
}

fn open_bracket(text: &str, lines: &TextLines<'_>, at: usize) -> Option<String> {
    let (bracket, opened) = *scan(&text[..at.min(text.len())]).open.last()?;
    Some(format!("close the `{bracket}` of line {}", lines.of(opened) + 1))
}

/// Brackets open at the end of a text, and the start of every expression inside brackets and outside of quotes.
#[derive(Default)]
struct Scan {
    open: Vec<(char, usize)>,
    bare: Vec<usize>,
}

/// Scans quotes, comments and brackets approximately; block texts are read as YAML.
fn scan(text: &str) -> Scan {
    let mut found = Scan::default();
    let mut quote = None;
    let mut before = '\n';
    let mut skip_to = 0;
    for (at, c) in text.char_indices() {
        if at < skip_to {
            continue;
        }
        match (quote, c) {
            (Some(open), c) if open == c => quote = None,
            (Some(_), _) => {}
            (None, '"' | '\'') if before.is_whitespace() || "[{,:-".contains(before) => quote = Some(c),
            (None, '#') if before.is_whitespace() => {
                skip_to = text[at..].find('\n').map_or(text.len(), |end| at + end);
            }
            (None, '$') if text[at..].starts_with("${{") => {
                if !found.open.is_empty() {
                    found.bare.push(at);
                }
                skip_to = text[at..].find("}}").map_or(at + 3, |end| at + end + 2);
            }
            (None, '[' | '{') if !found.open.is_empty() || before.is_whitespace() || "[{".contains(before) => {
                found.open.push((c, at));
            }
            (None, ']' | '}') => {
                found.open.pop();
            }
            _ => {}
        }
        before = c;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns line, column and text of the advice about the first mention of a text.
    fn advice(text: &str, near: &str, message: &str) -> (usize, usize, String) {
        let advice = advise(text, text.find(near).unwrap(), message);
        let lines = TextLines::new(text);
        let line = lines.of(advice.at);
        let words = format!("{}; {}", advice.message, advice.help.unwrap_or_default());
        (line + 1, advice.at - lines.all[line].0 + 1, words)
    }

    #[test]
    fn a_tab_is_shown_where_it_stands() {
        let (line, column, words) = advice("a:\n  b: 1\n\tc: 2\n", "1\n", "tabs disallowed");
        assert_eq!((line, column), (3, 1));
        assert!(words.starts_with("a tab cannot indent a line; indent with spaces"), "{words}");
    }

    #[test]
    fn a_bare_expression_in_brackets_needs_quotes() {
        let text = "a: ${{ fine }}\nb: [${{ stages.x.y }}]\n";
        let expected = (2, 5, "inside […] and {…} an expression needs quotes; write \"${{ stages.x.y }}\"".to_string());
        assert_eq!(advice(text, "stages", "did not find expected ',' or ']'"), expected);
        let over_lines = "b: {\n  c: ${{ p }}\n}\n";
        assert_eq!(advice(over_lines, "p }", "…").0, 2);
    }

    #[test]
    fn indentation_names_the_line_to_follow() {
        let text = "a:\n    b: 1\n   c: 2\n";
        let (line, column, words) = advice(text, "c: 2", "did not find expected key while parsing a block mapping");
        assert_eq!((line, column), (3, 4));
        assert!(words.ends_with("indent this like line 2, by 4 spaces"), "{words}");
        let deeper = "a: 1\n  b: 2\n";
        assert!(
            advice(deeper, "b: 2", "mapping values are not allowed in this context")
                .2
                .ends_with("like line 1, by 0 spaces")
        );
    }

    #[test]
    fn a_colon_in_text_needs_quotes() {
        let (_, column, words) = advice("name: a: b\n", "b", "mapping values are not allowed in this context");
        assert_eq!(column, 8);
        assert!(words.ends_with("put the text in quotes: `name: \"a: b\"`"), "{words}");
    }

    #[test]
    fn an_open_bracket_is_named() {
        let text = "a: {uses: noop\nb: 1\n";
        assert!(advice(text, "b: 1", "while parsing a flow mapping").2.ends_with("close the `{` of line 1"));
    }
}
