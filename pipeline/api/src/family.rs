//! Defines families: sets of interchangeable parts, of which stages are composed. Options name a part by a map with a
//! `kind` (`{kind: clip, clip_high: 0.28}`) or by a bare name (`clip`).
//!
//! All families have the same form, so that the catalogue, the schema and the pages handle them alike. A [`Family`] is
//! a value: a program can add custom parts to it before the stages receive it.

mod page;
mod part;

pub use page::{AnyFamily, PartPage, fill_schema};
pub use part::{PartKind, PartOptions};

use part::DynPartOptions;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use trainyard_core::{Error, MetricInfo, OptionProblem, Result};

/// A part named by options. It is parsed once and provides its complete options, its problems, and the part itself.
pub struct ParsedPart<T: ?Sized, A: ?Sized = ()> {
    place: String,
    kind: &'static str,
    metrics: Vec<MetricInfo>,
    options: Box<dyn DynPartOptions<T, A>>,
}

impl<T: ?Sized, A: ?Sized> ParsedPart<T, A> {
    /// Returns the kind of the part, as written after `kind:`.
    pub fn kind(&self) -> &'static str {
        self.kind
    }
    /// Returns the metrics of the part, without the prefix of its kind.
    pub fn metrics(&self) -> &[MetricInfo] {
        &self.metrics
    }
    /// Returns `{kind, …}` with every default filled in.
    pub fn complete(&self) -> Result<Value> {
        self.options.complete().map_err(|e| e.at(&self.place))
    }
    /// Returns all problems of the options; pointers are relative to them.
    pub fn problems(&self) -> Vec<OptionProblem> {
        self.options.problems()
    }
    /// Returns the requirements of the part.
    pub fn needs(&self) -> Vec<&'static str> {
        self.options.needs()
    }
    /// Builds a new part. Errors: invalid, naming the part and the option.
    pub fn build(&self, context: &A) -> Result<Box<T>> {
        let built = match self.problems().into_iter().next() {
            Some(problem) => Err(problem_error(problem)),
            None => self.options.build(context),
        };
        built.map_err(|e| e.at(&self.place))
    }
}

/// All parts of one family.
pub struct Family<T: ?Sized, A: ?Sized = ()> {
    /// Name in pages and recipes: `losses`.
    pub folder: &'static str,
    /// Name of one member in messages: `loss term`.
    pub member_name: &'static str,
    members: Vec<PartKind<T, A>>,
}

impl<T: ?Sized + 'static, A: ?Sized + 'static> Family<T, A> {
    /// Creates a family; `members` must be sorted by kind.
    pub fn new(folder: &'static str, member_name: &'static str, members: Vec<PartKind<T, A>>) -> Self {
        debug_assert!(members.windows(2).all(|pair| pair[0].kind < pair[1].kind), "{folder} is sorted");
        Self { folder, member_name, members }
    }
    /// Adds a part. Errors: invalid, if the kind exists already.
    pub fn add(&mut self, part: PartKind<T, A>) -> Result<()> {
        match self.members.binary_search_by(|member| member.kind.cmp(part.kind)) {
            Ok(_) => Err(Error::invalid(format!("two parts are called `{}/{}`", self.folder, part.kind))
                .help("choose another KIND for the added part")),
            Err(place) => {
                self.members.insert(place, part);
                Ok(())
            }
        }
    }
    /// Returns all members, sorted by kind.
    pub fn members(&self) -> &[PartKind<T, A>] {
        &self.members
    }
    /// Returns all kinds, sorted.
    pub fn names(&self) -> Vec<&'static str> {
        self.members.iter().map(|member| member.kind).collect()
    }
    /// Parses `{kind, …}` or a bare name. The pointer of a problem is relative to the options.
    pub fn read(&self, options: &Value) -> Result<ParsedPart<T, A>, OptionProblem> {
        let (member, rest) = self.look_up(options)?;
        let options = (member.read)(rest).map_err(|e| OptionProblem::new("", e.message))?;
        Ok(self.parsed_part(member, options))
    }
    /// Returns `{kind, …}` with every default filled in. Errors: invalid, for incorrect types; [`Family::check`] checks
    /// ranges.
    pub fn complete(&self, options: &Value) -> Result<Value> {
        self.find(options)?.complete()
    }
    /// Returns all problems of the options; pointers are relative to them.
    pub fn check(&self, options: &Value) -> Vec<OptionProblem> {
        self.read(options).map_or_else(|problem| vec![problem], |part| part.problems())
    }
    /// Builds the part that `{kind, …}` names. Errors: invalid, with the valid names or the invalid option.
    pub fn build(&self, options: &Value, context: &A) -> Result<Box<T>> {
        self.find(options)?.build(context)
    }
    /// Returns the metrics that any of these parts may report; with `several`, also under the names of a second part of
    /// the same kind.
    pub fn declarable(&self, several: bool) -> Vec<MetricInfo> {
        let of = |member: &PartKind<T, A>| {
            let numbered = several.then(|| format!("{}_<int>", member.kind));
            let prefixes = std::iter::once(member.kind.to_string()).chain(numbered);
            let under = |prefix: String| {
                member.metrics.iter().map(|m| m.clone().prefixed(&prefix)).collect::<Vec<MetricInfo>>()
            };
            prefixes.flat_map(under).collect::<Vec<MetricInfo>>()
        };
        self.members.iter().flat_map(of).collect()
    }
    /// Returns the schema of `{kind, …}`, or of the bare name of a part: one branch per part.
    pub fn schema(&self) -> Value {
        let bare = json!({ "type": "string", "enum": self.names() });
        let branches: Vec<Value> = std::iter::once(bare).chain(self.members.iter().map(PartKind::branch)).collect();
        json!({ "oneOf": branches })
    }

    fn find(&self, options: &Value) -> Result<ParsedPart<T, A>> {
        let (member, rest) = self.look_up(options).map_err(problem_error)?;
        match (member.read)(rest) {
            Ok(options) => Ok(self.parsed_part(member, options)),
            Err(error) => Err(error.at(self.place(member))),
        }
    }
    fn parsed_part(&self, member: &PartKind<T, A>, options: Box<dyn DynPartOptions<T, A>>) -> ParsedPart<T, A> {
        ParsedPart { place: self.place(member), kind: member.kind, metrics: member.metrics.clone(), options }
    }
    /// Formats a part for messages: `` loss term `clip` ``.
    fn place(&self, member: &PartKind<T, A>) -> String {
        format!("{} `{}`", self.member_name, member.kind)
    }
    fn look_up(&self, options: &Value) -> Result<(&PartKind<T, A>, Value), OptionProblem> {
        let known = || format!("use one of: {}", self.names().join(", "));
        let Some((name, rest)) = split(options) else {
            return Err(OptionProblem::new("", format!("this {} has no `kind`", self.member_name)).help(known()));
        };
        let at = if options.is_string() { "" } else { "/kind" };
        let unknown = || OptionProblem::new(at, format!("no {} is called `{name}`", self.member_name)).help(known());
        let member = self.members.iter().find(|member| member.kind == name).ok_or_else(unknown)?;
        Ok((member, rest))
    }
}

/// Returns the metric prefixes of a list of parts: the kind, with a number from the second part of a kind on
/// (`clip_2`).
pub fn prefixes<'a>(kinds: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
    let one = |kind: &'a str| {
        let number = seen.entry(kind).and_modify(|n| *n += 1).or_insert(1);
        if *number == 1 { kind.to_string() } else { format!("{kind}_{number}") }
    };
    kinds.into_iter().map(one).collect()
}

/// Splits options into the name of a part and the options without `kind`. A bare name has no options.
fn split(options: &Value) -> Option<(&str, Value)> {
    match options {
        Value::String(name) => Some((name, Value::Object(Map::new()))),
        Value::Object(map) => {
            let name = map.get("kind")?.as_str()?;
            let rest =
                map.iter().filter(|(key, _)| *key != "kind").map(|(key, value)| (key.clone(), value.clone())).collect();
            Some((name, Value::Object(rest)))
        }
        _ => None,
    }
}

/// Converts a problem to an error that names its position.
fn problem_error(problem: OptionProblem) -> Error {
    let place = problem.pointer.trim_start_matches('/').replace('/', ".");
    let error = Error::invalid(problem.message);
    let error = if place.is_empty() { error } else { error.at(format!("`{place}`")) };
    problem.help.into_iter().fold(error, Error::help)
}

#[cfg(test)]
#[path = "family_tests.rs"]
mod tests;
