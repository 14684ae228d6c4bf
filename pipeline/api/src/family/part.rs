//! Defines a part of a family: its options, its documentation, and its constructor.

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::sync::Arc;
use trainyard_core::{Error, MetricInfo, OptionProblem, Result};

/// Options of a part: a plain struct with defaults that denies unknown fields. Its doc comments are the documentation
/// of the options.
pub trait PartOptions: Clone + Serialize + DeserializeOwned + JsonSchema + Send + Sync + 'static {
    /// Kind, as written after `kind:`.
    const KIND: &'static str;
    /// Summary in one line, for lists.
    const SUMMARY: &'static str;
    /// Documentation in Markdown: formula, shapes, units, constants, errors, source.
    const DOC: &'static str;
    /// Returns the metrics of the part, without the prefix of its kind, which the stage adds (`clip.fraction`;
    /// `clip_2.fraction` for a second one).
    fn metrics() -> Vec<MetricInfo> {
        Vec::new()
    }
    /// Returns all problems that types cannot express; pointers are relative to the options.
    fn check(&self) -> Vec<OptionProblem> {
        Vec::new()
    }
}

/// One member of a family. `T` is the type of the part, `A` the input of its constructor in addition to the options.
pub struct PartKind<T: ?Sized, A: ?Sized = ()> {
    /// The name that follows `kind:`.
    pub kind: &'static str,
    /// Summary in one line.
    pub summary: &'static str,
    /// Documentation in Markdown.
    pub doc: &'static str,
    /// Metrics of the part, without the prefix of its kind.
    pub metrics: Vec<MetricInfo>,
    /// JSON Schema of the options, without `kind`.
    schema: Box<dyn Fn() -> Value + Send + Sync>,
    pub(super) read: OptionsReader<T, A>,
}

pub(super) type OptionsReader<T, A> = Box<dyn Fn(Value) -> Result<Box<dyn DynPartOptions<T, A>>> + Send + Sync>;

/// Parsed options of a part whose type is erased.
pub(super) trait DynPartOptions<T: ?Sized, A: ?Sized>: Send + Sync {
    fn complete(&self) -> Result<Value>;
    fn problems(&self) -> Vec<OptionProblem>;
    fn needs(&self) -> Vec<&'static str>;
    fn build(&self, context: &A) -> Result<Box<T>>;
}

type OptionsCheck<O> = Box<dyn Fn(&O) -> Vec<OptionProblem> + Send + Sync>;
type PartBuilder<O, T, A> = Box<dyn Fn(O, &A) -> Result<Box<T>> + Send + Sync>;

/// Functions that interpret the options.
struct PartFunctions<O, T: ?Sized, A: ?Sized> {
    kind: &'static str,
    check: OptionsCheck<O>,
    needs: fn(&O) -> Vec<&'static str>,
    build: PartBuilder<O, T, A>,
}

/// Options with the functions that interpret them.
struct TypedOptions<O, T: ?Sized, A: ?Sized> {
    options: O,
    functions: Arc<PartFunctions<O, T, A>>,
}

impl<O, T: ?Sized, A: ?Sized> DynPartOptions<T, A> for TypedOptions<O, T, A>
where
    O: Clone + Serialize + Send + Sync,
{
    fn complete(&self) -> Result<Value> {
        match serde_json::to_value(&self.options) {
            Ok(Value::Object(mut map)) => {
                map.insert("kind".into(), json!(self.functions.kind));
                Ok(Value::Object(map))
            }
            Ok(_) => Err(Error::bug("its options are not a map")),
            Err(e) => Err(Error::bug(format!("its options have no JSON form: {e}"))),
        }
    }
    fn problems(&self) -> Vec<OptionProblem> {
        (self.functions.check)(&self.options)
    }
    fn needs(&self) -> Vec<&'static str> {
        (self.functions.needs)(&self.options)
    }
    fn build(&self, context: &A) -> Result<Box<T>> {
        (self.functions.build)(self.options.clone(), context)
    }
}

/// Options of a part without options.
#[derive(Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct NoOptions {}

impl<T: ?Sized + 'static, A: ?Sized + 'static> PartKind<T, A> {
    /// Creates a part with options `O`.
    pub fn new<O: PartOptions>(build: fn(O, &A) -> Result<Box<T>>) -> Self {
        Self::with_needs(build, |_: &O| Vec::new())
    }
    /// Creates a part with requirements that its stage or environment may not meet.
    pub fn with_needs<O: PartOptions>(build: fn(O, &A) -> Result<Box<T>>, needs: fn(&O) -> Vec<&'static str>) -> Self {
        let functions = PartFunctions { kind: O::KIND, check: Box::new(O::check), needs, build: Box::new(build) };
        Self::from_functions(functions, O::SUMMARY, O::DOC, O::metrics(), schema::<O>)
    }
    /// Creates a part whose options name extensible things, such as tools: `check` replaces [`PartOptions::check`], and
    /// `fill` adds the names to the schema.
    pub fn with_check<O: PartOptions>(
        build: impl Fn(O, &A) -> Result<Box<T>> + Send + Sync + 'static,
        check: impl Fn(&O) -> Vec<OptionProblem> + Send + Sync + 'static,
        fill: impl Fn(&mut Value) + Send + Sync + 'static,
    ) -> Self {
        let schema = move || {
            let mut schema = schema::<O>();
            fill(&mut schema);
            schema
        };
        let needs = |_: &O| Vec::new();
        let functions = PartFunctions { kind: O::KIND, check: Box::new(check), needs, build: Box::new(build) };
        Self::from_functions(functions, O::SUMMARY, O::DOC, O::metrics(), schema)
    }
    /// Creates a part without options.
    pub fn plain(
        kind: &'static str,
        summary: &'static str,
        doc: &'static str,
        build: impl Fn(&A) -> Result<Box<T>> + Send + Sync + 'static,
    ) -> Self {
        let functions = PartFunctions {
            kind,
            check: Box::new(|_: &NoOptions| Vec::new()),
            needs: |_| Vec::new(),
            build: Box::new(move |_, context: &A| build(context)),
        };
        Self::from_functions(functions, summary, doc, Vec::new(), schema::<NoOptions>)
    }
    fn from_functions<O: Clone + Serialize + DeserializeOwned + Send + Sync + 'static>(
        functions: PartFunctions<O, T, A>,
        summary: &'static str,
        doc: &'static str,
        metrics: Vec<MetricInfo>,
        schema: impl Fn() -> Value + Send + Sync + 'static,
    ) -> Self {
        let (kind, functions) = (functions.kind, Arc::new(functions));
        let read = move |options| {
            let typed = TypedOptions { options: parse::<O>(options)?, functions: functions.clone() };
            Ok(Box::new(typed) as Box<dyn DynPartOptions<T, A>>)
        };
        Self { kind, summary, doc, metrics, schema: Box::new(schema), read: Box::new(read) }
    }
    /// Returns the schema of this part's map, `kind` included.
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
    /// Returns the requirements with default options; empty if an option has no default.
    pub fn default_needs(&self) -> Vec<&'static str> {
        (self.read)(Value::Object(Map::new())).map(|options| options.needs()).unwrap_or_default()
    }
}

fn parse<O: DeserializeOwned>(options: Value) -> Result<O> {
    serde_json::from_value(options).map_err(Error::invalid)
}

/// Returns the schema without references: as a branch of a larger schema it would lose its definitions.
fn schema<O: JsonSchema>() -> Value {
    let settings = schemars::generate::SchemaSettings::default().with(|s| s.inline_subschemas = true);
    settings.into_generator().into_root_schema_for::<O>().to_value()
}
