//! Tokens → expression, by precedence climbing.
//!
//! Chained comparisons (`a < b < c`) are errors rather than surprises, and parentheses nest at most 64 deep.

use super::fault::{Cause, Fault};
use super::lexer::{Placed, Token, tokens};
use super::name::Name;
use super::operators::{Binary, Unary};
use super::tree::{Expression, Term};
use super::words::Words;
use serde_json::Value;
use std::marker::PhantomData;
use std::ops::Range;

/// Most parentheses, lists and calls inside each other, the whole expression included.
pub const DEEPEST: usize = 64;
/// Precedence of `==`, the loosest comparison.
const COMPARISON: u8 = 3;

/// Parses a text that is one expression. Returns the first fault.
pub fn parse<N: Name>(text: &str) -> Result<Expression<N>, Fault> {
    let (found, end) = tokens(text, 0, false, &N::DIALECT)?;
    Parser::new(found, end).whole()
}

/// Parses an expression that starts right after `${{`; ranges are within `text`. Also returns the position after its
/// `}}`.
pub fn parse_embedded<N: Name>(text: &str, start: usize) -> (Result<Expression<N>, Fault>, usize) {
    match tokens(text, start, true, &N::DIALECT) {
        Ok((found, end)) => (Parser::new(found, end).whole(), end + 2),
        // Continue after the next `}}`, so that later expressions are checked as well.
        Err(fault) => (Err(fault), text[start..].find("}}").map_or(text.len(), |i| start + i + 2)),
    }
}

struct Parser<N> {
    words: Words,
    /// Levels of operands.
    depth: usize,
    /// Levels of parentheses, lists and calls.
    inside: usize,
    /// Ranges of parts in parentheses.
    grouped: Vec<Range<usize>>,
    names: PhantomData<N>,
}

impl<N: Name> Parser<N> {
    fn new(tokens: Vec<Placed>, end: usize) -> Self {
        Self { words: Words::new(tokens, end), depth: 0, inside: 0, grouped: Vec::new(), names: PhantomData }
    }

    fn whole(mut self) -> Result<Expression<N>, Fault> {
        let most = N::DIALECT.most_tokens;
        if self.words.len() > most {
            return Err(Fault::new(&self.words.range(), format!("an expression has at most {most} words and signs")));
        }
        if self.words.peek().is_none() {
            return Err(Fault::misplaced(&self.words.range(), "the expression is empty"));
        }
        let expression = self.inner()?;
        match self.words.peek() {
            None => Ok(expression),
            Some(_) => Err(Fault::misplaced(&self.words.range(), "the expression should end here")
                .help("put an operator in between, or parentheses around it")),
        }
    }

    /// Parses a whole expression inside of another.
    fn inner(&mut self) -> Result<Expression<N>, Fault> {
        self.inside += 1;
        if self.inside > DEEPEST {
            return Err(self.too_deep(DEEPEST));
        }
        let expression = self.binary(1)?;
        self.inside -= 1;
        Ok(expression)
    }

    fn binary(&mut self, loosest: u8) -> Result<Expression<N>, Fault> {
        self.deeper()?;
        let mut left = self.negated(loosest)?;
        while let Some(operator) = self.operator().filter(|o| o.precedence() >= loosest) {
            let place = self.words.range();
            self.words.read();
            let right = self.binary(operator.precedence() + 1)?;
            let comparison = |e: &Expression<N>| {
                matches!(&e.term, Term::Binary(o, ..) if matches!(o.precedence(), 3 | 4))
                    && !self.grouped.contains(&e.range)
            };
            if matches!(operator.precedence(), 3 | 4) && (comparison(&left) || comparison(&right)) {
                return Err(Fault::misplaced(&place, "comparisons do not chain").help("join two of them with `&&`"));
            }
            let range = left.range.start..right.range.end;
            left = Expression { term: Term::Binary(operator, Box::new(left), Box::new(right)), range };
        }
        self.depth -= 1;
        Ok(left)
    }

    /// Parses a comparison after any number of `not`, if the dialect has words; without any `not`, one operand.
    fn negated(&mut self, loosest: u8) -> Result<Expression<N>, Fault> {
        let mut signs = Vec::new();
        while N::DIALECT.words
            && loosest <= COMPARISON
            && let Some(place) = self.words.take_word("not")
        {
            signs.push((Unary::Not, place.start));
        }
        if signs.is_empty() {
            return self.unary();
        }
        let operand = self.binary(COMPARISON)?;
        Ok(signed(signs, operand))
    }

    fn unary(&mut self) -> Result<Expression<N>, Fault> {
        let mut signs = Vec::new();
        loop {
            let operator = match self.words.peek() {
                Some(Token::Symbol("!")) => Unary::Not,
                Some(Token::Symbol("-")) => Unary::Negate,
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

    fn postfix(&mut self) -> Result<Expression<N>, Fault> {
        let mut base = self.primary()?;
        loop {
            if self.words.take(".").is_some() {
                let (name, range) = self.words.name("a key after `.`")?;
                let index = Expression { term: Term::Literal(Value::String(name)), range: range.clone() };
                let whole = base.range.start..range.end;
                base = Expression { term: Term::Index(Box::new(base), Box::new(index)), range: whole };
            } else if self.words.take("[").is_some() {
                let index = self.inner()?;
                let close = self.words.expect("]")?;
                let whole = base.range.start..close.end;
                base = Expression { term: Term::Index(Box::new(base), Box::new(index)), range: whole };
            } else {
                return Ok(base);
            }
        }
    }

    fn primary(&mut self) -> Result<Expression<N>, Fault> {
        let Some((token, range)) = self.words.read() else {
            return Err(
                Fault::misplaced(&self.words.range(), "the expression ends too early").help("a value is missing here")
            );
        };
        let term = match token {
            Token::Number(value) => Term::Literal(value),
            Token::Text(text) => Term::Literal(Value::String(text)),
            Token::Symbol("(") => {
                let inner = self.inner()?;
                let close = self.words.expect(")")?;
                let range = range.start..close.end;
                self.grouped.push(range.clone());
                return Ok(Expression { term: inner.term, range });
            }
            Token::Symbol("[") => Term::List(self.items("]")?),
            Token::Symbol(symbol) => {
                return Err(Fault::misplaced(&range, format!("`{symbol}` cannot stand here"))
                    .help("a value is missing before it"));
            }
            Token::Name(name) => self.named(&name, &range)?,
        };
        let end = self.words.read_to().unwrap_or(range.end);
        Ok(Expression { term, range: range.start..end })
    }

    fn named(&mut self, name: &str, range: &Range<usize>) -> Result<Term<N>, Fault> {
        if self.words.peek() == Some(&Token::Symbol("(")) {
            return self.call(name, range);
        }
        Ok(match name {
            "true" if !N::DIALECT.numbers => Term::Literal(Value::Bool(true)),
            "false" if !N::DIALECT.numbers => Term::Literal(Value::Bool(false)),
            "null" if !N::DIALECT.numbers => Term::Literal(Value::Null),
            _ => Term::Reference(N::read(name, range, &mut self.words)?),
        })
    }

    fn call(&mut self, name: &str, range: &Range<usize>) -> Result<Term<N>, Fault> {
        let Some(function) = N::DIALECT.function(name) else { return Err(N::no_function(name, range)) };
        self.words.expect("(")?;
        let arguments = self.items(")")?;
        let (least, most) = function.arity();
        if arguments.len() < least || arguments.len() > most {
            return Err(N::wrong_number(function, arguments.len(), range));
        }
        Ok(Term::Call(function, arguments))
    }

    fn items(&mut self, close: &'static str) -> Result<Vec<Expression<N>>, Fault> {
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

    fn operator(&self) -> Option<Binary> {
        match self.words.peek()? {
            Token::Symbol(s) => Binary::ALL.into_iter().find(|o| o.symbol() == *s),
            Token::Name(word) if N::DIALECT.words => match word.as_str() {
                "or" => Some(Binary::Or),
                "and" => Some(Binary::And),
                _ => None,
            },
            _ => None,
        }
    }

    /// Enters one level of operands. Fails if there are too many.
    fn deeper(&mut self) -> Result<(), Fault> {
        self.depth += 1;
        if self.depth > N::DIALECT.deepest { Err(self.too_deep(N::DIALECT.deepest)) } else { Ok(()) }
    }
    fn too_deep(&self, deepest: usize) -> Fault {
        let fault = Fault::new(&self.words.range(), format!("expressions nest at most {deepest} deep"));
        Fault { cause: Cause::TooDeep, ..fault }
    }
}

/// Puts signs, with the places where they begin, before an operand; the last one is the next to it.
fn signed<N>(signs: Vec<(Unary, usize)>, operand: Expression<N>) -> Expression<N> {
    signs.into_iter().rev().fold(operand, |operand, (operator, start)| {
        let range = start..operand.range.end;
        // `-1` is a number, so that a printed literal parses back to itself.
        if let (Unary::Negate, Term::Literal(v @ Value::Number(_))) = (operator, &operand.term)
            && let Ok(negated) = operator.apply(v)
        {
            return Expression { term: Term::Literal(negated), range };
        }
        Expression { term: Term::Unary(operator, Box::new(operand)), range }
    })
}
