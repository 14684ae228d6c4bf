//! Defines the options of a dialogue and of the environments that extend it.
//!
//! All dialogue environments take the same options with different defaults. Files write the keys of the dialogue and of
//! the environment in one table. An environment can hide keys that have no effect in it.

use crate::Toolbox;
use crate::environments::{EnvironmentOptions, Latency};
use crate::formats::registry as formats;
use crate::programs::verifier::VerifierOptions;
use crate::tools::{ToolConfig, ToolLimits, ToolSpec};
use crate::verifiers::Extraction;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::{DeserializeOwned, Error as _};
use serde::ser::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value, json};
use std::borrow::Cow;
use trainyard_api::PartOptions;
use trainyard_core::OptionProblem;

/// Options of a dialogue.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct DialogueOptions {
    /// Tools that the agent may call: `python`, `calculator`, or with options: `{kind: python, interpreter: cpython}`.
    /// Without any, the agent's first turn is its answer.
    pub tools: Vec<ToolConfig>,
    /// How calls are written: `code` (raw text for a single tool), `hermes`, `llama3`, `mistral` or `toolrl` (JSON),
    /// `qwen` (tags). Where a model's template describes the tools itself, its own format counts instead.
    #[schemars(schema_with = "formats::schema")]
    pub format: String,
    /// Agent turns per episode, the answer included. Calls in the last turn are not run.
    #[schemars(range(min = 1, max = 1000))]
    pub max_turns: u32,
    /// Tool calls per episode.
    #[schemars(range(min = 0, max = 10_000))]
    pub max_tool_calls: u32,
    /// Text of a system message; empty = none.
    pub system: String,
    /// Add the tool descriptions to the system message. A small model trained on one tool does not need them.
    pub describe_tools: bool,
    /// Limits of one tool call.
    pub limits: ToolLimits,
    /// Delays the results of each turn with calls by a drawn time, to test how rollouts hide slow tools; null = off.
    /// Does not change the agent's input.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency: Option<Latency>,
    /// Program or service that judges answers in place of the verifier that problems name: `{kind: process, command:
    /// [python3, my_verifier.py]}`, `{kind: http, url: URL}`; null = the problem's verifier.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verifier: Option<VerifierOptions>,
    /// How the answer is found in a text that is not itself the answer, such as `It is 0 degrees in Bergen.`: `auto` =
    /// the marked answer or the only number, `last_number` = also the last of several numbers, `none` = the text as a
    /// whole. Programs and services that judge answers always get the text as a whole. Default: `auto`.
    #[serde(skip_serializing_if = "Extraction::is_default")]
    pub extract: Extraction,
}

impl Default for DialogueOptions {
    fn default() -> Self {
        Self {
            tools: vec!["python".into()],
            format: "code".to_string(),
            max_turns: 4,
            max_tool_calls: 8,
            system: String::new(),
            describe_tools: false,
            limits: ToolLimits::default(),
            latency: None,
            verifier: None,
            extract: Extraction::default(),
        }
    }
}

impl DialogueOptions {
    /// Returns a problem for every value that is out of range, contradictory or not in the toolbox. `environment_tools`
    /// are the tools of the environment itself.
    pub fn check(&self, environment_tools: &[ToolSpec], toolbox: &Toolbox) -> Vec<OptionProblem> {
        let mut problems = Vec::new();
        for (index, choice) in self.tools.iter().enumerate() {
            let (pointer, kind) = (format!("/tools/{index}"), choice.kind());
            let tool_problems = toolbox.tools.check(choice.options());
            // Two programs may offer different tools.
            let has_known_tools = toolbox.chosen_tool(choice).is_ok_and(|tool| !tool.specs().is_empty());
            let is_duplicate = |earlier: &ToolConfig| earlier == choice || has_known_tools && earlier.kind() == kind;
            if tool_problems.is_empty() && self.tools[..index].iter().any(is_duplicate) {
                problems.push(OptionProblem::new(&pointer, format!("tool `{kind}` is listed twice")));
            }
            problems.extend(tool_problems.into_iter().map(|problem| problem.with_prefix(&pointer)));
        }
        let specs = self.specs(environment_tools, toolbox);
        if problems.is_empty()
            && !specs.is_empty()
            && let Err(e) = toolbox.format(&self.format, &specs)
        {
            problems.push(OptionProblem { pointer: "/format".to_string(), message: e.message, help: e.help });
        }
        problems.extend(OptionProblem::out_of_range("/max_turns", self.max_turns, 1..=1000));
        problems.extend(OptionProblem::out_of_range("/max_tool_calls", self.max_tool_calls, ..=10_000));
        problems.extend(self.limits.check("/limits"));
        problems.extend(self.latency.iter().flat_map(|latency| latency.check("/latency")));
        let verifier = self.verifier.iter().flat_map(VerifierOptions::problems);
        problems.extend(verifier.map(|problem| problem.with_prefix("/verifier")));
        problems
    }
    /// Returns the descriptions of the tools that the options name, as far as they are known before anything runs, then
    /// of the tools of the environment itself.
    pub(crate) fn specs(&self, environment_tools: &[ToolSpec], toolbox: &Toolbox) -> Vec<ToolSpec> {
        let named =
            self.tools.iter().filter_map(|choice| toolbox.chosen_tool(choice).ok()).flat_map(|tool| tool.specs());
        named.chain(environment_tools.iter().cloned()).collect()
    }
}

/// The fields of [`DialogueOptions`].
const COMMON: [&str; 10] = [
    "describe_tools",
    "extract",
    "format",
    "latency",
    "limits",
    "max_tool_calls",
    "max_turns",
    "system",
    "tools",
    "verifier",
];

/// Options that an environment adds to those of a dialogue: a plain struct with defaults that denies unknown fields.
pub trait ExtraOptions: Clone + Send + Sync + Serialize + DeserializeOwned + JsonSchema + Default + 'static {
    /// See [`PartOptions`].
    const KIND: &'static str;
    /// See [`PartOptions`].
    const SUMMARY: &'static str;
    /// See [`PartOptions`].
    const DOC: &'static str;
    /// Dialogue options without effect in this environment, which cannot be set.
    const HIDDEN: &'static [&'static str] = &[];
    /// Returns the dialogue's defaults in this environment.
    fn dialogue() -> DialogueOptions;
    /// Returns the tools of the environment itself.
    fn tools() -> Vec<ToolSpec> {
        Vec::new()
    }
    /// Checks ranges and contradictions that types cannot express.
    fn check(&self) -> Vec<OptionProblem> {
        Vec::new()
    }
}

/// Options of an environment together with those of its dialogue. Serialization merges both into one table.
#[derive(Debug, Clone, PartialEq)]
pub struct WithDialogue<O> {
    pub extra: O,
    pub dialogue: DialogueOptions,
}

impl<O: ExtraOptions> Default for WithDialogue<O> {
    fn default() -> Self {
        Self { extra: O::default(), dialogue: O::dialogue() }
    }
}

impl<O: ExtraOptions> PartOptions for WithDialogue<O> {
    const KIND: &'static str = O::KIND;
    const SUMMARY: &'static str = O::SUMMARY;
    const DOC: &'static str = O::DOC;
    fn check(&self) -> Vec<OptionProblem> {
        self.check_with(&Toolbox::standard())
    }
}

impl<O: ExtraOptions> EnvironmentOptions for WithDialogue<O> {
    fn check_with(&self, toolbox: &Toolbox) -> Vec<OptionProblem> {
        let mut problems = self.extra.check();
        problems.extend(self.dialogue.check(&O::tools(), toolbox));
        problems
    }
    fn fill_schema(schema: &mut Value, toolbox: &Toolbox) {
        if takes::<O>("format") {
            schema["properties"]["format"]["enum"] = json!(toolbox.formats.names());
        }
        if takes::<O>("tools") {
            schema["properties"]["tools"]["items"] = toolbox.tools.schema();
        }
    }
}

/// Returns whether a dialogue option can be set in this environment.
fn takes<O: ExtraOptions>(name: &str) -> bool {
    !O::HIDDEN.contains(&name)
}

/// Returns the fields of a struct as JSON.
fn fields(options: &impl Serialize) -> serde_json::Result<Map<String, Value>> {
    Ok(serde_json::to_value(options)?.as_object().cloned().unwrap_or_default())
}

impl<O: ExtraOptions> Serialize for WithDialogue<O> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut all = fields(&self.extra).map_err(S::Error::custom)?;
        let common = fields(&self.dialogue).map_err(S::Error::custom)?;
        all.extend(common.into_iter().filter(|(name, _)| takes::<O>(name)));
        all.serialize(serializer)
    }
}

impl<'de, O: ExtraOptions> Deserialize<'de> for WithDialogue<O> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut extra = Map::deserialize(deserializer)?;
        let mut common = fields(&O::dialogue()).map_err(D::Error::custom)?;
        for name in COMMON.into_iter().filter(|name| takes::<O>(name)) {
            common.extend(extra.remove(name).map(|value| (name.to_string(), value)));
        }
        Ok(Self {
            extra: serde_json::from_value(Value::Object(extra)).map_err(D::Error::custom)?,
            dialogue: serde_json::from_value(Value::Object(common)).map_err(D::Error::custom)?,
        })
    }
}

impl<O: ExtraOptions> JsonSchema for WithDialogue<O> {
    fn schema_name() -> Cow<'static, str> {
        format!("{}WithDialogue", O::schema_name()).into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let mut schema = O::json_schema(generator).to_value();
        let common = DialogueOptions::json_schema(generator).to_value();
        let mut properties = schema["properties"].as_object().cloned().unwrap_or_default();
        let shared = common["properties"].as_object().cloned().unwrap_or_default();
        properties.extend(shared.into_iter().filter(|(name, _)| takes::<O>(name)));
        for (name, default) in fields(&Self::default()).unwrap_or_default() {
            properties[&name]["default"] = default;
        }
        schema["properties"] = Value::Object(properties);
        Schema::try_from(schema).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields, default)]
    struct Rows {
        rows: u32,
    }
    impl ExtraOptions for Rows {
        const KIND: &'static str = "own";
        const SUMMARY: &'static str = "a dialogue with rows";
        const DOC: &'static str = "At most 5 rows.";
        fn dialogue() -> DialogueOptions {
            DialogueOptions { max_turns: 9, ..DialogueOptions::default() }
        }
        fn check(&self) -> Vec<OptionProblem> {
            if self.rows > 5 { vec![OptionProblem::new("/rows", "too many")] } else { Vec::new() }
        }
    }

    #[test]
    fn common_lists_every_field() {
        let schema = schemars::schema_for!(DialogueOptions).to_value();
        assert_eq!(schema["properties"].as_object().unwrap().keys().collect::<Vec<_>>(), COMMON);
    }

    #[test]
    fn every_format_is_accepted() {
        let schema = schemars::schema_for!(DialogueOptions).to_value();
        let format = &schema["properties"]["format"];
        assert_eq!(
            (&format["type"], &format["enum"], &format["default"]),
            (&json!("string"), &json!(formats::names()), &json!("code"))
        );
        let described = format["description"].as_str().unwrap();
        assert!(formats::names().iter().all(|name| described.contains(&format!("`{name}`"))), "{described}");
    }

    #[test]
    fn flat_keys_reach_their_structs() {
        let options: WithDialogue<Rows> = serde_json::from_value(json!({"rows": 3, "max_tool_calls": 2})).unwrap();
        assert_eq!((options.extra.rows, options.dialogue.max_turns, options.dialogue.max_tool_calls), (3, 9, 2));
        let complete = serde_json::to_value(&options).unwrap();
        assert_eq!((&complete["rows"], &complete["max_turns"]), (&json!(3), &json!(9)));
        assert_eq!(serde_json::from_value::<WithDialogue<Rows>>(complete).unwrap(), options);
        let unknown = serde_json::from_value::<WithDialogue<Rows>>(json!({"max_turn": 1})).unwrap_err();
        assert!(unknown.to_string().contains("max_turn"), "{unknown}");
        assert!(serde_json::from_value::<WithDialogue<Rows>>(json!({"max_turns": "many"})).is_err());
    }

    /// Environment without additional options and without registry tools.
    #[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields, default)]
    struct Bare {}
    impl ExtraOptions for Bare {
        const KIND: &'static str = "bare";
        const SUMMARY: &'static str = "a dialogue without tools of the registry";
        const DOC: &'static str = "Nothing to set.";
        const HIDDEN: &'static [&'static str] = &["limits", "tools"];
        fn dialogue() -> DialogueOptions {
            DialogueOptions { tools: Vec::new(), ..DialogueOptions::default() }
        }
    }

    #[test]
    fn hidden_options_are_neither_accepted_nor_shown() {
        let complete = serde_json::to_value(WithDialogue::<Bare>::default()).unwrap();
        let keys = ["describe_tools", "format", "max_tool_calls", "max_turns", "system"];
        assert_eq!(complete.as_object().unwrap().keys().collect::<Vec<_>>(), keys);
        assert_eq!(serde_json::from_value::<WithDialogue<Bare>>(complete).unwrap(), WithDialogue::<Bare>::default());
        let error = serde_json::from_value::<WithDialogue<Bare>>(json!({"tools": ["python"]})).unwrap_err();
        assert!(error.to_string().contains("tools"), "{error}");
        let schema = schemars::schema_for!(WithDialogue<Bare>).to_value();
        assert_eq!(schema["properties"].as_object().unwrap().len(), COMMON.len() - 2);
    }

    #[test]
    fn schema_and_check_cover_both() {
        let schema = schemars::schema_for!(WithDialogue<Rows>).to_value();
        let properties = schema["properties"].as_object().unwrap();
        assert_eq!(properties.len(), 1 + COMMON.len());
        assert_eq!((&properties["max_turns"]["default"], &properties["rows"]["default"]), (&json!(9), &json!(0)));
        assert_eq!(schema["additionalProperties"], json!(false));
        let mut options = WithDialogue::<Rows>::default();
        options.extra.rows = 6;
        options.dialogue.max_turns = 0;
        let pointers: Vec<String> = options.check().into_iter().map(|p| p.pointer).collect();
        assert_eq!(pointers, ["/rows", "/max_turns"]);
    }
}
