//! Holds the part that a stage's options name at one position. The part is parsed once; its validation, its declared
//! metrics and the run use the same parsed options.

use crate::family::{Family, ParsedPart, PartKind, prefixes};
use serde_json::Value;
use trainyard_core::error::Context as _;
use trainyard_core::{Error, MetricInfo, OptionProblem, Result};

/// The part named at one position of a config.
pub struct Slot<T: ?Sized, A: ?Sized = ()> {
    place: String,
    part: Result<ParsedPart<T, A>, OptionProblem>,
}

impl<T: ?Sized + 'static, A: ?Sized + 'static> Slot<T, A> {
    /// Reads the part at `place` (a pointer, `/loss/terms/0`) and fills in its defaults. Options that name no part or
    /// do not parse stay unchanged and are reported by [`Slot::problems`].
    pub fn read(family: &Family<T, A>, place: impl Into<String>, options: &mut Value) -> Self {
        let part = family.read(options);
        if let Ok(part) = &part
            && let Ok(complete) = part.complete()
        {
            *options = complete;
        }
        Self { place: place.into(), part }
    }
    /// Reads the part at a position of a whole config; a missing position names no part.
    pub fn read_at(family: &Family<T, A>, place: &str, config: &mut Value) -> Self {
        match config.pointer_mut(place) {
            Some(options) => Self::read(family, place, options),
            None => Self::read(family, place, &mut Value::Null),
        }
    }
    /// Whether the options name a part and parse; they may still be out of range.
    pub fn is_read(&self) -> bool {
        self.part.is_ok()
    }
    /// Reads every item of a list at `place`; empty without a list.
    pub fn read_all(family: &Family<T, A>, place: &str, list: Option<&mut Value>) -> Vec<Self> {
        let items = list.and_then(Value::as_array_mut).into_iter().flatten().enumerate();
        items.map(|(i, options)| Self::read(family, format!("{place}/{i}"), options)).collect()
    }
    /// Returns all problems of the part by itself; pointers are into the config.
    pub fn problems(&self) -> Vec<OptionProblem> {
        let problems = match &self.part {
            Ok(part) => part.problems(),
            Err(problem) => vec![problem.clone()],
        };
        problems.into_iter().map(|problem| problem.with_prefix(&self.place)).collect()
    }
    /// Returns the kind; empty if the options name no part.
    pub fn kind(&self) -> &'static str {
        self.part.as_ref().map(ParsedPart::kind).unwrap_or_default()
    }
    /// Returns the metrics of a list of parts, by their names in manifests.
    pub fn declared_metrics(slots: &[Self]) -> Vec<MetricInfo> {
        let named = slots.iter().zip(prefixes(slots.iter().map(Self::kind)));
        let of = |(slot, prefix): (&Self, String)| -> Vec<MetricInfo> {
            let metrics = slot.part.as_ref().map(ParsedPart::metrics).unwrap_or_default();
            metrics.iter().map(|m| m.clone().prefixed(&prefix)).collect()
        };
        named.flat_map(of).collect()
    }
    /// Returns the requirements of the part.
    pub fn needs(&self) -> Vec<&'static str> {
        self.part.as_ref().map(ParsedPart::needs).unwrap_or_default()
    }
    /// Builds a new part. Errors: invalid, with the position of the part and the problem.
    pub fn build(&self, context: &A) -> Result<Box<T>> {
        let built = match &self.part {
            Ok(part) => part.build(context),
            Err(problem) => Err(problem.help.clone().into_iter().fold(Error::invalid(&problem.message), Error::help)),
        };
        built.at(self.place.trim_start_matches('/').replace('/', "."))
    }
}

/// Creates a part that is a value without options.
pub fn constant<V: Copy + Send + Sync + 'static>(
    kind: &'static str,
    summary: &'static str,
    doc: &'static str,
    value: V,
) -> PartKind<V> {
    PartKind::plain(kind, summary, doc, move |()| Ok(Box::new(value)))
}
