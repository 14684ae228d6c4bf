//! Tokens → expression, by precedence climbing.
//!
//! Chained comparisons (`a < b < c`) are errors rather than surprises, and nesting ends at 64 levels.

use super::lexer::{SpannedToken, Token, tokens};
use super::{BinaryOperator, BuiltinFunction, Expr, ExprError, ExprKind, ExprReference, UnaryOperator};
use crate::diagnostic::suggest;
use serde_json::Value;
use std::ops::Range;
use trainyard_core::ComparisonField;

const MAX_DEPTH: usize = 64;
/// Most tokens; bounds the depth of a chain such as `1 + 1 + …`, which nests to the left.
const MAX_TOKENS: usize = 1_000;
const ROOTS: [&str; 9] = ["params", "matrix", "item", "inputs", "outputs", "stages", "true", "false", "null"];

/// Parses a text that is one expression.
pub fn parse(text: &str) -> Result<Expr, ExprError> {
    let (found, end) = tokens(text, 0, false)?;
    ExprParser::new(found, end).whole()
}

/// Parses an expression that starts right after `${{`; ranges are within `text`. Also returns the position after its
/// `}}`.
pub fn parse_embedded(text: &str, start: usize) -> (Result<Expr, ExprError>, usize) {
    match tokens(text, start, true) {
        Ok((found, end)) => (ExprParser::new(found, end).whole(), end + 2),
        // Continue after the next `}}`, so that later expressions are checked as well.
        Err(fault) => (Err(fault), text[start..].find("}}").map_or(text.len(), |i| start + i + 2)),
    }
}

struct ExprParser {
    tokens: Vec<SpannedToken>,
    next: usize,
    /// End of the text, for messages.
    end: usize,
    depth: usize,
    /// Ranges of parts in parentheses.
    grouped: Vec<Range<usize>>,
}

impl ExprParser {
    fn new(tokens: Vec<SpannedToken>, end: usize) -> Self {
        Self { tokens, next: 0, end, depth: 0, grouped: Vec::new() }
    }

    fn whole(mut self) -> Result<Expr, ExprError> {
        if self.tokens.len() > MAX_TOKENS {
            return Err(ExprError::new(
                &self.range(),
                format!("an expression has at most {MAX_TOKENS} words and signs"),
            ));
        }
        if self.tokens.is_empty() {
            return Err(ExprError::new(&(self.end..self.end), "the expression is empty"));
        }
        let expression = self.binary(1)?;
        match self.tokens.get(self.next) {
            None => Ok(expression),
            Some((_, range)) => Err(ExprError::new(range, "the expression should end here")
                .help("put an operator in between, or parentheses around it")),
        }
    }

    fn binary(&mut self, loosest: u8) -> Result<Expr, ExprError> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(ExprError::new(&self.range(), format!("expressions nest at most {MAX_DEPTH} deep")));
        }
        let mut left = self.unary()?;
        while let Some(operator) = self.operator().filter(|o| o.precedence() >= loosest) {
            let place = self.range();
            self.next += 1;
            let right = self.binary(operator.precedence() + 1)?;
            let comparison = |e: &Expr| {
                matches!(&e.kind, ExprKind::Binary(o, ..) if matches!(o.precedence(), 3 | 4))
                    && !self.grouped.contains(&e.range)
            };
            if matches!(operator.precedence(), 3 | 4) && (comparison(&left) || comparison(&right)) {
                return Err(ExprError::new(&place, "comparisons do not chain").help("join two of them with `&&`"));
            }
            let range = left.range.start..right.range.end;
            left = Expr { kind: ExprKind::Binary(operator, Box::new(left), Box::new(right)), range };
        }
        self.depth -= 1;
        Ok(left)
    }

    fn unary(&mut self) -> Result<Expr, ExprError> {
        let operator = match self.peek() {
            Some(Token::Symbol("!")) => UnaryOperator::Not,
            Some(Token::Symbol("-")) => UnaryOperator::Negate,
            _ => return self.postfix(),
        };
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(ExprError::new(&self.range(), format!("expressions nest at most {MAX_DEPTH} deep")));
        }
        let start = self.range().start;
        self.next += 1;
        let operand = self.unary()?;
        self.depth -= 1;
        let range = start..operand.range.end;
        // `-1` is a number, so that a printed literal parses back to itself.
        if let (UnaryOperator::Negate, ExprKind::Literal(v @ Value::Number(_))) = (operator, &operand.kind)
            && let Ok(negated) = operator.apply(v)
        {
            return Ok(Expr { kind: ExprKind::Literal(negated), range });
        }
        Ok(Expr { kind: ExprKind::Unary(operator, Box::new(operand)), range })
    }

    fn postfix(&mut self) -> Result<Expr, ExprError> {
        let mut base = self.primary()?;
        loop {
            if self.take(".").is_some() {
                let (name, range) = self.name("a key after `.`")?;
                let index = Expr { kind: ExprKind::Literal(Value::String(name)), range: range.clone() };
                let whole = base.range.start..range.end;
                base = Expr { kind: ExprKind::Index(Box::new(base), Box::new(index)), range: whole };
            } else if self.take("[").is_some() {
                let index = self.binary(1)?;
                let close = self.expect("]")?;
                let whole = base.range.start..close.end;
                base = Expr { kind: ExprKind::Index(Box::new(base), Box::new(index)), range: whole };
            } else {
                return Ok(base);
            }
        }
    }

    fn primary(&mut self) -> Result<Expr, ExprError> {
        let Some((token, range)) = self.tokens.get(self.next).cloned() else {
            return Err(
                ExprError::new(&(self.end..self.end), "the expression ends too early").help("a value is missing here")
            );
        };
        self.next += 1;
        let term = match token {
            Token::Number(value) => ExprKind::Literal(value),
            Token::Text(text) => ExprKind::Literal(Value::String(text)),
            Token::Symbol("(") => {
                let inner = self.binary(1)?;
                let close = self.expect(")")?;
                let range = range.start..close.end;
                self.grouped.push(range.clone());
                return Ok(Expr { kind: inner.kind, range });
            }
            Token::Symbol("[") => ExprKind::List(self.items("]")?),
            Token::Symbol(symbol) => {
                return Err(ExprError::new(&range, format!("`{symbol}` cannot stand here"))
                    .help("a value is missing before it"));
            }
            Token::Name(name) => self.named(&name, &range)?,
        };
        let end = self.tokens.get(self.next.wrapping_sub(1)).map_or(range.end, |(_, r)| r.end);
        Ok(Expr { kind: term, range: range.start..end })
    }

    fn named(&mut self, name: &str, range: &Range<usize>) -> Result<ExprKind, ExprError> {
        if self.peek() == Some(&Token::Symbol("(")) {
            return self.call(name, range);
        }
        Ok(match name {
            "true" => ExprKind::Literal(Value::Bool(true)),
            "false" => ExprKind::Literal(Value::Bool(false)),
            "null" => ExprKind::Literal(Value::Null),
            "item" => ExprKind::Reference(ExprReference::Item),
            "params" => ExprKind::Reference(ExprReference::Param(self.member(range, "params.<name>")?)),
            "matrix" => ExprKind::Reference(ExprReference::Matrix(self.member(range, "matrix.<axis>")?)),
            "inputs" => ExprKind::Reference(ExprReference::Input(self.member(range, "inputs.<port>")?)),
            "outputs" => ExprKind::Reference(ExprReference::Output(self.member(range, "outputs.<port>")?)),
            "stages" => ExprKind::Reference(self.stage(range)?),
            _ => {
                let fault = ExprError::new(range, format!("`{name}` is not a root of an expression"));
                let functions = BuiltinFunction::ALL.map(BuiltinFunction::name);
                return Err(ExprError { help: suggest(name, ROOTS.into_iter().chain(functions)), ..fault });
            }
        })
    }

    fn call(&mut self, name: &str, range: &Range<usize>) -> Result<ExprKind, ExprError> {
        let Some(function) = BuiltinFunction::from_name(name) else {
            let help = suggest(name, BuiltinFunction::ALL.map(BuiltinFunction::name));
            return Err(ExprError { help, ..ExprError::new(range, format!("there is no function `{name}`")) });
        };
        self.expect("(")?;
        let arguments = self.items(")")?;
        let (least, most) = function.arity();
        if arguments.len() < least || arguments.len() > most {
            return Err(ExprError::new(
                range,
                format!("`{name}` takes {}, found {} arguments", function.takes(), arguments.len()),
            ));
        }
        Ok(ExprKind::Call(function, arguments))
    }

    /// Parses `stages.<id>.<port>`, `.metrics.<name>`, `.metrics.<name>.<number of a comparison>` or `.status`.
    fn stage(&mut self, root: &Range<usize>) -> Result<ExprReference, ExprError> {
        let stage = self.member(root, "stages.<id>.<port>")?;
        let port = self.member(root, "stages.<id>.<port>, stages.<id>.metrics.<name> or stages.<id>.status")?;
        Ok(match port.as_str() {
            "metrics" => {
                let name = self.member(root, "stages.<id>.metrics.<name>")?;
                ExprReference::Metric { stage, of: self.number_of(&name)?, name }
            }
            "status" => ExprReference::Status { stage },
            _ => ExprReference::Artifact { stage, port },
        })
    }

    /// Parses `.difference` and similar after the name of a comparison.
    fn number_of(&mut self, metric: &str) -> Result<Option<ComparisonField>, ExprError> {
        if self.take(".").is_none() {
            return Ok(None);
        }
        let (word, range) = self.name("which number of a comparison")?;
        ComparisonField::parse(&word).map(Some).ok_or_else(|| {
            ExprError::new(&range, format!("`{word}` is no number of a comparison")).help(format!(
                "use one of {}; a name with a dot is written `metrics[\"{metric}.{word}\"]`",
                ComparisonField::NAMES.join(", ")
            ))
        })
    }

    /// Parses `.name` or `["name"]`.
    fn member(&mut self, root: &Range<usize>, form: &str) -> Result<String, ExprError> {
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
        Err(ExprError::new(root, format!("a name is missing: write `{form}`")))
    }

    fn items(&mut self, close: &'static str) -> Result<Vec<Expr>, ExprError> {
        let mut items = Vec::new();
        if self.take(close).is_some() {
            return Ok(items);
        }
        loop {
            items.push(self.binary(1)?);
            if self.take(",").is_none() {
                self.expect(close)?;
                return Ok(items);
            }
        }
    }

    fn name(&mut self, wanted: &str) -> Result<(String, Range<usize>), ExprError> {
        match self.tokens.get(self.next).cloned() {
            Some((Token::Name(name), range)) => {
                self.next += 1;
                Ok((name, range))
            }
            _ => Err(ExprError::new(&self.range(), format!("expected {wanted}"))),
        }
    }

    fn expect(&mut self, symbol: &'static str) -> Result<Range<usize>, ExprError> {
        self.take(symbol).ok_or_else(|| ExprError::new(&self.range(), format!("expected `{symbol}` here")))
    }
    fn take(&mut self, symbol: &str) -> Option<Range<usize>> {
        match self.tokens.get(self.next) {
            Some((Token::Symbol(s), range)) if *s == symbol => {
                self.next += 1;
                Some(range.clone())
            }
            _ => None,
        }
    }
    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.next).map(|(t, _)| t)
    }
    fn operator(&self) -> Option<BinaryOperator> {
        match self.peek() {
            Some(Token::Symbol(s)) => BinaryOperator::ALL.into_iter().find(|o| o.symbol() == *s),
            _ => None,
        }
    }
    fn range(&self) -> Range<usize> {
        self.tokens.get(self.next).map_or(self.end..self.end, |(_, r)| r.clone())
    }
}
