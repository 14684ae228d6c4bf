//! Finds names of artifacts in a statement: `latest/test/problems` after FROM or JOIN, or `{latest/test/problems}`
//! anywhere.

/// Minimum number of digits of a digest prefix in `DIGEST/OUTPUT`.
const MIN_DIGITS: usize = 6;

/// Writes the names of artifacts as quoted identifiers, which the parser accepts as names of tables. Texts, quoted
/// identifiers and comments are unchanged.
pub(crate) fn quote_references(sql: &str) -> String {
    let (mut quoted, mut rest) = (String::with_capacity(sql.len()), sql);
    // The two words directly before `rest`, in lower case.
    let mut words = [String::new(), String::new()];
    while let Some(first) = rest.chars().next() {
        let piece = piece(rest, first, &words);
        let (text, further) = rest.split_at(piece.length());
        match piece {
            Piece::Reference { name, .. } => {
                quoted.push_str(&format!("\"{name}\""));
                words = Default::default();
            }
            Piece::Word(_) => {
                quoted.push_str(text);
                let [_, last] = words;
                words = [last, text.to_lowercase()];
            }
            Piece::Space(_) => quoted.push_str(text),
            Piece::Other(_) => {
                quoted.push_str(text);
                words = Default::default();
            }
        }
        rest = further;
    }
    quoted
}

/// A piece of a statement, with its length in bytes.
enum Piece<'a> {
    Reference {
        name: &'a str,
        length: usize,
    },
    Word(usize),
    /// Whitespace, or a comment.
    Space(usize),
    Other(usize),
}

impl Piece<'_> {
    fn length(&self) -> usize {
        match self {
            Self::Reference { length, .. } | Self::Word(length) | Self::Space(length) | Self::Other(length) => *length,
        }
    }
}

/// Returns the first piece of `rest`, which begins with `first` and follows `words`.
fn piece<'a>(rest: &'a str, first: char, words: &[String; 2]) -> Piece<'a> {
    let until = |end: &str| rest.find(end).map_or(rest.len(), |at| at + end.len());
    match first {
        '\'' | '"' | '`' => Piece::Other(rest[1..].find(first).map_or(rest.len(), |at| at + 2)),
        '-' if rest.starts_with("--") => Piece::Space(until("\n")),
        '/' if rest.starts_with("/*") => Piece::Space(until("*/")),
        '{' => match rest[1..].split_once('}') {
            Some((name, _)) if is_reference(name) => Piece::Reference { name, length: name.len() + 2 },
            _ => Piece::Other(1),
        },
        _ if first.is_whitespace() => Piece::Space(first.len_utf8()),
        _ if first.is_alphanumeric() || first == '_' => {
            let name = &rest[..bare_length(rest)];
            let [before, last] = words;
            let is_table = (last == "from" && before != "distinct") || last == "join";
            if is_table && is_reference(name) {
                return Piece::Reference { name, length: name.len() };
            }
            Piece::Word(rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len()))
        }
        _ => Piece::Other(first.len_utf8()),
    }
}

/// Returns the length of a name without braces: it ends at a space, a comma, a semicolon or a parenthesis, but not
/// inside the brackets of a matrix (`sft[lr=0.003,seed=1]`).
fn bare_length(text: &str) -> usize {
    let mut is_inside = false;
    let end = text.find(|c: char| {
        is_inside = (is_inside || c == '[') && c != ']';
        c.is_whitespace() || (!is_inside && matches!(c, ',' | ';' | '(' | ')'))
    });
    end.unwrap_or(text.len())
}

/// Whether a text has the form `RUN/STAGE/OUTPUT` or `DIGEST/OUTPUT`.
fn is_reference(text: &str) -> bool {
    let parts: Vec<&str> = text.split('/').collect();
    let is_digest = |part: &str| part.len() >= MIN_DIGITS && part.bytes().all(|byte| byte.is_ascii_hexdigit());
    let has_form = parts.len() > 2 || (parts.len() == 2 && is_digest(parts[0]));
    has_form && parts.iter().all(|part| !part.is_empty()) && !text.contains(['"', '\'', '`', '{', '\n'])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_artifacts_become_quoted_identifiers() {
        for (sql, expected) in [
            (
                "select p.id from latest/test/problems p join self s on s.problem_id = p.id",
                "select p.id from \"latest/test/problems\" p join self s on s.problem_id = p.id",
            ),
            ("select 1 FROM 3f2a9b/problems", "select 1 FROM \"3f2a9b/problems\""),
            ("from self, {latest/sub/a/o} x", "from self, \"latest/sub/a/o\" x"),
            ("left join\n  latest/sft[lr=0.003,seed=1]/model;", "left join\n  \"latest/sft[lr=0.003,seed=1]/model\";"),
            ("(select 1 from 20261125-025937-1c0db24/a/o)", "(select 1 from \"20261125-025937-1c0db24/a/o\")"),
            ("from /* why */ a/b/c", "from /* why */ \"a/b/c\""),
        ] {
            assert_eq!(quote_references(sql), expected);
        }
    }

    #[test]
    fn other_texts_are_unchanged() {
        for sql in [
            "select a/b/c from self where x is distinct from a/b/c",
            "select 'from a/b/c', \"from a/b/c\" from self -- from a/b/c",
            "select 1 from \"latest/test/problems\" where y = 'it''s {a/b/c}'",
            "select x from (a/b/c), self where z = {a}",
            "select extract(year from a/b)",
            "select 'open from a/b/c",
            "",
        ] {
            assert_eq!(quote_references(sql), sql);
        }
    }
}
