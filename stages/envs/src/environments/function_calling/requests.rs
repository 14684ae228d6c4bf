//! Generates requests with their correct calls, by level.
//!
//! | level | calls | parameters of each | functions shown |
//! |---|---|---|---|
//! | 1 | 1 | 1 | 2 |
//! | 2 | 1 | 2 | 3 |
//! | 3 | 1 | 3 | 3 |
//! | 4 | 2 | 1 or 2 | 4 |
//! | 5 | 3 | 1 to 3 | 5 |
//!
//! The canonical form consists of functions, phrases and values, including whether a number is written in words. The
//! other functions shown, the opening and the joining words are decoration and do not enter it. No request calls a
//! function twice or uses a word for two parameters of a call.

use super::catalog::{CATALOG, CatalogFunction, Domain, FunctionParameter};
use crate::tools::ToolCall;
use serde_json::Value;
use trainyard_core::Chance;
use trainyard_core::chance::PhiloxRng;

/// Highest level; the lowest is 1.
pub const MAX_LEVEL: u32 = 5;

/// Numbers that may also be written in words.
static WORDS: [&str; 21] = [
    "zero",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
    "thirteen",
    "fourteen",
    "fifteen",
    "sixteen",
    "seventeen",
    "eighteen",
    "nineteen",
    "twenty",
];
/// Text before and after a request.
const OPENINGS: [(&str, &str); 4] = [("", "."), ("please ", "."), ("could you ", "?"), ("I want you to ", ".")];
const CONNECTIVES: [&str; 3] = [", then ", " and ", ", and also "];

/// Value and its wording.
#[derive(Debug, Clone, PartialEq)]
struct WordedValue {
    value: Value,
    text: String,
}

/// One requested call.
#[derive(Debug, Clone, PartialEq)]
struct RequestedCall {
    function: &'static CatalogFunction,
    phrase: usize,
    /// Values in the order of the function's parameters.
    values: Vec<WordedValue>,
}

/// A generated request with its correct calls.
#[derive(Debug, Clone, PartialEq)]
pub struct GeneratedRequest {
    /// Level, from 1.
    pub level: u32,
    requests: Vec<RequestedCall>,
    /// The requested functions among others, shuffled.
    pub shown: Vec<&'static CatalogFunction>,
    opening: usize,
    joints: Vec<usize>,
}

/// Returns request number `index` of a level under the seed of `chance`. `level` is clamped to 1..=[`MAX_LEVEL`].
pub fn generate(level: u32, index: u64, chance: &Chance) -> GeneratedRequest {
    let level = level.clamp(1, MAX_LEVEL);
    let mut draws = chance.at("function-call", &[u64::from(level), index]);
    let (calls, arity, shown) = match level {
        1 => (1, 1..=1, 2),
        2 => (1, 2..=2, 3),
        3 => (1, 3..=3, 3),
        4 => (2, 1..=2, 4),
        _ => (3, 1..=3, 5),
    };
    let mut functions: Vec<&'static CatalogFunction> = CATALOG.iter().collect();
    draws.shuffle(&mut functions);
    let requested: Vec<&'static CatalogFunction> =
        functions.iter().copied().filter(|f| arity.contains(&f.parameters.len())).take(calls).collect();
    let requests: Vec<RequestedCall> = requested.iter().map(|function| request(function, &mut draws)).collect();
    let others = functions.into_iter().filter(|f| !requested.iter().any(|w| w.name == f.name)).take(shown - calls);
    let mut shown: Vec<&'static CatalogFunction> = requested.iter().copied().chain(others).collect();
    draws.shuffle(&mut shown);
    let opening = draws.below(OPENINGS.len() as u64) as usize;
    let joints = (1..calls).map(|_| draws.below(CONNECTIVES.len() as u64) as usize).collect();
    GeneratedRequest { level, requests, shown, opening, joints }
}

fn request(function: &'static CatalogFunction, draws: &mut PhiloxRng) -> RequestedCall {
    let phrase = draws.below(function.requests.len() as u64) as usize;
    let mut values: Vec<WordedValue> = Vec::with_capacity(function.parameters.len());
    for parameter in function.parameters {
        let drawn = draw_value(parameter, &values, draws);
        values.push(drawn);
    }
    RequestedCall { function, phrase, values }
}

fn draw_value(parameter: &FunctionParameter, before: &[WordedValue], draws: &mut PhiloxRng) -> WordedValue {
    match &parameter.domain {
        Domain::Count { least, most } => number(draws.between(*least, *most), draws),
        Domain::Hour => number(draws.between(1, 12), draws),
        Domain::Word(words) => {
            let free: Vec<&str> = words.iter().copied().filter(|w| before.iter().all(|s| s.text != *w)).collect();
            let word = *draws.choose(&free);
            WordedValue { value: Value::from(word), text: word.to_string() }
        }
        Domain::Flag { yes, no } => {
            let flag = draws.below(2) == 1;
            WordedValue { value: Value::from(flag), text: (if flag { *yes } else { *no }).to_string() }
        }
    }
}

/// Writes a number in words half of the time if [`WORDS`] contains it, otherwise in digits.
fn number(value: i64, draws: &mut PhiloxRng) -> WordedValue {
    let word = usize::try_from(value).ok().and_then(|n| WORDS.get(n)).filter(|_| draws.below(2) == 1);
    WordedValue { value: Value::from(value), text: word.map_or_else(|| value.to_string(), |w| (*w).to_string()) }
}

impl RequestedCall {
    fn text(&self) -> String {
        let mut text = self.function.requests[self.phrase].to_string();
        for (parameter, value) in self.function.parameters.iter().zip(&self.values) {
            text = text.replace(&format!("{{{}}}", parameter.name), &value.text);
        }
        text
    }
    /// Returns the canonical form: `book_table/0:four,7`.
    fn canonical(&self) -> String {
        let texts: Vec<&str> = self.values.iter().map(|s| s.text.as_str()).collect();
        format!("{}/{}:{}", self.function.name, self.phrase, texts.join(","))
    }
    fn call(&self) -> ToolCall {
        let arguments =
            self.function.parameters.iter().zip(&self.values).map(|(p, s)| (p.name.to_string(), s.value.clone()));
        ToolCall { name: self.function.name.to_string(), arguments: Value::Object(arguments.collect()) }
    }
}

impl GeneratedRequest {
    /// Returns the user's message.
    pub fn text(&self) -> String {
        let (before, after) = OPENINGS[self.opening];
        let mut text = before.to_string();
        for (i, request) in self.requests.iter().enumerate() {
            if i > 0 {
                text.push_str(CONNECTIVES[self.joints[i - 1]]);
            }
            text.push_str(&request.text());
        }
        text.push_str(after);
        text[..1].to_uppercase() + &text[1..]
    }
    /// Returns the correct calls, in the order of the request.
    pub fn calls(&self) -> Vec<ToolCall> {
        self.requests.iter().map(RequestedCall::call).collect()
    }
    /// Returns the correct calls as JSON.
    pub fn calls_json(&self) -> String {
        let calls: Vec<Value> =
            self.calls().into_iter().map(|c| serde_json::json!({"arguments": c.arguments, "name": c.name})).collect();
        Value::Array(calls).to_string()
    }
    /// Returns the canonical form: functions, phrases and values as one text.
    pub fn canonical(&self) -> String {
        self.requests.iter().map(RequestedCall::canonical).collect::<Vec<_>>().join(";")
    }
}
