//! Implements the stage `data/filter`, whose rules judge trajectories in order, batch by batch ([`passes`]).
//!
//! The outputs are the kept rows, the rejected rows and a report. Every row keeps its verdicts (rule, keep, reason) up
//! to the rule that rejected it.

mod attempts;
mod bands;
pub mod edits;
pub mod histogram;
mod judged_text;
mod limits;
pub mod minhash;
pub mod passes;
mod ranking;
mod repeats;
pub mod report;
pub mod row_groups;
mod row_ids;
pub mod row_scores;
pub mod rows;
pub mod rule;
pub mod rules;
mod shingle_file;
mod symbol_counts;
mod token_counter;
pub mod verdicts;

pub use edits::RowEdit;
pub use rows::RuleRows;
pub use rule::{FilterRule, MeasuredValues, RuleColumns, RuleContext, RulePass, RuleVerdict, each_row};
pub use token_counter::{OpenTokenCounter, TokenCounter};

use crate::facts;
use crate::io;
use crate::row_files::{RowErrorPolicy, RowFiles, UnreadableRows};
use passes::FilterPasses;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use trainyard_api::family::fill_schema;
use trainyard_api::{Family, InputArtifact, Ports, PreparedOptions, Slot, Stage, StageContext, port};
use trainyard_core::{
    ArtifactKind, Cardinality, DeclaredMetrics, Error, Facts, OptionProblem, Producers, Result, WiredInputs,
};
use trainyard_envs::ToolHost;
use trainyard_envs::environments::{self, EnvironmentSlot, word_problems};
use trainyard_tables::Problem;
use verdicts::Count;

/// Options of `data/filter`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FilterConfig {
    /// The rules, in order: `{kind: …}` with the rule's own options, or the bare name of a rule. A row is judged
    /// until a rule rejects it.
    #[serde(default = "default_rules")]
    #[schemars(extend("x-family" = "rules"))]
    pub rules: Vec<Value>,
    /// Environment of the rows: the rules `format` and `void_turn` parse its tool calls, `answer` runs its verifier.
    #[serde(default = "word_problems::default_options")]
    #[schemars(extend("x-family" = "environments"))]
    pub environment: Value,
    /// Effect of a row that cannot be read, such as one with a null in a required column: `fail` ends the stage, with
    /// `skip` the row is in no output, and the report names it.
    #[serde(default)]
    pub on_error: RowErrorPolicy,
}

fn default_rules() -> Vec<Value> {
    ["format", "void_turn", "answer", "exact_duplicates", "near_duplicates", "decontaminate"]
        .iter()
        .map(|kind| json!({"kind": kind}))
        .collect()
}

pub struct FilterStage {
    /// Supported rules.
    pub rules: Arc<Family<dyn FilterRule>>,
    /// Supported environments of rows.
    pub envs: Arc<trainyard_envs::EnvironmentParts>,
    /// Reader of a model's tokenizer; `None` in programs without models.
    pub open_tokens: Option<OpenTokenCounter>,
}

impl Stage for FilterStage {
    type Prepared = PreparedFilter;
    const NAME: &'static str = "data/filter";
    const VERSION: u32 = 7;
    const SUMMARY: &'static str = "Judge trajectories by rules; keep the verdict and reason of every row.";
    const DOC: &'static str = include_str!("filter.md");
    const EXAMPLE: &'static str = concat!(
        r#"{"trajectories": "${{ stages.demos.demonstrations }}", "problems": "${{ stages.demos.problems }}", "#,
        r#""rules": [{"kind": "format"}, {"kind": "exact_duplicates"}]}"#,
    );
    const MAIN_METRIC: Option<&'static str> = Some("kept");

    const FAMILIES: &'static [&'static str] = &["environments", "formats", "rules", "tools", "verifiers"];

    fn metrics(&self) -> DeclaredMetrics {
        report::metrics(self.rules.names(), true).into()
    }
    fn declared_metrics(&self, prepared: &PreparedFilter, _: &Producers) -> DeclaredMetrics {
        let edits = prepared.rules.iter().any(|rule| rule.build(&()).is_ok_and(|rule| rule.edits()));
        report::metrics(prepared.rules.iter().map(Slot::kind), edits).into()
    }
    fn ports(&self) -> Ports {
        use Cardinality::{Many, One, Optional};
        Ports {
            inputs: vec![
                port("trajectories", ArtifactKind::Trajectories, Many, "The rows to judge."),
                port(
                    "problems",
                    ArtifactKind::Problems,
                    Many,
                    "The problems that they solve: expected answers for the rule `answer`, canonical forms for\n\
                     `decontaminate`.",
                ),
                port(
                    "evaluation",
                    ArtifactKind::Problems,
                    Many,
                    "Evaluation problems that no kept row may overlap (rule `decontaminate`).",
                ),
                port(
                    "rated",
                    ArtifactKind::Trajectories,
                    Many,
                    "Attempts of another model, from which the rule `pass_rate` takes pass rates with\n\
                     `attempts: rated`.",
                ),
                port("model", ArtifactKind::Model, Optional, "The model whose tokens the rule `tokens` counts."),
                port("requests", ArtifactKind::Table, Many, "Stored responses that the rule `judge` reuses."),
            ],
            outputs: vec![
                port("kept", ArtifactKind::Trajectories, One, "Rows that no rule rejected."),
                port(
                    "rejected",
                    ArtifactKind::Trajectories,
                    One,
                    "Rows that a rule rejected; the last verdict says which and why.",
                ),
                port(
                    "report",
                    ArtifactKind::Report,
                    One,
                    "Counts by rule and reason, examples, and the numbers by which rules judged.",
                ),
                port("requests", ArtifactKind::Table, Optional, "Requests of the rule `judge`, with their responses."),
            ],
        }
    }

    fn schema(&self) -> Value {
        let mut schema = schemars::schema_for!(FilterConfig).to_value();
        fill_schema(&mut schema, "rules", &self.rules.schema());
        fill_schema(&mut schema, "environments", &self.envs.environments.schema());
        schema
    }

    fn prepare(&self, mut options: Value) -> Result<PreparedFilter> {
        let environment = environments::read(&self.envs.environments, &mut options, word_problems::default_options);
        if let Some(map) = options.as_object_mut() {
            map.entry("rules").or_insert_with(|| Value::Array(default_rules()));
        }
        let rules = Slot::read_all(&self.rules, "/rules", options.get_mut("rules"));
        Ok(PreparedFilter { config: self.parse(options)?, rules, environment })
    }

    fn run(&self, prepared: PreparedFilter, context: &mut StageContext) -> Result<()> {
        let files_of = |port: &str| context.many(port).iter().map(InputArtifact::parquet).collect::<Vec<PathBuf>>();
        let (files, rated) = (files_of("trajectories"), files_of("rated"));
        let problems: BTreeMap<String, Problem> =
            io::read_many_problems(context.many("problems"))?.into_iter().map(|p| (p.id.clone(), p)).collect();
        let evaluation = io::read_many_problems(context.many("evaluation"))?;
        let host = ToolHost::of_stage(context)?;
        let environment = prepared.environment.build(&host)?;
        let models = host.models();
        let (scratch, log) = (context.scratch.clone(), host.log());
        let model = context.optional("model").map(|model| model.folder.clone());
        let tokens = model.zip(self.open_tokens).map(|(folder, open)| open(&folder)).transpose()?;
        let world = RuleContext {
            problems: &problems,
            evaluation: &evaluation,
            rated: &rated,
            environment: environment.as_ref(),
            scratch: &scratch,
            log: &log,
            models,
            host: &host,
            tokens: tokens.as_deref(),
        };
        let rules = prepared.rules.iter().map(|rule| rule.build(&())).collect::<Result<Vec<_>>>()?;
        let files = RowFiles::open(&files, prepared.config.on_error)?;
        let unreadable = files.unreadable().clone();
        if let Some(first) = unreadable.first.first() {
            let n = unreadable.count;
            context.warn(format!("{n} unreadable rows are left out, the first of them: {first}"));
        }
        let mut passes = FilterPasses::start(&rules, files, &world)?;
        let total = passes.verdicts().rows();
        let outputs = [context.output_parquet("kept")?, context.output_parquet("rejected")?];
        passes.run([&outputs[0], &outputs[1]], |rows| {
            context.stop_if_cancelled()?;
            context.progress(rows as u64, total as u64, "rows", None);
            Ok(())
        })?;
        let (kept, counts) = (passes.verdicts().kept(), passes.verdicts().counts().to_vec());
        drop(passes);
        host.report(context);
        models.values().into_iter().for_each(|(name, value)| context.metric(name, value));
        models.finish(context)?;
        report_counts(total, kept, &counts, &unreadable, context)
    }
}

/// Options of `data/filter` with the parts that they name.
pub struct PreparedFilter {
    config: FilterConfig,
    rules: Vec<Slot<dyn FilterRule>>,
    environment: EnvironmentSlot,
}

impl PreparedOptions for PreparedFilter {
    type Config = FilterConfig;
    fn config(&self) -> &FilterConfig {
        &self.config
    }
    fn problems(&self) -> Vec<OptionProblem> {
        self.rules.iter().flat_map(Slot::problems).chain(self.environment.problems()).collect()
    }
    fn problems_with(&self, inputs: &WiredInputs) -> Vec<OptionProblem> {
        self.of_each_rule(|rule| rule.problems_with(inputs))
    }
    fn warnings_with(&self, inputs: &WiredInputs) -> Vec<OptionProblem> {
        self.of_each_rule(|rule| rule.warnings_with(inputs))
    }
    fn facts(&self, inputs: &WiredInputs) -> BTreeMap<String, Facts> {
        facts::of_rows(inputs, "trajectories", ["kept", "rejected"])
    }
}

impl PreparedFilter {
    /// Returns the problems of all rules that have valid options, by pointers into the options of the stage.
    fn of_each_rule(&self, problems: impl Fn(&dyn FilterRule) -> Vec<OptionProblem>) -> Vec<OptionProblem> {
        let of_rule = |(i, rule): (usize, &Slot<dyn FilterRule>)| {
            let found = rule.build(&()).map(|rule| problems(rule.as_ref())).unwrap_or_default();
            found.into_iter().map(move |it| OptionProblem { pointer: format!("/rules/{i}{}", it.pointer), ..it })
        };
        self.rules.iter().enumerate().flat_map(of_rule).collect()
    }
}

fn report_counts(
    total: usize,
    kept: usize,
    counts: &[Count],
    unreadable: &UnreadableRows,
    context: &mut StageContext,
) -> Result<()> {
    context.metric("rows", total as f64);
    context.metric("kept", kept as f64);
    context.metric("rejected", (total - kept) as f64);
    context.metric("unreadable", unreadable.count as f64);
    for (name, n) in report::rejected_by_rule(counts) {
        context.metric(format!("rejected_{name}"), n as f64);
    }
    let edited = report::edited(counts);
    if let Some(n) = edited {
        context.metric("edited", n as f64);
    }
    let declared = report::metrics(counts.iter().map(|c| c.rule), edited.is_some()).into();
    context.write_report("report", report::report(total, kept, counts, unreadable), &declared)?;
    if kept == 0 {
        return Err(Error::data(format!("all {total} rows were rejected")).help(report::first_reasons(counts)));
    }
    Ok(())
}

#[cfg(test)]
mod bad_input_tests;
#[cfg(test)]
mod edit_tests;
#[cfg(test)]
mod group_tests;
#[cfg(test)]
mod recorded_tests;
#[cfg(test)]
mod tests;
