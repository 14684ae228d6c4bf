//! Defines a catalogue of stage kinds for tests: real structs with derived schemas, no stage code.

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use trainyard_core::{
    ArtifactKind, Cardinality, DeclaredMetrics, Error, KindInfo, MetricInfo, MetricRead, OptionProblem, Placement,
    PortInfo, Producers, Result, StageKinds, ValidatedOptions, WiredInputs,
};

fn declared(names: &[&'static str]) -> DeclaredMetrics {
    names.iter().map(|name| MetricInfo::new(*name, "share", "A metric of the tests.")).collect::<Vec<_>>().into()
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields, default)]
pub struct Import {
    /// A file or folder.
    #[schemars(extend("format" = "source"))]
    pub source: String,
    pub format: Format,
    pub limit: Option<u32>,
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize, JsonSchema, PartialEq)]
#[serde(rename_all = "snake_case")]
pub enum Format {
    Jsonl,
    Gsm8k,
    Parquet,
}

impl Default for Import {
    fn default() -> Self {
        Self { source: String::new(), format: Format::Jsonl, limit: None }
    }
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields, default)]
pub struct Rl {
    #[schemars(range(min = 1))]
    pub steps: u32,
    pub seed: i64,
    pub learning_rate: f64,
    pub temperature: f32,
    pub algorithm: String,
    pub shuffle: bool,
    pub levels: Vec<u8>,
    pub loss: Loss,
    pub replay: Option<Replay>,
    pub label: Option<String>,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields, default)]
pub struct Loss {
    pub aggregate: Aggregate,
    pub terms: Vec<Term>,
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize, JsonSchema, PartialEq)]
#[serde(rename_all = "snake_case")]
pub enum Aggregate {
    TokenMean,
    SequenceMean,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema, PartialEq)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Term {
    Clip { clip_low: f64, clip_high: f64 },
    Kl { coefficient: f64 },
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Replay {
    pub size: u64,
}

impl Default for Loss {
    fn default() -> Self {
        Self { aggregate: Aggregate::TokenMean, terms: Vec::new() }
    }
}

impl Default for Rl {
    fn default() -> Self {
        Self {
            steps: 100,
            seed: 0,
            learning_rate: 1e-4,
            temperature: 1.0,
            algorithm: "grpo".into(),
            shuffle: true,
            levels: vec![1],
            loss: Loss::default(),
            replay: None,
            label: None,
        }
    }
}

#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields, default)]
pub struct Plain {
    pub names: Vec<String>,
    pub metric: Option<String>,
    pub seed: i64,
}

type Complete = fn(&Value) -> Result<Value>;
type Check = fn(&Value) -> Vec<OptionProblem>;

pub struct Kinds(BTreeMap<&'static str, (KindInfo, Complete, Check)>);

pub fn read<T: DeserializeOwned>(value: &Value) -> Result<T> {
    serde_json::from_value(value.clone()).map_err(|e| Error::invalid(e.to_string()))
}

fn complete<T: DeserializeOwned + Serialize>(value: &Value) -> Result<Value> {
    Ok(serde_json::to_value(read::<T>(value)?).unwrap())
}

fn check_rl(value: &Value) -> Vec<OptionProblem> {
    let Ok(rl) = read::<Rl>(value) else { return Vec::new() };
    let wrong = |(i, t): (usize, &Term)| match t {
        Term::Clip { clip_low, clip_high } if clip_low > clip_high => {
            Some(OptionProblem::new(format!("/loss/terms/{i}/clip_low"), "the lower clip is above the upper one"))
        }
        _ => None,
    };
    rl.loss.terms.iter().enumerate().filter_map(wrong).collect()
}

fn port(name: &'static str, kind: ArtifactKind, cardinality: Cardinality) -> PortInfo {
    PortInfo { name, kind, cardinality, doc: "" }
}

impl Kinds {
    pub fn new() -> Self {
        use ArtifactKind::{Model, Problems, Report, Table, Trajectories};
        use Cardinality::{Many, One, Optional};
        let mut kinds = Self(BTreeMap::new());
        kinds.add::<Import>(
            "data/import",
            &[],
            &[("problems", Problems, One), ("solutions", Table, Optional)],
            &["rows"],
            |_| Vec::new(),
        );
        kinds.add::<Plain>(
            "data/filter",
            &[("trajectories", Trajectories, One), ("evaluation", Problems, Many)],
            &[("kept", Trajectories, One), ("rejected", Trajectories, One), ("report", Report, One)],
            &["kept"],
            |_| Vec::new(),
        );
        kinds.add::<Plain>(
            "data/split",
            &[("problems", Problems, One)],
            &[("a", Problems, One), ("b", Problems, One)],
            &[],
            |_| Vec::new(),
        );
        kinds.add::<Plain>(
            "data/synthesize",
            &[("problems", Problems, Optional)],
            &[("problems", Problems, One), ("demonstrations", Trajectories, One)],
            &[],
            |_| Vec::new(),
        );
        kinds.add::<Rl>(
            "sft",
            &[("model", Model, Optional), ("trajectories", Trajectories, Many)],
            &[("model", Model, One), ("report", Report, One)],
            &["loss"],
            check_rl,
        );
        kinds.add::<Rl>(
            "rl",
            &[("model", Model, One), ("problems", Problems, One), ("validation", Problems, Optional)],
            &[("model", Model, One), ("trajectories", Trajectories, One), ("report", Report, One)],
            &["reward_mean", "pass_at_<int>"],
            check_rl,
        );
        kinds.add::<Plain>(
            "prm",
            &[("model", Model, One), ("problems", Problems, Optional), ("trajectories", Trajectories, Optional)],
            &[("model", Model, One), ("report", Report, One)],
            &["auc"],
            |_| Vec::new(),
        );
        kinds.add::<Plain>(
            "evaluate",
            &[("models", Model, Many), ("problems", Problems, One), ("prm", Model, Optional)],
            &[("report", Report, One), ("results", Table, One), ("trajectories", Trajectories, One)],
            &["accuracy", "accuracy_<model>"],
            |_| Vec::new(),
        );
        kinds.add::<Plain>("compare", &[("reports", Report, Many)], &[("report", Report, One)], &[], |_| Vec::new());
        kinds.0.get_mut("compare").unwrap().0.metrics.open = true;
        kinds.add::<Plain>("report", &[("reports", Report, Many)], &[("report", Report, One)], &[], |_| Vec::new());
        kinds.add::<Plain>("noop", &[], &[("report", Report, One)], &[], |_| Vec::new());
        kinds.0.get_mut("noop").unwrap().0.placement = Placement::InProcess;
        kinds
    }

    /// Adds an option of `evaluate` that is filled in with its models, and one of `report` with the params.
    pub fn filled(mut self) -> Self {
        let models = serde_json::json!({"x-instances-of": "models", "x-unless": "names"});
        for (kind, option, schema) in
            [("evaluate", "instances", models), ("report", "params", serde_json::json!({"x-params": true}))]
        {
            let (info, complete, _) = self.0.get_mut(kind).unwrap();
            let mut options = Value::clone(&info.options);
            options["properties"][option] = schema;
            info.options = options.into();
            *complete = |options| Ok(options.clone());
        }
        self
    }

    fn add<T: DeserializeOwned + Serialize + JsonSchema>(
        &mut self,
        name: &'static str,
        inputs: &[(&'static str, ArtifactKind, Cardinality)],
        outputs: &[(&'static str, ArtifactKind, Cardinality)],
        metrics: &[&'static str],
        check: Check,
    ) {
        let ports =
            |list: &[(&'static str, ArtifactKind, Cardinality)]| list.iter().map(|(n, k, c)| port(n, *k, *c)).collect();
        let info = KindInfo {
            name,
            version: 1,
            summary: "a kind of the tests",
            doc: "",
            inputs: ports(inputs),
            outputs: ports(outputs),
            options: schemars::schema_for!(T).to_value().into(),
            placement: Placement::Process,
            all_cpus: false,
            trains: false,
            plays: false,
            example: "{}",
            main_metric: (name == "rl").then_some("reward_mean"),
            main_metric_with: if name == "rl" { vec![("validation", "validation_accuracy")] } else { Vec::new() },
            metrics: declared(metrics),
            families: Vec::new(),
        };
        self.0.insert(name, (info, complete::<T>, check));
    }
}

impl StageKinds for Kinds {
    fn names(&self) -> Vec<&str> {
        self.0.keys().copied().collect()
    }
    fn kind(&self, name: &str) -> Option<&KindInfo> {
        self.0.get(name).map(|k| &k.0)
    }
    fn validate_options(
        &self,
        kind: &str,
        config: &Value,
    ) -> Result<Box<dyn ValidatedOptions + '_>, Vec<OptionProblem>> {
        let (info, complete, check) = &self.0[kind];
        let complete = complete(config).map_err(|e| vec![OptionProblem::new("", e.message)])?;
        let problems = check(config);
        if problems.is_empty() { Ok(Box::new(Whole { info, config: complete })) } else { Err(problems) }
    }
}

/// A complete config of one of these kinds.
struct Whole<'k> {
    info: &'k KindInfo,
    config: Value,
}

impl ValidatedOptions for Whole<'_> {
    fn config(&self) -> &Value {
        &self.config
    }
    fn validate_inputs(&self, inputs: &WiredInputs) -> Vec<OptionProblem> {
        let (Ok(plain), "evaluate") = (read::<Plain>(&self.config), self.info.name) else { return Vec::new() };
        let models = inputs.get("models").copied().unwrap_or(0);
        let fits = plain.names.is_empty() || plain.names.len() == models;
        if fits {
            Vec::new()
        } else {
            vec![OptionProblem::new("/names", format!("{} names for {models} models", plain.names.len()))]
        }
    }
    /// `compare` has one row per name.
    fn declared(&self, _: &Producers) -> DeclaredMetrics {
        match read::<Plain>(&self.config) {
            Ok(plain) if self.info.name == "compare" => {
                let row = |name: &String| MetricInfo::new(name.as_str(), "share", "A row of the tests.");
                DeclaredMetrics { comparisons: plain.names.iter().map(row).collect(), ..DeclaredMetrics::default() }
            }
            _ => self.info.metrics.clone(),
        }
    }
    /// Metrics of the reports.
    fn metrics_read(&self, _: &Producers) -> Vec<MetricRead> {
        let (Ok(plain), "compare") = (read::<Plain>(&self.config), self.info.name) else { return Vec::new() };
        let read = |(i, name): (usize, &String)| MetricRead {
            pointer: format!("/names/{i}"),
            port: "reports".into(),
            name: name.clone(),
        };
        plain.names.iter().enumerate().map(read).collect()
    }
}
