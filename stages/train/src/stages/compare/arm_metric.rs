//! Metrics that are compared between two arms, and where each comes from: the rollouts or the reports.

use super::trajectories::TrajectoryMetric;
use trainyard_core::{Error, Result};

/// Prefix of a name that always refers to the reports.
const REPORT: &str = "report.";

/// A metric that the option `metrics` names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArmMetric {
    name: String,
    given: MetricSource,
}

/// Where a metric comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MetricSource {
    /// From rollouts, with a value per problem.
    Trajectories(TrajectoryMetric),
    /// From the arms' reports, under this name.
    Report(String),
}

impl ArmMetric {
    /// Parses an entry of `metrics`. Errors: invalid, if it is not a metric name.
    pub fn parse(name: &str) -> Result<Self> {
        let letters = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '_' | '.' | '-');
        if name.is_empty() || name == REPORT || !name.chars().all(letters) {
            return Err(Error::invalid(format!("`{name}` is not a valid metric name"))
                .help("use lower-case letters, digits and `_`"));
        }
        let given = match (name.strip_prefix(REPORT), TrajectoryMetric::parse(name)) {
            (Some(report_name), _) => MetricSource::Report(report_name.to_string()),
            (None, Some(metric)) => MetricSource::Trajectories(metric),
            (None, None) => MetricSource::Report(name.to_string()),
        };
        Ok(Self { name: name.to_string(), given })
    }
    /// The origin that the name alone suggests.
    pub fn given(&self) -> &MetricSource {
        &self.given
    }
    /// Returns the origin under the wired inputs: without trajectories, the report provides metrics of their names.
    /// `None` if no wired input has the metric.
    pub fn origin(&self, reports: bool, trajectories: bool) -> Option<MetricSource> {
        match &self.given {
            MetricSource::Trajectories(_) if trajectories => Some(self.given.clone()),
            MetricSource::Trajectories(TrajectoryMetric::Component(_)) => None,
            _ if reports => {
                let report_name = self.name.strip_prefix(REPORT).unwrap_or(&self.name);
                Some(MetricSource::Report(report_name.to_string()))
            }
            _ => None,
        }
    }
}
