//! The language of the reward `expression`: arithmetic over named numbers.
//!
//! ```text
//! either     = both ('or' both)*
//! both       = not ('and' not)*
//! not        = 'not' not | comparison
//! comparison = sum (('<' | '<=' | '>' | '>=' | '==' | '!=') sum)?
//! sum        = product (('+' | '-') product)*
//! product    = sign (('*' | '/') sign)*
//! sign       = '-' sign | atom
//! atom       = number | name | name '(' either (',' either)* ')' | '(' either ')'
//! ```
//!
//! It is not the language of `${{ … }}` in workflow files, which knows stages and parameters and no episodes, and not
//! SQL, which needs a table. Truth is 1 and 0, so `2 * (turns < 3)` is a bonus.

const MOST_BYTES: usize = 4096;
const MOST_DEPTH: usize = 64;

/// A parsed expression.
#[derive(Debug, Clone, PartialEq)]
pub enum Formula {
    /// A constant.
    Number(f64),
    /// Index of a name among the given names.
    Name(usize),
    /// An operator or a function.
    Apply(FormulaFunction, Vec<Formula>),
}

/// Operator or function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FormulaFunction {
    /// `a + b`, and so on.
    Add,
    Subtract,
    Multiply,
    Divide,
    /// `-a`.
    Negate,
    /// `a < b`, and so on.
    Less,
    LessOrEqual,
    Equal,
    Different,
    /// `a and b`: the second one counts if the first one is not 0.
    And,
    /// `a or b`.
    Or,
    /// `not a`.
    Not,
    /// The magnitude.
    Abs,
    /// The largest of all.
    Max,
    /// The smallest of all.
    Min,
    /// The square root.
    Sqrt,
    /// `if(condition, then, else)`.
    If,
}

/// Functions by name, with the number of their arguments; `None` = one or more.
const FUNCTIONS: [(&str, FormulaFunction, Option<usize>); 5] = [
    ("abs", FormulaFunction::Abs, Some(1)),
    ("if", FormulaFunction::If, Some(3)),
    ("max", FormulaFunction::Max, None),
    ("min", FormulaFunction::Min, None),
    ("sqrt", FormulaFunction::Sqrt, Some(1)),
];

impl Formula {
    /// Parses an expression over these names. The error describes the problem and its position.
    pub fn parse(text: &str, names: &[&str]) -> Result<Self, String> {
        if text.len() > MOST_BYTES {
            return Err(format!("an expression has at most {MOST_BYTES} bytes"));
        }
        let mut parser = FormulaParser { text, at: 0, names, depth: 0 };
        let formula = parser.either()?;
        if parser.rest().is_empty() { Ok(formula) } else { Err(parser.unexpected()) }
    }
    /// Returns the value for these values of the names; may be infinite or not a number.
    pub fn value(&self, names: &[f64]) -> f64 {
        match self {
            Self::Number(number) => *number,
            Self::Name(place) => names[*place],
            Self::Apply(function, of) => apply(*function, of, names),
        }
    }
}

fn apply(function: FormulaFunction, of: &[Formula], names: &[f64]) -> f64 {
    let value = |place: usize| of[place].value(names);
    let all = || of.iter().map(|one| one.value(names));
    let truth = |holds: bool| f64::from(u8::from(holds));
    match function {
        FormulaFunction::Add => value(0) + value(1),
        FormulaFunction::Subtract => value(0) - value(1),
        FormulaFunction::Multiply => value(0) * value(1),
        FormulaFunction::Divide => value(0) / value(1),
        FormulaFunction::Negate => -value(0),
        FormulaFunction::Less => truth(value(0) < value(1)),
        FormulaFunction::LessOrEqual => truth(value(0) <= value(1)),
        FormulaFunction::Equal => truth(value(0) == value(1)),
        FormulaFunction::Different => truth(value(0) != value(1)),
        FormulaFunction::And => truth(value(0) != 0.0 && value(1) != 0.0),
        FormulaFunction::Or => truth(value(0) != 0.0 || value(1) != 0.0),
        FormulaFunction::Not => truth(value(0) == 0.0),
        FormulaFunction::Abs => value(0).abs(),
        FormulaFunction::Max => all().fold(f64::NEG_INFINITY, f64::max),
        FormulaFunction::Min => all().fold(f64::INFINITY, f64::min),
        FormulaFunction::Sqrt => value(0).sqrt(),
        FormulaFunction::If => value(if value(0) != 0.0 { 1 } else { 2 }),
    }
}

struct FormulaParser<'a> {
    text: &'a str,
    at: usize,
    names: &'a [&'a str],
    depth: usize,
}

impl FormulaParser<'_> {
    fn rest(&mut self) -> &str {
        let rest = &self.text[self.at..];
        self.at += rest.len() - rest.trim_start().len();
        &self.text[self.at..]
    }
    fn unexpected(&mut self) -> String {
        match self.rest().chars().next() {
            None => "the expression ends too early".to_string(),
            Some(c) => format!("`{c}` at byte {} does not belong there", self.at + 1),
        }
    }
    fn takes(&mut self, symbol: &str) -> bool {
        let found = self.rest().starts_with(symbol);
        self.at += if found { symbol.len() } else { 0 };
        found
    }
    /// Consumes a word that no letter continues.
    fn takes_word(&mut self, word: &str) -> bool {
        let found = self.word() == word;
        self.at += if found { word.len() } else { 0 };
        found
    }
    fn word(&mut self) -> &str {
        let rest = self.rest();
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
        if rest.starts_with(|c: char| c.is_ascii_digit()) { "" } else { &rest[..end] }
    }
    fn either(&mut self) -> Result<Formula, String> {
        self.depth += 1;
        if self.depth > MOST_DEPTH {
            return Err(format!("the expression is nested deeper than {MOST_DEPTH}"));
        }
        let mut left = self.both()?;
        while self.takes_word("or") {
            left = Formula::Apply(FormulaFunction::Or, vec![left, self.both()?]);
        }
        self.depth -= 1;
        Ok(left)
    }
    fn both(&mut self) -> Result<Formula, String> {
        let mut left = self.negation()?;
        while self.takes_word("and") {
            left = Formula::Apply(FormulaFunction::And, vec![left, self.negation()?]);
        }
        Ok(left)
    }
    fn negation(&mut self) -> Result<Formula, String> {
        let mut times = 0;
        while self.takes_word("not") {
            times += 1;
        }
        let inner = self.comparison()?;
        Ok((0..times).fold(inner, |inner, _| Formula::Apply(FormulaFunction::Not, vec![inner])))
    }
    fn comparison(&mut self) -> Result<Formula, String> {
        let left = self.sum()?;
        // The longer symbols first; the other direction is the same with its sides exchanged.
        let symbols = [
            ("<=", FormulaFunction::LessOrEqual, false),
            (">=", FormulaFunction::LessOrEqual, true),
            ("==", FormulaFunction::Equal, false),
            ("!=", FormulaFunction::Different, false),
            ("<", FormulaFunction::Less, false),
            (">", FormulaFunction::Less, true),
        ];
        for (symbol, function, exchanged) in symbols {
            if self.takes(symbol) {
                let right = self.sum()?;
                let sides = if exchanged { vec![right, left] } else { vec![left, right] };
                return Ok(Formula::Apply(function, sides));
            }
        }
        Ok(left)
    }
    fn sum(&mut self) -> Result<Formula, String> {
        let mut left = self.product()?;
        loop {
            let function = match self.rest().as_bytes().first() {
                Some(b'+') => FormulaFunction::Add,
                Some(b'-') => FormulaFunction::Subtract,
                _ => return Ok(left),
            };
            self.at += 1;
            left = Formula::Apply(function, vec![left, self.product()?]);
        }
    }
    fn product(&mut self) -> Result<Formula, String> {
        let mut left = self.sign()?;
        loop {
            let function = match self.rest().as_bytes().first() {
                Some(b'*') => FormulaFunction::Multiply,
                Some(b'/') => FormulaFunction::Divide,
                _ => return Ok(left),
            };
            self.at += 1;
            left = Formula::Apply(function, vec![left, self.sign()?]);
        }
    }
    fn sign(&mut self) -> Result<Formula, String> {
        let mut times = 0;
        while self.takes("-") {
            times += 1;
        }
        let inner = self.atom()?;
        Ok((0..times).fold(inner, |inner, _| Formula::Apply(FormulaFunction::Negate, vec![inner])))
    }
    fn atom(&mut self) -> Result<Formula, String> {
        if self.takes("(") {
            let inner = self.either()?;
            return if self.takes(")") { Ok(inner) } else { Err(self.unexpected()) };
        }
        let word = self.word().to_string();
        if word.is_empty() {
            return self.number();
        }
        let begin = self.at;
        self.at += word.len();
        if let Some(place) = self.names.iter().position(|name| *name == word) {
            return Ok(Formula::Name(place));
        }
        let Some((_, function, wanted)) = FUNCTIONS.iter().find(|(name, ..)| *name == word) else {
            self.at = begin;
            let functions = FUNCTIONS.map(|(name, ..)| format!("{name}(…)")).join(", ");
            return Err(format!("nothing is called `{word}`; there are {}, and {functions}", self.names.join(", ")));
        };
        let arguments = self.arguments(&word)?;
        if wanted.is_some_and(|wanted| wanted != arguments.len()) {
            return Err(format!("`{word}` takes {} values, not {}", wanted.unwrap_or_default(), arguments.len()));
        }
        Ok(Formula::Apply(*function, arguments))
    }
    fn arguments(&mut self, function: &str) -> Result<Vec<Formula>, String> {
        if !self.takes("(") {
            return Err(format!("`{function}` is a function: write `{function}(…)`"));
        }
        let mut arguments = vec![self.either()?];
        while self.takes(",") {
            arguments.push(self.either()?);
        }
        if self.takes(")") { Ok(arguments) } else { Err(self.unexpected()) }
    }
    fn number(&mut self) -> Result<Formula, String> {
        let rest = self.rest();
        let mut end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        // An exponent: `1e-3`.
        if end > 0 && rest[end..].starts_with(['e', 'E']) {
            let signed = rest[end + 1..].starts_with(['-', '+']);
            let from = end + 1 + usize::from(signed);
            let digits = rest[from..].find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len() - from);
            end = if digits > 0 { from + digits } else { end };
        }
        match rest[..end].parse::<f64>() {
            Ok(number) if number.is_finite() => {
                self.at += end;
                Ok(Formula::Number(number))
            }
            _ => Err(self.unexpected()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: [&str; 2] = ["correct", "tool_calls"];

    fn value(text: &str) -> f64 {
        Formula::parse(text, &NAMES).unwrap().value(&[1.0, 3.0])
    }

    #[test]
    fn values_are_those_of_arithmetic() {
        for (text, expected) in [
            ("correct - 0.01 * tool_calls", 0.97),
            ("1 + 2 * 3", 7.0),
            ("(1 + 2) * 3", 9.0),
            ("8 / 4 / 2", 1.0),
            ("5 - 3 - 1", 1.0),
            ("- -2", 2.0),
            ("-2 + 5", 3.0),
            ("1e-3 * 1E3", 1.0),
            ("tool_calls > 2", 1.0),
            ("tool_calls >= 3 and not correct", 0.0),
            ("0 or correct == 1", 1.0),
            ("tool_calls != 3", 0.0),
            ("if(correct, 2, 1 / 0)", 2.0),
            ("max(1, tool_calls, 2) + min(4, 5) + abs(-1) + sqrt(9)", 11.0),
            ("not not correct", 1.0),
        ] {
            assert_eq!(value(text), expected, "{text}");
        }
    }

    #[test]
    fn mistakes_are_named() {
        for (text, words) in [
            ("", "ends too early"),
            ("1 +", "ends too early"),
            ("1 2", "`2` at byte 3"),
            ("(1", "ends too early"),
            ("corect", "nothing is called `corect`; there are correct, tool_calls, and abs(…)"),
            ("max", "is a function"),
            ("abs(1, 2)", "`abs` takes 1 values, not 2"),
            ("1..2", "does not belong"),
            ("correct $", "`$` at byte 9"),
            ("1 é", "`é`"),
        ] {
            let said = Formula::parse(text, &NAMES).unwrap_err();
            assert!(said.contains(words), "{text}: {said}");
        }
        assert!(Formula::parse(&"(".repeat(100), &NAMES).unwrap_err().contains("nested"));
        assert!(Formula::parse(&"1+".repeat(3_000), &NAMES).unwrap_err().contains("at most"));
    }
}
