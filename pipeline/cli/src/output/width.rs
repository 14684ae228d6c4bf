//! Determines the width of the terminal, and wraps text to it between words.

use terminal_size::{Width, terminal_size_of};

/// Returns the number of columns of stdout's terminal, or `None` if stdout is a pipe or a file, whose lines are not
/// wrapped.
pub fn of_stdout() -> Option<usize> {
    terminal_size_of(std::io::stdout()).map(|(Width(columns), _)| usize::from(columns))
}

/// Returns the number of columns of stderr's terminal, or `None` if stderr is a pipe or a file.
pub fn of_stderr() -> Option<usize> {
    terminal_size_of(std::io::stderr()).map(|(Width(columns), _)| usize::from(columns))
}

/// Returns the number of characters of a line without its color codes.
pub fn visible(line: &str) -> usize {
    let mut parts = line.split('\x1b');
    let first = parts.next().map_or(0, |part| part.chars().count());
    let rest = parts.map(|part| part.split_once('m').map_or(0, |(_, shown)| shown.chars().count()));
    first + rest.sum::<usize>()
}

/// Wraps the lines of a text that are longer than `width`, with continuation lines indented by two. Parts between two
/// spaces, such as a metric and its value, stay on one line if they fit one.
pub fn hang(text: &str, width: usize) -> String {
    let one = |line: &str| {
        if visible(line) <= width {
            return line.to_string();
        }
        let body = line.trim_start();
        let indent = " ".repeat(line.len() - body.len());
        let first = width.saturating_sub(indent.len());
        let lines = break_parts(body, first, first.saturating_sub(2));
        format!("{indent}{}", lines.join(&format!("\n{indent}  ")))
    };
    text.lines().map(one).collect::<Vec<_>>().join("\n")
}

/// Wraps the lines of a text that are longer than `width`, keeping their indentation. A word wider than a line is not
/// broken.
pub fn wrap(text: &str, width: usize) -> String {
    text.lines().map(|line| wrap_line(line, width)).collect::<Vec<_>>().join("\n")
}

fn wrap_line(line: &str, width: usize) -> String {
    // Wrapped rows of a Markdown table would be less readable than long rows.
    if visible(line) <= width || line.trim_start().starts_with('|') {
        return line.to_string();
    }
    let body = line.trim_start();
    let behind_bullet = if body.starts_with("- ") { 2 } else { 0 };
    let indent = line.len() - body.len();
    let rest = " ".repeat(indent + behind_bullet);
    let lines = break_words(body, width.saturating_sub(indent), width.saturating_sub(indent + behind_bullet));
    let joined = lines.join(&format!("\n{rest}"));
    format!("{}{joined}", &line[..indent])
}

/// Splits a cell into lines of at most `width` characters. A wider word is not broken.
pub fn break_cell(text: &str, width: usize) -> Vec<String> {
    break_words(text, width, width)
}

fn break_words(text: &str, first: usize, others: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let limit = if lines.len() == 1 { first } else { others };
        let Some(line) = lines.last_mut() else { break };
        let length = visible(line);
        if length > 0 && length + 1 + visible(word) > limit {
            lines.push(word.to_string());
        } else {
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
    }
    lines
}

/// Splits a line into lines of at most `first` and then `others` characters: between its parts, which two spaces
/// separate, and between the words of a part that is longer than a line.
pub fn break_parts(text: &str, first: usize, others: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for part in text.split("  ").filter(|part| !part.is_empty()) {
        let limit = if lines.len() == 1 { first } else { others };
        let Some(line) = lines.last_mut() else { break };
        let used = if line.is_empty() { 0 } else { visible(line) + 2 };
        if used > 0 && used + visible(part) > limit && visible(part) <= others {
            lines.push(part.to_string());
            continue;
        }
        let mut broken = break_words(part, limit.saturating_sub(used), others).into_iter();
        let head = broken.next().unwrap_or_default();
        match used {
            0 => line.push_str(&head),
            used if used + visible(&head) <= limit => line.push_str(&format!("  {head}")),
            _ => lines.push(head),
        }
        lines.extend(broken);
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lines_are_wrapped_and_keep_their_indentation() {
        assert_eq!(wrap("  one two three", 9), "  one two\n  three");
        assert_eq!(wrap("- one two three", 10), "- one two\n  three");
        assert_eq!(wrap("short\n\nnext", 9), "short\n\nnext");
        assert_eq!(wrap("unbreakableword x", 5), "unbreakableword\nx");
        assert_eq!(wrap("| a long | row |", 5), "| a long | row |");
    }

    #[test]
    fn hanging_lines_are_indented() {
        assert_eq!(hang("one two three", 13), "one two three");
        assert_eq!(hang("one two three four", 9), "one two\n  three\n  four");
    }

    #[test]
    fn metrics_stay_with_their_values() {
        let line = "sft: done 1fa352  loss 0.132  steps 1200";
        assert_eq!(hang(line, 34), "sft: done 1fa352  loss 0.132\n  steps 1200");
        assert_eq!(hang("sft: one two three  loss 0.132", 13), "sft: one two\n  three\n  loss 0.132");
        assert_eq!(hang("sft: failed  some-long-word and others", 14), "sft: failed\n  some-long-word\n  and others");
        assert_eq!(hang("  | a line of a command", 14), "  | a line of\n    a command");
    }

    #[test]
    fn color_codes_have_no_width() {
        assert_eq!(visible("\x1b[32mdone\x1b[0m 1fa352"), 11);
        assert_eq!(hang("sft: \x1b[32mdone\x1b[0m 1fa352", 16), "sft: \x1b[32mdone\x1b[0m 1fa352");
        assert_eq!(hang("sft: \x1b[32mdone\x1b[0m  steps 1200", 12), "sft: \x1b[32mdone\x1b[0m\n  steps 1200");
        assert_eq!(wrap("\x1b[31;1merror\x1b[0m: one two", 10), "\x1b[31;1merror\x1b[0m: one\ntwo");
    }
}
