//! Defines the content of a `report` artifact: `report.json`, one schema for all stages that measure something.
//!
//! A report holds metrics (with intervals), tables of typed cells, and learning curves. Every crate of stages writes
//! reports and the stage `report` joins and renders them, so the type is defined here.
//!
//! Metrics must be finite and every row must have one cell per column; see [`StageReport::validate`]. Times and rates
//! do not belong in a report, because equal runs must write equal bytes.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;
use trainyard_core::canonical::canonical_json;
use trainyard_core::error::io_error;
use trainyard_core::{Comparison, Error, Result};

/// File name in a report artifact's folder.
pub const REPORT_FILE: &str = "report.json";

/// Measurements of a stage.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StageReport {
    /// Version of this schema; always 1.
    pub report_format: u32,
    /// A heading, e.g. `Supervised fine-tuning`.
    pub title: String,
    /// One or two sentences: what was measured on which data. May be empty.
    #[serde(default)]
    pub summary: String,
    /// Metrics, by their names in manifests.
    #[serde(default)]
    pub metrics: BTreeMap<String, ReportMetric>,
    /// Comparisons of two models or arms.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub comparisons: Vec<Comparison>,
    /// Tables, in display order.
    #[serde(default)]
    pub tables: Vec<Table>,
    /// Learning curves, in display order.
    #[serde(default)]
    pub curves: Vec<Curve>,
    /// Notes required to read the numbers: conventions, exclusions, sources.
    #[serde(default)]
    pub notes: Vec<String>,
}

/// A number, with its 95% interval if known.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReportMetric {
    /// The measured value, in `unit`.
    pub value: f64,
    /// Lower end of the 95% interval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub low: Option<f64>,
    /// Upper end of the 95% interval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub high: Option<f64>,
    /// Number of independent units (problems) in the measurement.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub n: Option<u64>,
    /// Unit as declared by the stage; empty if unknown.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub unit: String,
    /// True if a table already shows the metric, so that lists of the main metrics can leave it out.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub detail: bool,
}

/// Rows under named columns.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Table {
    /// Heading of the table.
    pub title: String,
    /// Names of the columns.
    pub columns: Vec<String>,
    /// Rows; each has one cell per column.
    pub rows: Vec<Vec<ReportCell>>,
}

/// One cell; in JSON: null, a string, a number, or an object with `value`, `low` and `high`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(untagged)]
pub enum ReportCell {
    /// Unknown or not applicable.
    #[default]
    Empty,
    /// Plain text; renderers escape it.
    Text(String),
    /// Number, shown with up to four significant digits.
    Number(f64),
    /// A share or mean with its 95% interval.
    Interval {
        /// Point estimate.
        value: f64,
        /// Lower end of the interval.
        low: f64,
        /// Upper end of the interval.
        high: f64,
    },
}

/// Lines over one x axis.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Curve {
    /// Heading of the chart.
    pub title: String,
    /// Label of the x axis, e.g. `step`.
    pub x: String,
    /// Label of the y axis, e.g. `loss (nats per token)`. May be empty.
    #[serde(default)]
    pub y: String,
    /// Lines of the chart.
    pub series: Vec<Series>,
}

/// One line of a chart.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Series {
    /// Label in the legend.
    pub name: String,
    /// Points `[x, y]`, sorted by x.
    pub points: Vec<[f64; 2]>,
}

impl StageReport {
    /// Creates an empty report with a title.
    pub fn new(title: impl Into<String>) -> Self {
        Self {
            report_format: 1,
            title: title.into(),
            summary: String::new(),
            metrics: BTreeMap::new(),
            comparisons: Vec::new(),
            tables: Vec::new(),
            curves: Vec::new(),
            notes: Vec::new(),
        }
    }

    /// Adds a metric without an interval.
    pub fn metric(&mut self, name: impl Into<String>, value: f64) -> &mut Self {
        self.metrics.insert(name.into(), ReportMetric { value, ..ReportMetric::default() });
        self
    }

    /// Adds a metric with its 95% interval over `n` independent units; without an interval if it could not be
    /// estimated.
    pub fn estimate(&mut self, name: impl Into<String>, value: f64, interval: Option<(f64, f64)>, n: u64) -> &mut Self {
        let (low, high) = interval.unzip();
        self.metrics.insert(name.into(), ReportMetric { value, low, high, n: Some(n), ..ReportMetric::default() });
        self
    }

    /// Appends a table.
    pub fn table(&mut self, table: Table) -> &mut Self {
        self.tables.push(table);
        self
    }

    /// Adds a learning curve; series without any finite point are left out, and so is a curve without series.
    pub fn curve(&mut self, mut curve: Curve) -> &mut Self {
        for series in &mut curve.series {
            series.points.retain(|[x, y]| x.is_finite() && y.is_finite());
        }
        curve.series.retain(|s| !s.points.is_empty());
        if !curve.series.is_empty() {
            self.curves.push(curve);
        }
        self
    }

    /// Appends a note.
    pub fn note(&mut self, text: impl Into<String>) -> &mut Self {
        self.notes.push(text.into());
        self
    }

    /// Checks the report. Errors: data, for a number that is not finite; bug, for a row that does not fit its table.
    /// The message names them.
    pub fn validate(&self) -> Result<()> {
        for (name, m) in &self.metrics {
            let numbers = [Some(m.value), m.low, m.high];
            if numbers.iter().flatten().any(|x| !x.is_finite()) {
                return Err(Error::data(format!(
                    "report `{}`: metric `{name}` is not finite ({})",
                    self.title, m.value
                )));
            }
        }
        if let Some((row, (of, value))) = self.comparisons.iter().find_map(|c| Some((c, c.first_non_finite()?))) {
            return Err(Error::data(format!(
                "report `{}`: `{}` of `{}` is not finite ({value})",
                self.title,
                of.name(),
                row.metric
            )));
        }
        for table in &self.tables {
            if let Some(row) = table.rows.iter().find(|r| r.len() != table.columns.len()) {
                return Err(Error::bug(format!(
                    "report `{}`: table `{}` has {} columns, but a row of {} cells",
                    self.title,
                    table.title,
                    table.columns.len(),
                    row.len()
                )));
            }
        }
        Ok(())
    }

    /// Writes `report.json` (RFC 8785: equal reports are equal bytes) into an output folder.
    pub fn write(&self, folder: &Path) -> Result<()> {
        self.validate()?;
        let mut bytes = canonical_json(self)?;
        bytes.push(b'\n');
        let path = folder.join(REPORT_FILE);
        std::fs::write(&path, bytes).map_err(|e| io_error(&path, &e))
    }

    /// Reads the `report.json` of an artifact's folder. Errors: a missing or damaged file, by name.
    pub fn read(folder: &Path) -> Result<Self> {
        let path = folder.join(REPORT_FILE);
        let bytes = std::fs::read(&path).map_err(|e| io_error(&path, &e))?;
        let report: Self = serde_json::from_slice(&bytes)
            .map_err(|e| Error::data(format!("{}: {e}", path.display())).help("rerun the stage that wrote it"))?;
        report.validate()?;
        Ok(report)
    }
}

impl Table {
    /// Creates a table without rows.
    pub fn new(title: impl Into<String>, columns: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self { title: title.into(), columns: columns.into_iter().map(Into::into).collect(), rows: Vec::new() }
    }
    /// Appends a row; [`StageReport::validate`] rejects rows whose length differs from the number of columns.
    pub fn row(&mut self, cells: impl IntoIterator<Item = ReportCell>) -> &mut Self {
        self.rows.push(cells.into_iter().collect());
        self
    }
}

impl Curve {
    /// Creates a chart without series.
    pub fn new(title: impl Into<String>, x: impl Into<String>, y: impl Into<String>) -> Self {
        Self { title: title.into(), x: x.into(), y: y.into(), series: Vec::new() }
    }
    /// Adds a series of `(x, y)` points.
    #[must_use]
    pub fn with(mut self, name: impl Into<String>, points: impl IntoIterator<Item = (f64, f64)>) -> Self {
        self.series.push(Series { name: name.into(), points: points.into_iter().map(|(x, y)| [x, y]).collect() });
        self
    }
}

impl ReportCell {
    /// Creates a cell of plain text.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text(text.into())
    }
    /// Creates a cell with a number; empty if it is not finite.
    pub fn number(value: f64) -> Self {
        if value.is_finite() { Self::Number(value) } else { Self::Empty }
    }
    /// Creates a cell with an interval, or with the number alone if the interval is absent or not finite.
    pub fn interval(value: f64, interval: Option<(f64, f64)>) -> Self {
        match interval {
            Some((low, high)) if value.is_finite() && low.is_finite() && high.is_finite() => {
                Self::Interval { value, low, high }
            }
            _ => Self::number(value),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> StageReport {
        let mut report = StageReport::new("Evaluation");
        report.metric("problems", 300.0).estimate("accuracy", 0.5, Some((0.44, 0.56)), 300);
        let mut table = Table::new("Accuracy", ["model", "accuracy", "note"]);
        table.row([ReportCell::text("rl"), ReportCell::interval(0.5, Some((0.44, 0.56))), ReportCell::Empty]);
        table.row([ReportCell::text("sft"), ReportCell::number(f64::NAN), ReportCell::number(2.0)]);
        report.table(table);
        report.curve(
            Curve::new("Loss", "step", "nats")
                .with("train", [(0.0, 2.0), (1.0, f64::NAN), (2.0, 1.0)])
                .with("none", [(0.0, f64::NAN)]),
        );
        report
    }

    #[test]
    fn report_round_trips() {
        let folder = std::env::temp_dir().join(format!("trainyard-report-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        sample().write(&folder).unwrap();
        assert_eq!(StageReport::read(&folder).unwrap(), sample());
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn non_finite_points_are_left_out() {
        assert_eq!(sample().curves[0].series, [Series { name: "train".into(), points: vec![[0.0, 2.0], [2.0, 1.0]] }]);
    }

    #[test]
    fn nan_metrics_and_ragged_rows_are_rejected() {
        let mut nan = StageReport::new("r");
        nan.metric("loss", f64::NAN);
        assert!(nan.validate().unwrap_err().message.contains("`loss`"));
        let mut ragged = StageReport::new("r");
        let mut table = Table::new("t", ["a", "b"]);
        table.row([ReportCell::Empty]);
        ragged.table(table);
        assert!(ragged.validate().unwrap_err().message.contains("row of 1 cells"));
    }
}
