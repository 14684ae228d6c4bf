//! Tracks quoting in a shell script, so that a variable can be inserted without being split, expanded again or parsed.
//!
//! The quoting rules are those of POSIX: plain, `'…'`, `"…"`, `$(…)` nested in either, comments. Quotes have another
//! meaning in here-documents, backquotes, `${…}` and `$((…))`, so no variable may be inserted inside these.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum QuoteState {
    Plain,
    /// Inside `$(…)` or `(…)`: plain until the matching parenthesis.
    Command,
    Single,
    Double,
    Comment,
    Backquote,
    /// `${…}`.
    Parameter,
    /// `$((…))`.
    Arithmetic,
}

/// Quotes and parentheses that are open at one point of a script.
#[derive(Debug)]
pub struct Quoting {
    stack: Vec<QuoteState>,
    /// Whether a `<<` was read: a here-document may follow.
    here_document: bool,
    /// Whether the text ended with a backslash that would escape a quote.
    escaping: bool,
    previous: char,
}

impl Default for Quoting {
    fn default() -> Self {
        Self { stack: vec![QuoteState::Plain], here_document: false, escaping: false, previous: '\n' }
    }
}

impl Quoting {
    fn state(&self) -> QuoteState {
        self.stack.last().copied().unwrap_or(QuoteState::Plain)
    }
    fn enter(&mut self, state: QuoteState) {
        self.stack.push(state);
    }
    fn leave(&mut self) {
        if self.stack.len() > 1 {
            self.stack.pop();
        }
    }

    /// Reads literal script text.
    pub fn read(&mut self, text: &str) {
        let characters: Vec<char> = text.chars().collect();
        let mut i = 0;
        while i < characters.len() {
            let rest = &characters[i..];
            i += self.step(rest);
            self.previous = characters[i.min(characters.len()) - 1];
        }
    }

    /// Handles the start of `rest`; returns the number of characters read.
    fn step(&mut self, rest: &[char]) -> usize {
        match self.state() {
            QuoteState::Single => self.until("'", rest),
            QuoteState::Comment => self.until("\n", rest),
            _ if rest[0] == '\\' => self.escape(rest),
            QuoteState::Backquote => self.until("`", rest),
            QuoteState::Arithmetic => self.until("))", rest),
            state => self.expansion(rest).unwrap_or_else(|| self.quote(state, rest)),
        }
    }

    /// Advances by one character, or past the end of this state.
    fn until(&mut self, end: &str, rest: &[char]) -> usize {
        if !starts(rest, end) {
            return 1;
        }
        self.leave();
        end.len()
    }

    fn escape(&mut self, rest: &[char]) -> usize {
        self.escaping = rest.len() == 1;
        2.min(rest.len())
    }

    /// Handles expansions, which are the same in plain text and in double quotes.
    fn expansion(&mut self, rest: &[char]) -> Option<usize> {
        const OPENINGS: [(&str, QuoteState); 4] = [
            ("$((", QuoteState::Arithmetic),
            ("$(", QuoteState::Command),
            ("${", QuoteState::Parameter),
            ("`", QuoteState::Backquote),
        ];
        let (opening, state) = OPENINGS.into_iter().find(|(opening, _)| starts(rest, opening))?;
        self.enter(state);
        Some(opening.len())
    }

    /// Handles the start and end of quotes, words and commands.
    fn quote(&mut self, state: QuoteState, rest: &[char]) -> usize {
        match state {
            QuoteState::Double => self.until("\"", rest),
            QuoteState::Parameter => self.parameter(rest[0]),
            _ => self.plain(rest),
        }
    }

    fn parameter(&mut self, character: char) -> usize {
        match character {
            '}' => self.leave(),
            '"' => self.enter(QuoteState::Double),
            '\'' => self.enter(QuoteState::Single),
            _ => {}
        }
        1
    }

    fn plain(&mut self, rest: &[char]) -> usize {
        match rest[0] {
            '\'' => self.enter(QuoteState::Single),
            '"' => self.enter(QuoteState::Double),
            '#' if self.previous.is_whitespace() || matches!(self.previous, ';' | '(' | '&' | '|') => {
                self.enter(QuoteState::Comment)
            }
            '(' => self.enter(QuoteState::Command),
            ')' if self.state() == QuoteState::Command => self.leave(),
            '<' if starts(rest, "<<") => {
                self.here_document = true;
                return 2;
            }
            _ => {}
        }
        1
    }

    /// Returns the form of a variable at this point, or the reason why it is not allowed.
    pub fn reference(&mut self, name: &str) -> Result<String, &'static str> {
        self.previous = '}';
        if std::mem::take(&mut self.escaping) {
            return Err("an escape (a backslash precedes it)");
        }
        if self.here_document {
            return Err("a script after a here-document (`<<`)");
        }
        for state in &self.stack {
            match state {
                QuoteState::Backquote => return Err("backquotes; use `$(…)`"),
                QuoteState::Parameter => return Err("`${…}`"),
                QuoteState::Arithmetic => return Err("`$((…))`"),
                _ => {}
            }
        }
        Ok(match self.state() {
            QuoteState::Double => format!("${{{name}}}"),
            QuoteState::Single => format!("'\"${{{name}}}\"'"),
            _ => format!("\"${{{name}}}\""),
        })
    }
}

fn starts(rest: &[char], text: &str) -> bool {
    text.chars().enumerate().all(|(i, c)| rest.get(i) == Some(&c))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Replaces every `@` with a variable.
    fn write(script: &str) -> Result<String, &'static str> {
        let mut quoting = Quoting::default();
        let mut out = String::new();
        for (i, part) in script.split('@').enumerate() {
            if i > 0 {
                out.push_str(&quoting.reference("V")?);
            }
            quoting.read(part);
            out.push_str(part);
        }
        Ok(out)
    }

    #[test]
    fn variable_is_quoted_in_every_context() {
        let cases = [
            ("cat @", "cat \"${V}\""),
            ("cat \"a @ b\"", "cat \"a ${V} b\""),
            ("cat 'a @ b'", "cat 'a '\"${V}\"' b'"),
            ("x=$(cat @)", "x=$(cat \"${V}\")"),
            ("x=\"$(cat @) @\"", "x=\"$(cat \"${V}\") ${V}\""),
            ("echo it\\'s @", "echo it\\'s \"${V}\""),
            ("# don't\ncat @", "# don't\ncat \"${V}\""),
            ("a#'@'", "a#''\"${V}\"''"),
            ("(cd @ && ls) @", "(cd \"${V}\" && ls) \"${V}\""),
            ("echo \"\\\"@\"", "echo \"\\\"${V}\""),
        ];
        for (script, expected) in cases {
            assert_eq!(write(script).as_deref(), Ok(expected), "{script}");
        }
    }

    #[test]
    fn places_where_a_shell_would_parse_it_are_refused() {
        for script in
            ["cat <<EOF\n@\nEOF", "echo `cat @`", "echo ${X:-@}", "echo $((1 + @))", "\"${X:-\"@\"}\"", "echo \\@"]
        {
            assert!(write(script).is_err(), "{script}");
        }
    }
}
