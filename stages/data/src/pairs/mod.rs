//! Implements the stage `data/pairs`, which makes pairs of a better and a worse trajectory of one problem for
//! `preference`.
//!
//! The output has the form of the preference data of `data/import`: two rows of one `group`, of which sample 0 was
//! chosen. A limit per problem balances the problems, each row is used as rarely as possible, and unpaired rows are
//! counted.
//!
//! The rows are read several times, each time the needed columns: to group them, to compare their steps or their
//! prompts, and to copy the chosen ones. The memory is about 60 bytes a row, 80 bytes a pair, and that of some batches.

mod candidates;
mod choose;
mod chosen;
mod config;
mod cut;
mod output;
mod pair;
#[cfg(test)]
mod tests;

pub use config::{PairCriterion, PairCut, PairsConfig};
pub use pair::REWARD;

use crate::row_files::RowFiles;
use candidates::PairCandidates;
use chosen::ChosenPair;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::PathBuf;
use trainyard_api::report::StageReport;
use trainyard_api::{InputArtifact, Ports, Stage, StageContext, port};
use trainyard_core::{ArtifactKind, Cardinality, DeclaredMetrics, Error, MetricInfo, Producers, Result};
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
        let files: Vec<PathBuf> = context.many("trajectories").iter().map(InputArtifact::parquet).collect();
        let files = RowFiles::<Trajectory>::strict(&files);
        let candidates = candidates::read(&files, &config, &context.scratch)?;
        let mut chosen = chosen::choose(&files, &candidates, &config, || context.stop_if_cancelled())?;
        if chosen.is_empty() {
            return Err(nothing(&config, &candidates));
        }
        chosen::sort(&mut chosen, &candidates, &files)?;
        let pairs: Vec<ChosenPair> = chosen.iter().flat_map(|group| group.pairs.iter().copied()).collect();
        let output = context.output_parquet("preferences")?;
        let marks = config.flip > 0.0;
        let written = output::write(&files, &pairs, marks, &context.scratch, &output, || context.stop_if_cancelled())?;
        let mut found = BTreeMap::from([
            ("pairs", pairs.len() as f64),
            ("problems", chosen.len() as f64),
            ("problems_without_pair", (candidates.count() - chosen.len()) as f64),
            ("rows", candidates.read as f64),
            ("rows_used", written.sources as f64),
            ("rows_repeated", candidates.repeated as f64),
            ("rows_left_out", candidates.left_out as f64),
        ]);
        if marks {
            found.insert("flipped", pairs.iter().filter(|pair| pair.flip).count() as f64);
        }
        for (name, tokens) in [("tokens_chosen", written.chosen), ("tokens_rejected", written.rejected)] {
            found.extend(tokens.mean().map(|mean| (name, mean)));
        }
        publish(&found, context)
    }
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

fn nothing(config: &PairsConfig, candidates: &PairCandidates) -> Error {
    let PairCandidates { read, left_out, .. } = candidates;
    let problems = candidates.count();
    let message = format!("no pair can be made: {read} rows of {problems} problems, {left_out} rows left out");
    let help = match (config.by, &config.component) {
        (PairCriterion::Reward, Some(name)) => format!("a pair needs two rows of one problem whose `{name}` differs"),
        (PairCriterion::Reward, None) => "a pair needs two rows of one problem with different rewards".to_string(),
        _ => "a pair needs two rows of one problem with step scores: wire the trajectories of `prm`".to_string(),
    };
    Error::data(message).help(format!("{help} by at least `min_gap`"))
}
