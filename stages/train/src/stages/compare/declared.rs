//! Declares the rows that `compare` reports: metrics of samples for two models, metrics of trajectories or reports for
//! two arms.

use super::arm_metric::{ArmMetric, MetricSource};
use super::config::CompareConfig;
use super::{metrics, trajectories};
use trainyard_core::{DeclaredMetrics, MetricInfo, MetricRead, Producer, Producers};

const REPORTS: &str = "reports";
const TRAJECTORIES: &str = "trajectories";

/// Declares the rows under any options. The list is open, because metrics of reports depend on the stages that wrote
/// them.
pub fn any() -> DeclaredMetrics {
    let comparisons = metrics::declared().into_iter().chain(trajectories::declared()).collect();
    DeclaredMetrics { comparisons, open: true, ..DeclaredMetrics::default() }
}

/// Declares the rows under these options.
pub fn of(config: &CompareConfig, producers: &Producers) -> DeclaredMetrics {
    let (models, arms) = (config.models(), config.arm_pairs());
    let row = |metric: MetricInfo, a: &str, pairs: usize| {
        let name = CompareConfig::row_name(&metric.name, a, pairs);
        MetricInfo { name, ..metric }
    };
    let of_models = models.iter().map(|(a, _)| row(of_models(&config.metric), a, models.len()));
    let of_arms = arms
        .iter()
        .flat_map(|pair| config.metrics.iter().map(|name| row(of_arms(name, producers), pair.a, arms.len())));
    DeclaredMetrics { comparisons: of_models.chain(of_arms).collect(), ..DeclaredMetrics::default() }
}

/// Returns the metrics that the stage reads from the arms' reports, and the reward components that it reads from their
/// trajectories if all arms declare components.
pub fn reads(config: &CompareConfig, producers: &Producers) -> Vec<MetricRead> {
    let is_wired = |port: &str| producers.get(port).is_some_and(|list| !list.is_empty());
    let read = |(place, name): (usize, &String)| {
        let (port, name) = match ArmMetric::parse(name).ok()?.origin(is_wired(REPORTS), is_wired(TRAJECTORIES))? {
            MetricSource::Report(metric) => (REPORTS, metric),
            MetricSource::Trajectories(_)
                if name.starts_with(trajectories::COMPONENT) && lists_components(producers) =>
            {
                (TRAJECTORIES, name.clone())
            }
            MetricSource::Trajectories(_) => return None,
        };
        Some(MetricRead { pointer: format!("/metrics/{place}"), port: port.to_string(), name })
    };
    config.metrics.iter().enumerate().filter_map(read).collect()
}

fn lists_components(producers: &Producers) -> bool {
    let declares_components = |p: &Producer| {
        p.declared.as_ref().is_some_and(|d| d.metrics.iter().any(|m| m.name.starts_with(trajectories::COMPONENT)))
    };
    producers.get(TRAJECTORIES).is_some_and(|list| list.iter().all(declares_components))
}

/// Returns unit and meaning of a metric of two models, under the name in the options.
fn of_models(name: &str) -> MetricInfo {
    named(name, metrics::declared().into_iter().find(|m| m.covers(name)))
}

fn of_arms(name: &str, producers: &Producers) -> MetricInfo {
    let wired = |port: &str| producers.get(port).map_or(&[][..], Vec::as_slice);
    let metric = ArmMetric::parse(name).ok();
    let found = match metric.and_then(|m| m.origin(!wired(REPORTS).is_empty(), !wired(TRAJECTORIES).is_empty())) {
        Some(MetricSource::Trajectories(_)) => trajectories::declared().into_iter().find(|m| m.covers(name)),
        Some(MetricSource::Report(report_name)) => wired(REPORTS).iter().find_map(|p| {
            let exact = p.declared.as_ref().and_then(|d| d.metric(&report_name));
            exact.or_else(|| p.kind.metric(&report_name)).cloned()
        }),
        None => None,
    };
    named(name, found)
}

/// Declares a row under the name in the options. The row is optional, because an arm without the mechanism may not
/// report the metric.
fn named(name: &str, found: Option<MetricInfo>) -> MetricInfo {
    let metric = found.unwrap_or_else(|| MetricInfo::new(name, "", "A metric of the arms' reports."));
    MetricInfo { name: name.to_string(), reduce: None, ..metric }.optional()
}
