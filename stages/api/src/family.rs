//! Families of parts: what stages compose, written as a map with a `kind` (`{kind: clip, clip_high: 0.28}`) or as a
//! bare name (`clip`).
//!
//! Every family has the same shape, whatever its parts do, so that the catalogue, the schema and the pages need to know
//! nothing else. A [`Family`] is a value: a program adds parts of its own to it before the stages get it.

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use trainyard_core::{Error, Metric, OptionProblem, Result};

/// A part's options: a plain struct with defaults that denies unknown fields. Its doc comments are their documentation.
pub trait PartOptions: Clone + Serialize + DeserializeOwned + JsonSchema + Send + Sync + 'static {
    /// As written after `kind:`.
    const KIND: &'static str;
    /// One line for lists.
    const SUMMARY: &'static str;
    /// Markdown: formula, shapes, units, constants, errors, source.
    const DOC: &'static str;
    /// What it reports, without its kind in front: the stage adds that (`clip.fraction`; `clip_2.fraction` of a second
    /// one).
    fn metrics() -> Vec<Metric> {
        Vec::new()
    }
    /// Everything wrong that types cannot express; pointers are relative to the options.
    fn check(&self) -> Vec<OptionProblem> {
        Vec::new()
    }
}

/// One member of a family. `T` is what it builds, `A` what it needs for that besides its options.
pub struct PartKind<T: ?Sized, A: ?Sized = ()> {
    pub kind: &'static str,
    /// One line.
    pub summary: &'static str,
    /// Markdown.
    pub doc: &'static str,
    /// What it reports, without its kind in front.
    pub metrics: Vec<Metric>,
    /// Of the options without `kind`.
    schema: fn() -> Value,
    read: Reader<T, A>,
}

type Reader<T, A> = Box<dyn Fn(Value) -> Result<Box<dyn Options<T, A>>> + Send + Sync>;

/// Parsed options of a part whose type is forgotten.
trait Options<T: ?Sized, A: ?Sized>: Send + Sync {
    fn complete(&self) -> Result<Value>;
    fn problems(&self) -> Vec<OptionProblem>;
    fn needs(&self) -> Vec<&'static str>;
    fn build(&self, context: &A) -> Result<Box<T>>;
}

/// Options with the functions that give them a meaning.
struct Typed<O, B> {
    kind: &'static str,
    options: O,
    check: fn(&O) -> Vec<OptionProblem>,
    needs: fn(&O) -> Vec<&'static str>,
    build: B,
}

impl<O, B, T: ?Sized, A: ?Sized> Options<T, A> for Typed<O, B>
where
    O: Clone + Serialize + Send + Sync,
    B: Fn(O, &A) -> Result<Box<T>> + Send + Sync,
{
    fn complete(&self) -> Result<Value> {
        match serde_json::to_value(&self.options) {
            Ok(Value::Object(mut map)) => {
                map.insert("kind".into(), json!(self.kind));
                Ok(Value::Object(map))
            }
            Ok(_) => Err(Error::bug("its options are not a map")),
            Err(e) => Err(Error::bug(format!("its options have no JSON form: {e}"))),
        }
    }
    fn problems(&self) -> Vec<OptionProblem> {
        (self.check)(&self.options)
    }
    fn needs(&self) -> Vec<&'static str> {
        (self.needs)(&self.options)
    }
    fn build(&self, context: &A) -> Result<Box<T>> {
        (self.build)(self.options.clone(), context)
    }
}

/// Options of a part that has none.
#[derive(Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct NoOptions {}

impl<T: ?Sized + 'static, A: ?Sized + 'static> PartKind<T, A> {
    /// A part with options `O`.
    pub fn new<O: PartOptions>(build: fn(O, &A) -> Result<Box<T>>) -> Self {
        Self::with_needs(build, |_: &O| Vec::new())
    }
    /// The same for a part that cannot do without something that its stage or environment may lack.
    pub fn with_needs<O: PartOptions>(build: fn(O, &A) -> Result<Box<T>>, needs: fn(&O) -> Vec<&'static str>) -> Self {
        let read = move |options| {
            let options: O = parse(options)?;
            let typed = Typed { kind: O::KIND, options, check: O::check, needs, build };
            Ok(Box::new(typed) as Box<dyn Options<T, A>>)
        };
        let (kind, summary, doc) = (O::KIND, O::SUMMARY, O::DOC);
        Self { kind, summary, doc, metrics: O::metrics(), schema: schema::<O>, read: Box::new(read) }
    }
    /// A part without options.
    pub fn plain(
        kind: &'static str,
        summary: &'static str,
        doc: &'static str,
        build: impl Fn(&A) -> Result<Box<T>> + Send + Sync + 'static,
    ) -> Self {
        let build = Arc::new(build);
        let read = move |options| {
            let build = build.clone();
            let typed = Typed {
                kind,
                options: parse::<NoOptions>(options)?,
                check: |_| Vec::new(),
                needs: |_| Vec::new(),
                build: move |_: NoOptions, context: &A| build(context),
            };
            Ok(Box::new(typed) as Box<dyn Options<T, A>>)
        };
        Self { kind, summary, doc, metrics: Vec::new(), schema: schema::<NoOptions>, read: Box::new(read) }
    }
    /// The schema of this part's map, `kind` included.
    pub fn branch(&self) -> Value {
        let mut schema = (self.schema)();
        let Some(map) = schema.as_object_mut() else { return schema };
        map.remove("$schema");
        map.insert("title".into(), json!(self.kind));
        map.insert("description".into(), json!(self.summary));
        map.insert("additionalProperties".into(), json!(false));
        let mut required = vec![json!("kind")];
        required.extend(map.remove("required").and_then(|names| names.as_array().cloned()).unwrap_or_default());
        map.insert("required".into(), Value::Array(required));
        let properties = map.entry("properties").or_insert_with(|| json!({}));
        properties["kind"] = json!({ "const": self.kind });
        schema
    }
    /// What the part needs with default options; nothing if it has options without a default.
    pub fn default_needs(&self) -> Vec<&'static str> {
        (self.read)(Value::Object(Map::new())).map(|options| options.needs()).unwrap_or_default()
    }
}

/// A part that some options name: parsed once, then asked for its complete options, its problems, and the part itself.
pub struct Chosen<T: ?Sized, A: ?Sized = ()> {
    place: String,
    kind: &'static str,
    metrics: Vec<Metric>,
    options: Box<dyn Options<T, A>>,
}

impl<T: ?Sized, A: ?Sized> Chosen<T, A> {
    pub fn kind(&self) -> &'static str {
        self.kind
    }
    /// What the part reports, without its kind in front.
    pub fn metrics(&self) -> &[Metric] {
        &self.metrics
    }
    /// `{kind, …}` with every default filled in.
    pub fn complete(&self) -> Result<Value> {
        self.options.complete().map_err(|e| e.at(&self.place))
    }
    /// Everything wrong with the options; pointers are relative to them.
    pub fn problems(&self) -> Vec<OptionProblem> {
        self.options.problems()
    }
    /// What the part cannot do without.
    pub fn needs(&self) -> Vec<&'static str> {
        self.options.needs()
    }
    /// A fresh part. Errors: invalid, naming the part and the option.
    pub fn build(&self, context: &A) -> Result<Box<T>> {
        let built = match self.problems().into_iter().next() {
            Some(problem) => Err(refused(problem)),
            None => self.options.build(context),
        };
        built.map_err(|e| e.at(&self.place))
    }
}

/// All parts of one sort.
pub struct Family<T: ?Sized, A: ?Sized = ()> {
    /// How pages and recipes call it: `losses`.
    pub folder: &'static str,
    /// How messages call one member: `loss term`.
    pub what: &'static str,
    members: Vec<PartKind<T, A>>,
}

impl<T: ?Sized + 'static, A: ?Sized + 'static> Family<T, A> {
    /// `members` are sorted by kind.
    pub fn new(folder: &'static str, what: &'static str, members: Vec<PartKind<T, A>>) -> Self {
        debug_assert!(members.windows(2).all(|pair| pair[0].kind < pair[1].kind), "{folder} is sorted");
        Self { folder, what, members }
    }
    /// Adds a part. Errors: invalid, if the kind is taken.
    pub fn add(&mut self, part: PartKind<T, A>) -> Result<()> {
        match self.members.binary_search_by(|member| member.kind.cmp(part.kind)) {
            Ok(_) => Err(Error::invalid(format!("two parts are called `{}/{}`", self.folder, part.kind))
                .help("give yours another KIND")),
            Err(place) => {
                self.members.insert(place, part);
                Ok(())
            }
        }
    }
    /// Sorted by kind.
    pub fn members(&self) -> &[PartKind<T, A>] {
        &self.members
    }
    pub fn names(&self) -> Vec<&'static str> {
        self.members.iter().map(|member| member.kind).collect()
    }
    /// Parses `{kind, …}` or a bare name. The problem, if there is one, is relative to the options.
    pub fn read(&self, options: &Value) -> Result<Chosen<T, A>, OptionProblem> {
        let (member, own) = self.look_up(options)?;
        let options = (member.read)(own).map_err(|e| OptionProblem::new("", e.message))?;
        Ok(self.chosen(member, options))
    }
    /// `{kind, …}` with every default filled in. Errors: invalid, as far as types tell; ranges are for
    /// [`Family::check`].
    pub fn complete(&self, options: &Value) -> Result<Value> {
        self.find(options)?.complete()
    }
    /// Everything wrong with the options; pointers are relative to them.
    pub fn check(&self, options: &Value) -> Vec<OptionProblem> {
        self.read(options).map_or_else(|problem| vec![problem], |chosen| chosen.problems())
    }
    /// Builds the part that `{kind, …}` names. Errors: invalid, with the valid names or the wrong option.
    pub fn build(&self, options: &Value, context: &A) -> Result<Box<T>> {
        self.find(options)?.build(context)
    }
    /// What any of these parts may report; with `several`, also under the names of a second one of its kind.
    pub fn declarable(&self, several: bool) -> Vec<Metric> {
        let of = |member: &PartKind<T, A>| {
            let numbered = several.then(|| format!("{}_<int>", member.kind));
            let prefixes = std::iter::once(member.kind.to_string()).chain(numbered);
            let under = |prefix: String| member.metrics.iter().map(|m| m.clone().of(&prefix)).collect::<Vec<Metric>>();
            prefixes.flat_map(under).collect::<Vec<Metric>>()
        };
        self.members.iter().flat_map(of).collect()
    }
    /// The schema of `{kind, …}`, or of the bare name of a part: one branch per part.
    pub fn schema(&self) -> Value {
        let bare = json!({ "type": "string", "enum": self.names() });
        let branches: Vec<Value> = std::iter::once(bare).chain(self.members.iter().map(PartKind::branch)).collect();
        json!({ "oneOf": branches })
    }

    fn find(&self, options: &Value) -> Result<Chosen<T, A>> {
        let (member, own) = self.look_up(options).map_err(refused)?;
        match (member.read)(own) {
            Ok(options) => Ok(self.chosen(member, options)),
            Err(error) => Err(error.at(self.place(member))),
        }
    }
    fn chosen(&self, member: &PartKind<T, A>, options: Box<dyn Options<T, A>>) -> Chosen<T, A> {
        Chosen { place: self.place(member), kind: member.kind, metrics: member.metrics.clone(), options }
    }
    /// A part as messages call it: `` loss term `clip` ``.
    fn place(&self, member: &PartKind<T, A>) -> String {
        format!("{} `{}`", self.what, member.kind)
    }
    fn look_up(&self, options: &Value) -> Result<(&PartKind<T, A>, Value), OptionProblem> {
        let known = || format!("use one of: {}", self.names().join(", "));
        let Some((name, own)) = split(options) else {
            return Err(OptionProblem::new("", format!("this {} has no `kind`", self.what)).help(known()));
        };
        let at = if options.is_string() { "" } else { "/kind" };
        let unknown = || OptionProblem::new(at, format!("no {} is called `{name}`", self.what)).help(known());
        let member = self.members.iter().find(|member| member.kind == name).ok_or_else(unknown)?;
        Ok((member, own))
    }
}

/// The documentation of one part.
#[derive(Debug, Clone, Serialize)]
pub struct PartPage {
    /// `losses/clip`.
    pub name: String,
    pub folder: &'static str,
    pub kind: &'static str,
    /// One line.
    pub summary: &'static str,
    /// Markdown.
    pub doc: &'static str,
    /// JSON Schema of the options, `kind` included.
    pub options: Value,
    /// With default options.
    pub needs: Vec<&'static str>,
    /// As manifests name them.
    pub metrics: Vec<Metric>,
    /// The options that a named composition stands for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expands_to: Option<Value>,
}

/// A family whose parts' type is forgotten: what lists, pages and recipes need.
pub trait AnyFamily: Send + Sync {
    /// As in [`Family::folder`].
    fn folder(&self) -> &'static str;
    /// As in [`Family::what`].
    fn what(&self) -> &'static str;
    /// Sorted.
    fn kinds(&self) -> Vec<&'static str>;
    /// One per part, sorted.
    fn pages(&self) -> Vec<PartPage>;
    /// As in [`Family::schema`].
    fn schema(&self) -> Value;
}

impl<T: ?Sized + 'static, A: ?Sized + 'static> AnyFamily for Family<T, A> {
    fn folder(&self) -> &'static str {
        self.folder
    }
    fn what(&self) -> &'static str {
        self.what
    }
    fn kinds(&self) -> Vec<&'static str> {
        self.names()
    }
    fn schema(&self) -> Value {
        Family::schema(self)
    }
    fn pages(&self) -> Vec<PartPage> {
        let page = |member: &PartKind<T, A>| PartPage {
            name: format!("{}/{}", self.folder, member.kind),
            folder: self.folder,
            kind: member.kind,
            summary: member.summary,
            doc: member.doc,
            options: member.branch(),
            needs: member.default_needs(),
            metrics: member.metrics.iter().map(|m| m.clone().of(member.kind)).collect(),
            expands_to: None,
        };
        self.members.iter().map(page).collect()
    }
}

/// Puts the schema of a family where the derived schema of a stage's options has `"x-family": "<folder>"`
/// (`#[schemars(extend("x-family" = "losses"))]` on a `Value` or a `Vec<Value>`).
pub fn fill_schema(schema: &mut Value, folder: &str, family: &Value) {
    match schema {
        Value::Object(map) if map.get("x-family").and_then(Value::as_str) == Some(folder) => {
            map.remove("x-family");
            if map.get("type").and_then(Value::as_str) == Some("array") {
                map.insert("items".into(), family.clone());
            } else {
                map.extend(family.as_object().cloned().unwrap_or_default());
            }
        }
        Value::Object(map) => map.values_mut().for_each(|inner| fill_schema(inner, folder, family)),
        Value::Array(list) => list.iter_mut().for_each(|inner| fill_schema(inner, folder, family)),
        _ => {}
    }
}

/// What stands before the metrics of each part of a list: its kind, from the second of a kind on with its number
/// (`clip_2`).
pub fn prefixes<'a>(kinds: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
    let one = |kind: &'a str| {
        let number = seen.entry(kind).and_modify(|n| *n += 1).or_insert(1);
        if *number == 1 { kind.to_string() } else { format!("{kind}_{number}") }
    };
    kinds.into_iter().map(one).collect()
}

/// The name of a part, and its options without `kind`. A bare name is a map with nothing else.
fn split(options: &Value) -> Option<(&str, Value)> {
    match options {
        Value::String(name) => Some((name, Value::Object(Map::new()))),
        Value::Object(map) => {
            let name = map.get("kind")?.as_str()?;
            let own =
                map.iter().filter(|(key, _)| *key != "kind").map(|(key, value)| (key.clone(), value.clone())).collect();
            Some((name, Value::Object(own)))
        }
        _ => None,
    }
}

fn parse<O: DeserializeOwned>(options: Value) -> Result<O> {
    serde_json::from_value(options).map_err(Error::invalid)
}

/// The problem as an error, its place in front.
fn refused(problem: OptionProblem) -> Error {
    let place = problem.pointer.trim_start_matches('/').replace('/', ".");
    let error = Error::invalid(problem.message);
    let error = if place.is_empty() { error } else { error.at(format!("`{place}`")) };
    problem.help.into_iter().fold(error, Error::help)
}

/// Without references: the schema becomes a branch of a larger one, where its definitions would not be found.
fn schema<O: JsonSchema>() -> Value {
    let settings = schemars::generate::SchemaSettings::default().with(|s| s.inline_subschemas = true);
    settings.into_generator().into_root_schema_for::<O>().to_value()
}

#[cfg(test)]
#[path = "family_tests.rs"]
mod tests;
