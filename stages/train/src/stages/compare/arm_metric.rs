//! Defines the metrics that are compared between two arms, and their sources: rollouts or reports.

use super::trajectories::TrajectoryMetric;
use trainyard_core::{Error, Result};

/// Prefix of a metric name that always refers to the reports.
const REPORT: &str = "report.";

/// A metric that the option `metrics` names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArmMetric {
    name: String,
    given: MetricSource,
}

/// Source of a metric.
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
    /// Returns the source that the name alone determines.
    pub fn given(&self) -> &MetricSource {
        &self.given
    }
    /// Returns the source under the wired inputs. Without trajectories, a metric of trajectories is read from the
    /// reports under the same name. `None` if no wired input has the metric.
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
