//! Compiles the text or the regular expression of a search.

use super::needed::NeededTrigrams;
use super::trigrams::{fold, unfold};
use memchr::memmem::Finder;
use regex::Regex;
use std::ops::Range;
use trainyard_core::{Error, Result};

/// How the pattern of a search is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PatternKind {
    /// A text in any case: both sides are compared in lower case, by the Unicode mapping of each character.
    #[default]
    Text,
    /// A text in exactly this case.
    ExactText,
    /// A regular expression, in exactly this case unless it has `(?i)`.
    Regex,
}

/// Compiled pattern.
pub(super) struct SearchPattern {
    matcher: Matcher,
    pub needed: NeededTrigrams,
}

enum Matcher {
    Folded(Finder<'static>),
    Exact(Finder<'static>),
    Regex(Regex),
}

impl SearchPattern {
    /// Compiles a pattern. Errors: invalid (empty, a mistake in a regular expression, with its position).
    pub fn new(pattern: &str, kind: PatternKind) -> Result<Self> {
        if pattern.is_empty() {
            return Err(Error::invalid("the text to search for is empty")
                .help("write a text, or a regular expression and `--regex`"));
        }
        let finder = |text: &str| Finder::new(text).into_owned();
        let (matcher, needed) = match kind {
            PatternKind::Text => (Matcher::Folded(finder(&fold(pattern))), NeededTrigrams::of_text(pattern)),
            PatternKind::ExactText => (Matcher::Exact(finder(pattern)), NeededTrigrams::of_text(pattern)),
            PatternKind::Regex => {
                let hir = regex_syntax::parse(pattern).map_err(|e| mistake(pattern, &e))?;
                let regex = Regex::new(pattern).map_err(|e| {
                    Error::invalid(format!("the regular expression cannot be compiled: {e}"))
                        .help("write smaller bounds of repetitions")
                })?;
                (Matcher::Regex(regex), NeededTrigrams::of_regex(&hir))
            }
        };
        Ok(Self { matcher, needed })
    }
    /// Returns the first match in a text.
    pub fn find(&self, text: &str) -> Option<Range<usize>> {
        match &self.matcher {
            Matcher::Exact(finder) => {
                let start = finder.find(text.as_bytes())?;
                Some(start..start + finder.needle().len())
            }
            Matcher::Folded(finder) => {
                let start = finder.find(fold(text).as_bytes())?;
                Some(unfold(text, start..start + finder.needle().len()))
            }
            Matcher::Regex(regex) => regex.find(text).map(|found| found.range()),
        }
    }
}

/// Names the position and the kind of a mistake in a regular expression.
fn mistake(pattern: &str, error: &regex_syntax::Error) -> Error {
    let found = match error {
        regex_syntax::Error::Parse(error) => Some((error.span().start.offset, error.kind().to_string())),
        regex_syntax::Error::Translate(error) => Some((error.span().start.offset, error.kind().to_string())),
        _ => None,
    };
    let (offset, kind) = found.unwrap_or_else(|| (0, error.to_string()));
    let position = pattern.get(..offset).map_or(0, |before| before.chars().count()) + 1;
    Error::invalid(format!("the regular expression `{pattern}` has a mistake at character {position}: {kind}"))
        .help("correct it, or search for the text as it is, without `--regex`")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(pattern: &str, kind: PatternKind, text: &str) -> Option<String> {
        SearchPattern::new(pattern, kind).unwrap().find(text).map(|range| text[range].to_string())
    }

    #[test]
    fn texts_match_in_any_case_unless_it_is_exact() {
        let is = |text: &str| Some(text.to_string());
        assert_eq!(found("i am SURE", PatternKind::Text, "yes, I am sure."), is("I am sure"));
        assert_eq!(found("GRÖSSE", PatternKind::Text, "die größe; Grösse"), is("Grösse"));
        assert_eq!(found("σασ", PatternKind::Text, "ΣΑΣ"), is("ΣΑΣ"));
        assert_eq!(found("Sure", PatternKind::ExactText, "sure Sure"), is("Sure"));
        assert_eq!(found("Sure", PatternKind::ExactText, "sure"), None);
        assert_eq!(found("a.c", PatternKind::Text, "abc"), None);
        assert_eq!(found("a.c", PatternKind::Regex, "ABC abc"), is("abc"));
        assert_eq!(found("(?i)a.c", PatternKind::Regex, "ABC abc"), is("ABC"));
    }

    #[test]
    fn mistakes_are_named_with_their_position() {
        let error = |pattern: &str, kind| SearchPattern::new(pattern, kind).err().unwrap();
        let found = error("ä(b", PatternKind::Regex);
        assert!(found.message.contains("`ä(b` has a mistake at character 2: unclosed group"), "{found}");
        assert!(error("", PatternKind::Text).message.contains("is empty"));
        assert!(error("", PatternKind::Regex).message.contains("is empty"));
        assert!(error("(a{1000}){1000}{100}", PatternKind::Regex).message.contains("cannot be compiled"));
    }
}
