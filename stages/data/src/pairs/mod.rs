//! Implements the stage `data/pairs`, which makes pairs of a better and a worse trajectory of one problem for
//! `preference`.
//!
//! The output has the form of the preference data of `data/import`: two rows of one `group`, of which sample 0 was
//! chosen. A limit per problem balances the problems, each row is used as rarely as possible, and unpaired rows are
//! counted.

mod candidates;
mod choose;
mod config;
mod cut;
mod pair;
#[cfg(test)]
mod tests;

pub use config::{PairCriterion, PairCut, PairsConfig};
pub use pair::REWARD;

use crate::io;
use candidates::{PairCandidates, rows};
use choose::choose;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use trainyard_api::report::StageReport;
use trainyard_api::{Ports, Stage, StageContext, port};
use trainyard_core::{ArtifactKind, Cardinality, Chance, DeclaredMetrics, Error, MetricInfo, Producers, Result};
use trainyard_tables::Trajectory;

pub struct PairsStage;

fn metrics() -> Vec<MetricInfo> {
    let rows = |name: &'static str, doc: &'static str| MetricInfo::new(name, "rows", doc);
    let problems = |name: &'static str, doc: &'static str| MetricInfo::new(name, "problems", doc);
    let tokens = |name: &'static str, doc: &'static str| MetricInfo::new(name, "tokens", doc).optional();
    vec![
        MetricInfo::new("pairs", "pairs", "Pairs that were made."),
        problems("problems", "Problems with a pair."),
        problems("problems_without_pair", "Problems whose rows do not differ enough, or are all alike."),
        rows("rows", "Rows that were read."),
        rows("rows_used", "Rows that are in a pair."),
        rows("rows_repeated", "Rows left out because another one of the problem has the same text."),
        rows("rows_left_out", "Rows left out because they have no value, `where` rejects them, or they do not count."),
        MetricInfo::new("flipped", "pairs", "Pairs whose labels were exchanged.").optional(),
        tokens("tokens_chosen", "Mean number of tokens in the loss of a chosen row."),
        tokens("tokens_rejected", "Mean number of tokens in the loss of a rejected row."),
    ]
}

impl Stage for PairsStage {
    type Prepared = PairsConfig;
    const NAME: &'static str = "data/pairs";
    const SUMMARY: &'static str = "Pairs of a better and a worse trajectory of one problem, by outcome or by steps.";
    const DOC: &'static str = include_str!("pairs.md");
    const EXAMPLE: &'static str =
        r#"{"trajectories": ["${{ stages.samples.trajectories }}"], "per_problem": 4, "where": "sample >= 0"}"#;
    const MAIN_METRIC: Option<&'static str> = Some("pairs");

    fn metrics(&self) -> DeclaredMetrics {
        metrics().into()
    }
    fn declared_metrics(&self, config: &PairsConfig, _: &Producers) -> DeclaredMetrics {
        let mut list = metrics();
        list.retain(|m| m.name != "flipped" || config.flip > 0.0);
        list.iter_mut().filter(|m| m.name == "flipped").for_each(|m| m.optional = false);
        list.into()
    }
    fn ports(&self) -> Ports {
        use ArtifactKind::{Report, Trajectories};
        use Cardinality::{Many, One};
        Ports {
            inputs: vec![port("trajectories", Trajectories, Many, "Several trajectories of each problem.")],
            outputs: vec![
                port(
                    "preferences",
                    Trajectories,
                    One,
                    "Pairs: of each group, sample 0 (reward 1) was chosen over sample 1 (reward 0).",
                ),
                port("report", Report, One, "Counts of paired and unpaired rows."),
            ],
        }
    }

    fn prepare(&self, options: Value) -> Result<PairsConfig> {
        self.parse(options)
    }

    fn run(&self, config: PairsConfig, context: &mut StageContext) -> Result<()> {
        let all = io::read_many_trajectories(context.many("trajectories"))?;
        let read = all.len();
        let PairCandidates { problems, repeated, left_out } = rows(all, &config, &context.scratch)?;
        let chance = Chance::new(config.seed).child("pairs", &[]);
        let (mut output_rows, mut paired, mut flipped) = (Vec::new(), 0, 0);
        for ((problem, _), rows) in &problems {
            context.stop_if_cancelled()?;
            let mut draws = chance.child("problem", &[]).child(problem, &[]).at("pairs", &[]);
            let chosen = choose(rows, &config, &mut draws)?;
            paired += usize::from(!chosen.is_empty());
            for pair in chosen {
                let flip = config.flip > 0.0 && draws.uniform() < config.flip;
                flipped += usize::from(flip);
                output_rows.extend(pair.rows(rows, output_rows.len() / 2, flip, config.flip > 0.0));
            }
        }
        if output_rows.is_empty() {
            return Err(nothing(&config, problems.len(), left_out, read));
        }
        let used: BTreeSet<&str> = output_rows.iter().flat_map(|row| row.parents.iter().map(String::as_str)).collect();
        let mut found = BTreeMap::from([
            ("pairs", (output_rows.len() / 2) as f64),
            ("problems", paired as f64),
            ("problems_without_pair", (problems.len() - paired) as f64),
            ("rows", read as f64),
            ("rows_used", used.len() as f64),
            ("rows_repeated", repeated as f64),
            ("rows_left_out", left_out as f64),
        ]);
        if config.flip > 0.0 {
            found.insert("flipped", flipped as f64);
        }
        for (name, sample) in [("tokens_chosen", 0), ("tokens_rejected", 1)] {
            found.extend(mean_tokens(output_rows.iter().filter(|row| row.sample == sample)).map(|mean| (name, mean)));
        }
        io::write_trajectories(&context.output_parquet("preferences")?, &output_rows)?;
        publish(&found, context)
    }
}

/// Returns the mean number of tokens in the loss, or `None` if a row has no tokens yet.
fn mean_tokens<'a>(rows: impl Iterator<Item = &'a Trajectory> + Clone) -> Option<f64> {
    let count = rows.clone().count();
    let tokens: usize = rows.clone().map(|row| row.loss_mask.iter().filter(|m| **m).count()).sum();
    let complete = rows.into_iter().all(|row| !row.token_ids.is_empty());
    (complete && count > 0).then(|| tokens as f64 / count as f64)
}

fn publish(found: &BTreeMap<&'static str, f64>, context: &mut StageContext) -> Result<()> {
    let mut report = StageReport::new("Preference pairs");
    report.summary = format!("{} pairs of {} problems.", found["pairs"], found["problems"]);
    for (name, value) in found {
        context.metric(*name, *value);
        report.metric(*name, *value);
    }
    context.write_report("report", report, &metrics().into())
}

fn nothing(config: &PairsConfig, problems: usize, left_out: usize, read: usize) -> Error {
    let message = format!("no pair can be made: {read} rows of {problems} problems, {left_out} rows left out");
    let help = match (config.by, &config.component) {
        (PairCriterion::Reward, Some(name)) => format!("a pair needs two rows of one problem whose `{name}` differs"),
        (PairCriterion::Reward, None) => "a pair needs two rows of one problem with different rewards".to_string(),
        _ => "a pair needs two rows of one problem with step scores: wire the trajectories of `prm`".to_string(),
    };
    Error::data(message).help(format!("{help} by at least `min_gap`"))
}
