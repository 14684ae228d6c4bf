//! Parses tokens to an expression by precedence climbing.
//!
//! Chained comparisons (`a < b < c`) are errors rather than surprises, and parentheses nest at most 64 deep.

use super::fault::{ExpressionError, ExpressionErrorKind};
use super::lexer::{SpannedToken, Token, tokens};
use super::name::ScopeName;
use super::operators::{BinaryOperator, UnaryOperator};
use super::tree::{Expr, ExpressionKind};
use super::words::TokenReader;
use serde_json::Value;
use std::marker::PhantomData;
use std::ops::Range;

/// Maximum nesting of parentheses, lists and calls; the expression itself is the first level.
pub const MAX_DEPTH: usize = 64;
/// Precedence of `==`, the loosest comparison.
const COMPARISON: u8 = 3;

/// Parses a text that is one expression. Returns the first fault.
pub fn parse<N: ScopeName>(text: &str) -> Result<Expr<N>, ExpressionError> {
    let (found, end) = tokens(text, 0, false, &N::DIALECT)?;
    ExprParser::new(found, end).whole()
}

/// Parses an expression that starts right after `${{`; ranges are within `text`. Also returns the position after its
/// `}}`.
pub fn parse_embedded<N: ScopeName>(text: &str, start: usize) -> (Result<Expr<N>, ExpressionError>, usize) {
    match tokens(text, start, true, &N::DIALECT) {
        Ok((found, end)) => (ExprParser::new(found, end).whole(), end + 2),
        // Continue after the next `}}`, so that later expressions are checked as well.
        Err(fault) => (Err(fault), text[start..].find("}}").map_or(text.len(), |i| start + i + 2)),
    }
}

struct ExprParser<N> {
    words: TokenReader,
    /// Levels of operands.
    depth: usize,
    /// Levels of parentheses, lists and calls.
    inside: usize,
    /// Ranges of parts in parentheses.
    grouped: Vec<Range<usize>>,
    names: PhantomData<N>,
}

impl<N: ScopeName> ExprParser<N> {
    fn new(tokens: Vec<SpannedToken>, end: usize) -> Self {
        Self { words: TokenReader::new(tokens, end), depth: 0, inside: 0, grouped: Vec::new(), names: PhantomData }
    }

    fn whole(mut self) -> Result<Expr<N>, ExpressionError> {
        let max = N::DIALECT.most_tokens;
        if self.words.len() > max {
            return Err(ExpressionError::new(
                &self.words.range(),
                format!("an expression has at most {max} words and signs"),
            ));
        }
        if self.words.peek().is_none() {
            return Err(ExpressionError::misplaced(&self.words.range(), "the expression is empty"));
        }
        let expression = self.inner()?;
        match self.words.peek() {
            None => Ok(expression),
            Some(_) => Err(ExpressionError::misplaced(&self.words.range(), "the expression should end here")
                .help("put an operator in between, or parentheses around it")),
        }
    }

    /// Parses a whole expression inside of another.
    fn inner(&mut self) -> Result<Expr<N>, ExpressionError> {
        self.inside += 1;
        if self.inside > MAX_DEPTH {
            return Err(self.too_deep(MAX_DEPTH));
        }
        let expression = self.binary(1)?;
        self.inside -= 1;
        Ok(expression)
    }

    fn binary(&mut self, loosest: u8) -> Result<Expr<N>, ExpressionError> {
        self.deeper()?;
        let mut left = self.negated(loosest)?;
        while let Some(operator) = self.operator().filter(|o| o.precedence() >= loosest) {
            let place = self.words.range();
            self.words.read();
            let right = self.binary(operator.precedence() + 1)?;
            let comparison = |e: &Expr<N>| {
                matches!(&e.kind, ExpressionKind::Binary(o, ..) if matches!(o.precedence(), 3 | 4))
                    && !self.grouped.contains(&e.range)
            };
            if matches!(operator.precedence(), 3 | 4) && (comparison(&left) || comparison(&right)) {
                return Err(
                    ExpressionError::misplaced(&place, "comparisons do not chain").help("join two of them with `&&`")
                );
            }
            let range = left.range.start..right.range.end;
            left = Expr { kind: ExpressionKind::Binary(operator, Box::new(left), Box::new(right)), range };
        }
        self.depth -= 1;
        Ok(left)
    }

    /// Parses a comparison after any number of `not`, if the dialect has words; without any `not`, one operand.
    fn negated(&mut self, loosest: u8) -> Result<Expr<N>, ExpressionError> {
        let mut signs = Vec::new();
        while N::DIALECT.words
            && loosest <= COMPARISON
            && let Some(place) = self.words.take_word("not")
        {
            signs.push((UnaryOperator::Not, place.start));
        }
        if signs.is_empty() {
            return self.unary();
        }
        let operand = self.binary(COMPARISON)?;
        Ok(signed(signs, operand))
    }

    fn unary(&mut self) -> Result<Expr<N>, ExpressionError> {
        let mut signs = Vec::new();
        loop {
            let operator = match self.words.peek() {
                Some(Token::Symbol("!")) => UnaryOperator::Not,
                Some(Token::Symbol("-")) => UnaryOperator::Negate,
                _ => break,
            };
            self.deeper()?;
            signs.push((operator, self.words.range().start));
            self.words.read();
        }
        let levels = signs.len();
        let operand = self.postfix()?;
        self.depth -= levels;
        Ok(signed(signs, operand))
    }

    fn postfix(&mut self) -> Result<Expr<N>, ExpressionError> {
        let mut base = self.primary()?;
        loop {
            if self.words.take(".").is_some() {
                let (name, range) = self.words.name("a key after `.`")?;
                let index = Expr { kind: ExpressionKind::Literal(Value::String(name)), range: range.clone() };
                let full_range = base.range.start..range.end;
                base = Expr { kind: ExpressionKind::Index(Box::new(base), Box::new(index)), range: full_range };
            } else if self.words.take("[").is_some() {
                let index = self.inner()?;
                let close = self.words.expect("]")?;
                let full_range = base.range.start..close.end;
                base = Expr { kind: ExpressionKind::Index(Box::new(base), Box::new(index)), range: full_range };
            } else {
                return Ok(base);
            }
        }
    }

    fn primary(&mut self) -> Result<Expr<N>, ExpressionError> {
        let Some((token, range)) = self.words.read() else {
            return Err(ExpressionError::misplaced(&self.words.range(), "the expression ends too early")
                .help("a value is missing here"));
        };
        let term = match token {
            Token::Number(value) => ExpressionKind::Literal(value),
            Token::Text(text) => ExpressionKind::Literal(Value::String(text)),
            Token::Symbol("(") => {
                let inner = self.inner()?;
                let close = self.words.expect(")")?;
                let range = range.start..close.end;
                self.grouped.push(range.clone());
                return Ok(Expr { kind: inner.kind, range });
            }
            Token::Symbol("[") => ExpressionKind::List(self.items("]")?),
            Token::Symbol(symbol) => {
                return Err(ExpressionError::misplaced(&range, format!("`{symbol}` is not allowed here"))
                    .help("a value is missing before it"));
            }
            Token::Name(name) => self.named(&name, &range)?,
        };
        let end = self.words.read_to().unwrap_or(range.end);
        Ok(Expr { kind: term, range: range.start..end })
    }

    fn named(&mut self, name: &str, range: &Range<usize>) -> Result<ExpressionKind<N>, ExpressionError> {
        if self.words.peek() == Some(&Token::Symbol("(")) {
            return self.call(name, range);
        }
        Ok(match name {
            "true" if !N::DIALECT.numbers => ExpressionKind::Literal(Value::Bool(true)),
            "false" if !N::DIALECT.numbers => ExpressionKind::Literal(Value::Bool(false)),
            "null" if !N::DIALECT.numbers => ExpressionKind::Literal(Value::Null),
            _ => ExpressionKind::Reference(N::read(name, range, &mut self.words)?),
        })
    }

    fn call(&mut self, name: &str, range: &Range<usize>) -> Result<ExpressionKind<N>, ExpressionError> {
        let Some(function) = N::DIALECT.function(name) else { return Err(N::no_function(name, range)) };
        self.words.expect("(")?;
        let arguments = self.items(")")?;
        let (min, max) = function.arity();
        if arguments.len() < min || arguments.len() > max {
            return Err(N::wrong_number(function, arguments.len(), range));
        }
        Ok(ExpressionKind::Call(function, arguments))
    }

    fn items(&mut self, close: &'static str) -> Result<Vec<Expr<N>>, ExpressionError> {
        let mut items = Vec::new();
        if self.words.take(close).is_some() {
            return Ok(items);
        }
        loop {
            items.push(self.inner()?);
            if self.words.take(",").is_none() {
                self.words.expect(close)?;
                return Ok(items);
            }
        }
    }

    fn operator(&self) -> Option<BinaryOperator> {
        match self.words.peek()? {
            Token::Symbol(s) => BinaryOperator::ALL.into_iter().find(|o| o.symbol() == *s),
            Token::Name(word) if N::DIALECT.words => match word.as_str() {
                "or" => Some(BinaryOperator::Or),
                "and" => Some(BinaryOperator::And),
                _ => None,
            },
            _ => None,
        }
    }

    /// Enters one level of operands. Fails if there are too many.
    fn deeper(&mut self) -> Result<(), ExpressionError> {
        self.depth += 1;
        if self.depth > N::DIALECT.deepest { Err(self.too_deep(N::DIALECT.deepest)) } else { Ok(()) }
    }
    fn too_deep(&self, deepest: usize) -> ExpressionError {
        let fault = ExpressionError::new(&self.words.range(), format!("expressions nest at most {deepest} deep"));
        ExpressionError { cause: ExpressionErrorKind::TooDeep, ..fault }
    }
}

/// Puts signs, with the positions where they begin, before an operand; the last one is the next to it.
fn signed<N>(signs: Vec<(UnaryOperator, usize)>, operand: Expr<N>) -> Expr<N> {
    signs.into_iter().rev().fold(operand, |operand, (operator, start)| {
        let range = start..operand.range.end;
        // `-1` is a number, so that a printed literal parses back to itself.
        if let (UnaryOperator::Negate, ExpressionKind::Literal(v @ Value::Number(_))) = (operator, &operand.kind)
            && let Ok(negated) = operator.apply(v)
        {
            return Expr { kind: ExpressionKind::Literal(negated), range };
        }
        Expr { kind: ExpressionKind::Unary(operator, Box::new(operand)), range }
    })
}
