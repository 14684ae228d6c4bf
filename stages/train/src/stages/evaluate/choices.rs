//! Compares the chosen one of several samples with a random sample of the same problem.
//!
//! A process reward model can be calibrated and still choose worse than chance, so the report shows the paired
//! difference next to the accuracies.

use crate::results::ResultRow;
use crate::stages::compare::ProblemMetric;
use trainyard_api::StageContext;
use trainyard_api::report::{ReportCell, StageReport, Table};
use trainyard_core::Result;
use trainyard_learn::statistics::{Estimate, paired_difference};

/// A way to choose a sample: the metric's name and its description in a table.
pub struct SelectionMethod {
    /// Name of the metric, e.g. `best_of_8_last`.
    pub name: String,
    /// Description in the table.
    pub head: String,
    /// Whether the process reward model chooses.
    pub by_prm: bool,
}

/// Writes metrics and a table of the paired difference between the chosen sample and the mean of all samples, for every
/// choice and every sampled model.
pub fn write(
    choices: &[SelectionMethod],
    names: &[String],
    rows: &[Vec<ResultRow>],
    context: &mut StageContext,
    report: &mut StageReport,
) -> Result<()> {
    let heads = ["model", "choice", "difference", "against a random sample", "problems"];
    let mut table = Table::new("Choosing a sample, against a random one", heads);
    for (model, rows) in names.iter().zip(rows) {
        let mut worse = Vec::new();
        for choice in choices {
            let Some(gain) = gain(&choice.name, rows)? else { continue };
            let interval = gain.interval();
            let metric = format!("{}_over_avg_{model}", choice.name);
            context.metric(&metric, gain.value);
            if let Some((low, high)) = interval {
                context.metric(format!("{metric}_low"), low);
                context.metric(format!("{metric}_high"), high);
            }
            report.estimate(metric, gain.value, interval, gain.clusters as u64);
            let verdict = verdict(interval);
            if choice.by_prm && verdict == WORSE {
                worse.push(choice.head.as_str());
            }
            table.row([
                ReportCell::text(model),
                ReportCell::text(&choice.head),
                ReportCell::interval(gain.value, interval),
                ReportCell::text(verdict),
                ReportCell::number(gain.n as f64),
            ]);
        }
        if !worse.is_empty() {
            report.note(format!(
                "On the samples of `{model}` the process reward model chooses significantly worse than chance: {}.",
                worse.join(", ")
            ));
        }
    }
    if !table.rows.is_empty() {
        report.table(table);
    }
    Ok(())
}

/// Returns the mean over problems of the chosen sample minus the mean sample, or `None` if no problem has both.
fn gain(choice: &str, rows: &[ResultRow]) -> Result<Option<Estimate>> {
    let rows: Vec<&ResultRow> = rows.iter().collect();
    let mean = ProblemMetric::Avg.by_problem(&rows)?;
    let chosen = ProblemMetric::parse(choice)?.by_problem(&rows)?;
    let pairs: Vec<(&String, f64, f64)> = chosen.iter().filter_map(|(id, c)| Some((id, *c, *mean.get(id)?))).collect();
    let ids: Vec<&String> = pairs.iter().map(|p| p.0).collect();
    let (chosen, mean): (Vec<f64>, Vec<f64>) = pairs.iter().map(|p| (p.1, p.2)).unzip();
    Ok(paired_difference(&chosen, &mean, &ids).map(|found| found.difference))
}

const WORSE: &str = "worse";

fn verdict(interval: Option<(f64, f64)>) -> &'static str {
    match interval {
        Some((low, _)) if low > 0.0 => "better",
        Some((_, high)) if high < 0.0 => WORSE,
        _ => "no difference shown",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns twenty problems with one correct and one incorrect sample each; the scores prefer the incorrect one.
    fn misled() -> Vec<ResultRow> {
        let row = |problem: usize, sample: i32| ResultRow {
            problem_id: format!("p{problem}"),
            sample,
            correct: Some(sample == 0),
            logprob: Some(if sample == 0 { -1.0 } else { -2.0 }),
            prm_min: Some(if sample == 0 { 0.2 } else { 0.7 }),
            ..ResultRow::default()
        };
        (0..20).flat_map(|p| [row(p, 0), row(p, 1)]).collect()
    }

    #[test]
    fn misleading_reward_model_is_reported() {
        let (mut context, _folder) = crate::testing::context();
        let mut report = StageReport::new("Evaluation");
        let choice = |name: &str, by_prm| SelectionMethod { name: name.into(), head: name.replace('_', " "), by_prm };
        let choices = [choice("likeliest_of_2", false), choice("best_of_2_min", true)];
        write(&choices, &["sft".to_string()], &[misled()], &mut context, &mut report).unwrap();
        let m = &context.metrics;
        assert_eq!((m["best_of_2_min_over_avg_sft"], m["likeliest_of_2_over_avg_sft"]), (-0.5, 0.5));
        assert!(m["best_of_2_min_over_avg_sft_high"] < 0.0);
        let verdicts: Vec<&ReportCell> = report.tables[0].rows.iter().map(|row| &row[3]).collect();
        assert_eq!(verdicts, [&ReportCell::text("better"), &ReportCell::text("worse")]);
        assert!(report.notes.iter().any(|n| n.contains("`sft`") && n.contains("best of 2 min")), "{:?}", report.notes);
    }

    #[test]
    fn interval_with_zero_shows_no_difference() {
        assert_eq!(verdict(Some((-0.1, 0.1))), "no difference shown");
        assert_eq!(verdict(None), "no difference shown");
    }
}
