//! Reads the tokens of an expression in order.

use super::fault::ExpressionError;
use super::lexer::{SpannedToken, Token};
use std::ops::Range;

/// The tokens that are still to be read.
pub struct TokenReader {
    tokens: Vec<SpannedToken>,
    next: usize,
    /// End of the text, for messages.
    end: usize,
}

impl TokenReader {
    pub(crate) fn new(tokens: Vec<SpannedToken>, end: usize) -> Self {
        Self { tokens, next: 0, end }
    }
    /// Returns the number of all tokens, read or not.
    pub(crate) fn len(&self) -> usize {
        self.tokens.len()
    }
    /// Returns the next token without reading it.
    pub(crate) fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.next).map(|(t, _)| t)
    }
    /// Reads one token.
    pub(crate) fn read(&mut self) -> Option<SpannedToken> {
        let token = self.tokens.get(self.next).cloned()?;
        self.next += 1;
        Some(token)
    }
    /// Returns the end of the token that was read last.
    pub(crate) fn read_to(&self) -> Option<usize> {
        self.tokens.get(self.next.checked_sub(1)?).map(|(_, range)| range.end)
    }
    /// Reads this word, if it is next.
    pub(crate) fn take_word(&mut self, word: &str) -> Option<Range<usize>> {
        match self.tokens.get(self.next) {
            Some((Token::Name(name), range)) if name == word => {
                self.next += 1;
                Some(range.clone())
            }
            _ => None,
        }
    }

    /// Returns the position of the next token, or the end of the text.
    pub fn range(&self) -> Range<usize> {
        self.tokens.get(self.next).map_or(self.end..self.end, |(_, r)| r.clone())
    }
    /// Reads this symbol, if it is next, and returns its position.
    pub fn take(&mut self, symbol: &str) -> Option<Range<usize>> {
        match self.tokens.get(self.next) {
            Some((Token::Symbol(s), range)) if *s == symbol => {
                self.next += 1;
                Some(range.clone())
            }
            _ => None,
        }
    }
    /// Reads this symbol and returns its position. Fails if something else is next.
    pub fn expect(&mut self, symbol: &'static str) -> Result<Range<usize>, ExpressionError> {
        self.take(symbol).ok_or_else(|| ExpressionError::misplaced(&self.range(), format!("expected `{symbol}` here")))
    }
    /// Reads a name and returns it with its position. Fails if something else is next; the message has `expected`.
    pub fn name(&mut self, expected: &str) -> Result<(String, Range<usize>), ExpressionError> {
        match self.tokens.get(self.next).cloned() {
            Some((Token::Name(name), range)) => {
                self.next += 1;
                Ok((name, range))
            }
            _ => Err(ExpressionError::misplaced(&self.range(), format!("expected {expected}"))),
        }
    }
    /// Reads `.name` or `["name"]`. Fails, with the `form` to write, at the position of the `root` if neither is next.
    pub fn member(&mut self, root: &Range<usize>, form: &str) -> Result<String, ExpressionError> {
        if self.take(".").is_some() {
            return Ok(self.name(&format!("a name, as in `{form}`"))?.0);
        }
        if self.peek() == Some(&Token::Symbol("["))
            && let Some((Token::Text(text), _)) = self.tokens.get(self.next + 1).cloned()
        {
            self.next += 2;
            self.expect("]")?;
            return Ok(text);
        }
        Err(ExpressionError::misplaced(root, format!("a name is missing: write `{form}`")))
    }
}
