//! Tests that parts that a program adds are accepted as options, have a page and are used, and that other programs do
//! not have them.

use super::*;
use std::path::Path;
use std::time::Duration;
use trainyard_api::{PreparedOptions as _, Slot, Stage as _, StageReport};
use trainyard_core::{DeclaredMetrics, Facts, MetricInfo, Producers, WiredInputs};
use trainyard_data::import::{ImportContext, ImportFormat, ImportStage, ImportedRows, RowConverter};
use trainyard_data::synthesize::{
    SynthesisConfig, SynthesisContext, SynthesisMethod, SynthesisOutput, SynthesizeStage,
};
use trainyard_envs::environments::{EnvironmentSlot, Environments};
use trainyard_envs::formats::AgentTurn;
use trainyard_envs::{
    AgentTool, Environment, EpisodeStep, PendingToolResult, ToolCall, ToolFormat, ToolHost, ToolLimits, ToolResult,
    ToolSession, ToolSpec, Verifier,
};
use trainyard_tables::{Message, Problem};

fn standard() -> Catalogue {
    Catalogue::builder().build().unwrap()
}

fn names(declared: &DeclaredMetrics) -> Vec<&str> {
    declared.metrics.iter().map(|metric| metric.name.as_str()).collect()
}

/// Tool that returns its argument.
struct Echo;

impl AgentTool for Echo {
    fn name(&self) -> &'static str {
        "echo"
    }
    fn specs(&self) -> Vec<ToolSpec> {
        let parameters = json!({"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]});
        vec![ToolSpec { name: "echo".into(), description: "Says it again.".into(), parameters }]
    }
    fn open(&self, _: &Arc<ToolHost>, _: &ToolLimits) -> Result<Box<dyn ToolSession>> {
        Ok(Box::new(Self))
    }
}

impl ToolSession for Echo {
    fn submit(&mut self, arguments: &Value) -> PendingToolResult {
        PendingToolResult::ready(ToolResult::ok(arguments["text"].as_str().unwrap_or_default()))
    }
    fn fork(&self) -> Result<Box<dyn ToolSession>> {
        Ok(Box::new(Self))
    }
}

/// Calls of the tool `echo` are lines that begin with `>`.
struct Quote;

impl ToolFormat for Quote {
    fn kind(&self) -> &'static str {
        "quote"
    }
    fn parse(&self, text: &str) -> AgentTurn {
        let call = |line: &str| Ok(ToolCall { name: "echo".into(), arguments: json!({ "text": line }) });
        let calls = text.lines().filter_map(|line| line.strip_prefix('>')).map(call).collect();
        AgentTurn { text: text.into(), calls, ..AgentTurn::default() }
    }
    fn render(&self, call: &ToolCall) -> String {
        format!(">{}", call.arguments["text"].as_str().unwrap_or_default())
    }
    fn describe(&self, _: &[ToolSpec]) -> String {
        "Quote what echo shall say.".into()
    }
}

/// Accepts any answer of the same length.
struct AsLong;

impl Verifier for AsLong {
    fn kind(&self) -> &'static str {
        "as_long"
    }
    fn summary(&self) -> &'static str {
        "compares lengths"
    }
    fn matches(&self, expected: &str, answer: &str) -> Result<bool> {
        Ok(expected.len() == answer.len())
    }
}

fn quoting() -> Catalogue {
    let with_tool = Catalogue::builder().tool("says it again", "Echo.", || Box::new(Echo));
    let with_format = with_tool.format("quote", "quoted lines", "Lines with `>`.", |_| Ok(Box::new(Quote)));
    with_format.verifier(&AsLong).build().unwrap()
}

#[test]
fn added_tool_format_and_verifier_are_used() {
    let catalogue = quoting();
    let mut options = json!({"kind": "math-problems", "tools": ["echo"], "format": "quote"});
    let slot: EnvironmentSlot = Slot::read(&catalogue.parts.envs.environments, "/environment", &mut options);
    assert_eq!(slot.problems(), []);
    let environment = slot.build(&ToolHost::new(1)).unwrap();
    let problem = Problem {
        messages: vec![Message::new("user", "three letters?")],
        answer: "abc".into(),
        verifier: r#"{"kind": "as_long"}"#.into(),
        ..Problem::default()
    };
    assert!(environment.verify(&problem, "xyz").unwrap() && !environment.verify(&problem, "xy").unwrap());
    let mut episode = environment.start(&problem, 0).unwrap();
    let step = episode.step(&environment.format().parse(">hello")).unwrap();
    let step = if step == EpisodeStep::Pending { episode.poll(Duration::from_secs(1)).unwrap().unwrap() } else { step };
    assert!(matches!(&step, EpisodeStep::Observe(seen) if seen.messages[0].content == "hello"), "{step:?}");
}

#[test]
fn schemas_include_added_tools_and_formats() {
    let catalogue = quoting();
    for name in ["tools/echo", "formats/quote", "verifiers/as_long"] {
        assert!(matches!(catalogue.find(name), Ok(CatalogueEntry::Part(page)) if page.name == name), "{name}");
        assert!(standard().find(name).is_err(), "{name}");
    }
    let formats = |catalogue: &Catalogue, kind: &str| {
        let page = catalogue.pages("environments").unwrap().into_iter().find(|page| page.kind == kind).unwrap();
        page.options["properties"]["format"]["enum"].clone()
    };
    assert_eq!(
        formats(&catalogue, "word-problems"),
        json!(["code", "hermes", "llama3", "mistral", "quote", "qwen", "toolrl"])
    );
    assert_eq!(
        formats(&catalogue, "function-calling"),
        json!(["hermes", "llama3", "mistral", "quote", "qwen", "toolrl"])
    );
    assert_eq!(formats(&standard(), "word-problems"), json!(["code", "hermes", "llama3", "mistral", "qwen", "toolrl"]));
    let options = json!({"environment": {"kind": "word-problems", "tools": ["echo"]}});
    assert_eq!(catalogue.stage("data/filter").unwrap().validate(&options), []);
    let refused = standard().stage("data/filter").unwrap().validate(&options);
    assert_eq!(refused[0].pointer, "/environment/tools/0");
    assert!(refused[0].help.as_ref().unwrap().contains("calculator, http, mcp, process, python"), "{refused:?}");
}

#[test]
fn duplicate_parts_are_rejected() {
    let echo = || Catalogue::builder().tool("", "", || Box::new(Echo));
    let error = echo().tool("", "", || Box::new(Echo)).build().err().unwrap();
    assert!(error.message.contains("`tools/echo`"), "{error}");
    let error = Catalogue::builder().format("code", "", "", |_| Ok(Box::new(Quote))).build().err().unwrap();
    assert!(error.message.contains("`formats/code`"), "{error}");
    let error = Catalogue::builder().verifier(&AsLong).verifier(&AsLong).build().err().unwrap();
    assert!(error.message.contains("`verifiers/as_long`"), "{error}");
}

struct Lines;

impl ImportFormat for Lines {
    fn name(&self) -> &'static str {
        "lines"
    }
    fn summary(&self) -> &'static str {
        "a conversation per line"
    }
    fn doc(&self) -> &'static str {
        "Every line is a conversation of one message."
    }
    fn outputs(&self) -> &'static [&'static str] {
        &["trajectories"]
    }
    fn open<'r>(&'r self, _: &Path, _: &'r ImportContext) -> Result<RowConverter<'r>> {
        Ok(Box::new(|_| Ok(ImportedRows::default())))
    }
}

#[test]
fn added_import_format_is_an_option() {
    let catalogue = Catalogue::builder().import_format(&Lines).build().unwrap();
    let stage = ImportStage { formats: catalogue.data.import.clone() };
    let options = json!({"source": "chats.txt", "format": "lines"});
    let prepared = stage.prepare(options.clone()).unwrap();
    assert_eq!(prepared.problems(), []);
    assert_eq!(
        names(&stage.declared_metrics(&prepared, &Producers::new())),
        ["rows", "quarantined", "dropped", "trajectories"]
    );
    let schema = &catalogue.kind("data/import").unwrap().options["properties"]["format"]["enum"];
    assert!(schema.as_array().unwrap().contains(&json!("lines")), "{schema}");
    assert!(
        matches!(catalogue.find("import/lines"), Ok(CatalogueEntry::Part(page)) if page.doc.contains("one message"))
    );
    assert_eq!(standard().stage("data/import").unwrap().validate(&options)[0].pointer, "/format");
    let error = Catalogue::builder().import_format(&Lines).import_format(&Lines).build().err().unwrap();
    assert!(error.message.contains("`import/lines`"), "{error}");
}

struct Given;

impl SynthesisMethod for Given {
    fn name(&self) -> &'static str {
        "given"
    }
    fn summary(&self) -> &'static str {
        "demonstrations of given problems"
    }
    fn metrics(&self) -> Vec<MetricInfo> {
        vec![MetricInfo::new("skipped", "rows", "Problems that it left out.")]
    }
    fn keeps_given_problems(&self) -> bool {
        true
    }
    fn environment(&self) -> Value {
        json!("countdown")
    }
    fn check(&self, _: &SynthesisConfig, _: Option<&dyn Environment>, _: &Environments) -> Vec<OptionProblem> {
        Vec::new()
    }
    fn make(&self, _: &SynthesisConfig, problems: Vec<Problem>, _: &SynthesisContext<'_>) -> Result<SynthesisOutput> {
        Ok(SynthesisOutput { problems, demonstrations: Vec::new(), report: StageReport::new("") })
    }
}

#[test]
fn added_synthesis_method_is_an_option() {
    let catalogue = Catalogue::builder().synthesis_method(&Given).build().unwrap();
    let stage = SynthesizeStage { methods: catalogue.data.synthesize.clone(), envs: catalogue.data.envs.clone() };
    let prepared = stage.prepare(json!({"method": "given"})).unwrap();
    assert_eq!(prepared.problems(), []);
    assert_eq!(prepared.config().environment["kind"], "countdown", "its own default");
    let declared = stage.declared_metrics(&prepared, &Producers::new());
    assert_eq!(names(&declared), ["problems", "demonstrations", "tool_calls", "tool_errors", "skipped"]);
    assert!(names(&catalogue.kind("data/synthesize").unwrap().metrics).contains(&"skipped"));
    let mut inputs = WiredInputs::default();
    inputs.wire("problems", vec![Facts::from([("environment".to_string(), json!("word-problems"))])]);
    assert_eq!(
        prepared.facts(&inputs)["problems"]["environment"],
        "word-problems",
        "given problems stay in their environment"
    );
    let refused = standard().stage("data/synthesize").unwrap().validate(&json!({"method": "given"}));
    assert_eq!(refused[0].pointer, "/method");
    let error = Catalogue::builder().synthesis_method(&Given).synthesis_method(&Given).build().err().unwrap();
    assert!(error.message.contains("`synthesize/given`"), "{error}");
}
