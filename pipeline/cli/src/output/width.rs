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

/// Wraps the lines of a text that are longer than `width`, with continuation lines indented by two. Colored lines are
/// unchanged.
pub fn hang(text: &str, width: usize) -> String {
    let one = |line: &str| match line.chars().count() <= width || line.contains('\x1b') {
        true => line.to_string(),
        false => break_words(line, width, width.saturating_sub(2)).join("\n  "),
    };
    text.lines().map(one).collect::<Vec<_>>().join("\n")
}

/// Wraps the lines of a text that are longer than `width`, keeping their indentation. A word wider than a line is not
/// broken.
pub fn wrap(text: &str, width: usize) -> String {
    text.lines().map(|line| wrap_line(line, width)).collect::<Vec<_>>().join("\n")
}

fn wrap_line(line: &str, width: usize) -> String {
    // Wrapped rows of a Markdown table would be less readable than long rows. Colored lines belong to tables, which
    // already fit.
    if line.chars().count() <= width || line.trim_start().starts_with('|') || line.contains('\x1b') {
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
        let length = line.chars().count();
        if length > 0 && length + 1 + word.chars().count() > limit {
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
}
