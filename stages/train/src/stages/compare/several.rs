//! Joins the comparisons of several models with one baseline into one report.

use super::config::CompareConfig;
use trainyard_api::StageContext;
use trainyard_api::report::{ReportCell, StageReport, Table};
use trainyard_core::Comparison;

/// Metric of a comparison, and the name of its row.
pub struct ModelRow<'r> {
    /// Metric of the samples.
    pub metric: &'r str,
    /// Name of the row in the manifest.
    pub name: &'r str,
}

/// Comparisons with one baseline, each with its part of the report.
#[derive(Default)]
pub struct Overview {
    parts: Vec<(String, StageReport, Option<Comparison>)>,
}

impl Overview {
    /// Adds a model with its part of the report; its comparison is the last of the context.
    pub fn add(&mut self, model: &str, part: StageReport, context: &StageContext) {
        self.parts.push((model.to_string(), part, context.comparisons.last().cloned()));
    }

    /// Writes the parts. Several have a table with one row each, and the names of their models in the titles.
    pub fn write(self, config: &CompareConfig, report: &mut StageReport) {
        let several = self.parts.len() > 1;
        if several {
            report.table(self.table(config));
            report.summary = format!("`{}` of {} models, each minus one baseline.", config.metric, self.parts.len());
        }
        for (model, part, _) in self.parts {
            if !several {
                report.summary = part.summary;
            }
            report.tables.extend(part.tables.into_iter().map(|mut table| {
                if several {
                    table.title = format!("{model}: {}", table.title);
                }
                table
            }));
            for note in part.notes {
                let note = if several { format!("{model}: {note}") } else { note };
                report.note(note);
            }
        }
    }

    fn table(&self, config: &CompareConfig) -> Table {
        let baseline = config.b.as_deref().unwrap_or_default();
        let mut table = Table::new(&config.metric, ["model", config.metric.as_str(), baseline, "difference", "pairs"]);
        let cell = |value: Option<f64>| value.map_or(ReportCell::Empty, ReportCell::number);
        for (model, _, row) in &self.parts {
            let Some(row) = row else { continue };
            table.row([
                ReportCell::text(model),
                cell(row.a),
                cell(row.b),
                row.difference.map_or(ReportCell::Empty, |d| ReportCell::interval(d, row.low.zip(row.high))),
                cell(row.n.map(|n| n as f64)),
            ]);
        }
        table
    }
}
