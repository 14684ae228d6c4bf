//! Draws the curves of one or more stages: one chart for each metric, one line for each stage.

use super::query::CurveOptions;
use crate::charts::{LineChart, PointLink, Series, legend, smoothed, spread, thinned};
use crate::layout::empty;
use crate::links::query;
use maud::{Markup, html};
use std::collections::BTreeSet;
use std::sync::Arc;
use trainyard_views::curve_tail::Curves;
use trainyard_views::metric_order;

/// Charts without a choice of metrics.
const MAIN: usize = 6;
/// Maximum number of charts.
const MAX_CHARTS: usize = 60;
/// Maximum number of lines of a chart.
const MAX_LINES: usize = 8;
/// Points of a chart that are links.
const LINKS: usize = 40;
/// Choice of all metrics.
const ALL: &str = "all";

/// Curves of a stage.
#[derive(Debug, Clone)]
pub struct StageCurves {
    /// Name of the line.
    pub label: String,
    /// Curves by name.
    pub curves: Arc<Curves>,
    /// Address of the list of trajectories, if the stage has published any.
    pub rollouts: Option<String>,
}

/// Draws the charts. `main`: name of the metric that is shown first.
pub fn draw(stages: &[StageCurves], main: Option<&str>, options: &CurveOptions) -> Markup {
    let lines = &stages[..stages.len().min(MAX_LINES)];
    let names = names(lines, main);
    if names.is_empty() {
        return empty("There are no curves yet.");
    }
    let shown = selected(&names, &options.metrics);
    let left_out = names.len() - shown.len();
    html! {
        @if lines.len() > 1 { (legend(lines.iter().map(|line| line.label.as_str()))) }
        div .panels {
            @for name in &shown { (chart(name, lines, options)) }
        }
        @if shown.is_empty() { (empty("No metric has this text in its name.")) }
        @if left_out > 0 {
            p .muted {
                (left_out) " of " (names.len()) " metrics are not drawn. "
                @if options.metrics.is_empty() { a href=(&options.all) { "Draw up to " (MAX_CHARTS) } }
            }
        }
        @if stages.len() > lines.len() {
            p .muted { (stages.len() - lines.len()) " more stages have no line." }
        }
    }
}

/// Returns the names of all metrics: the main one, then the others in the order of [`metric_order`].
fn names<'a>(lines: &'a [StageCurves], main: Option<&str>) -> Vec<&'a str> {
    let all: BTreeSet<&str> = lines.iter().flat_map(|line| line.curves.keys()).map(String::as_str).collect();
    let mut names: Vec<&str> = all.into_iter().collect();
    names.sort_by_key(|name| (main != Some(*name), metric_order::rank(name)));
    names
}

fn selected<'a>(names: &[&'a str], choice: &str) -> Vec<&'a str> {
    let (limit, part) = match choice {
        "" => (MAIN, ""),
        ALL => (MAX_CHARTS, ""),
        part => (MAX_CHARTS, part),
    };
    names.iter().copied().filter(|name| name.contains(part)).take(limit).collect()
}

fn chart(name: &str, lines: &[StageCurves], options: &CurveOptions) -> Markup {
    let mut links = Vec::new();
    let mut series = Vec::new();
    for line in lines {
        // A line without this metric keeps its place in the legend.
        let points = line.curves.get(name).map(Vec::as_slice).unwrap_or_default();
        #[expect(clippy::cast_precision_loss, reason = "steps are drawn")]
        let points: Vec<(f64, f64)> = points.iter().map(|(step, value)| (*step as f64, *value)).collect();
        if let Some(address) = &line.rollouts {
            links.extend(point_links(&line.label, address, &points, options.smoothing));
        }
        series.push(Series { name: line.label.clone(), points });
    }
    let links = if options.is_log { links.into_iter().filter(|link| link.y > 0.0).collect() } else { links };
    let title = format!("{name} by step");
    let chart = LineChart { title, series, smoothing: options.smoothing, is_log: options.is_log };
    chart.draw_without_legend(&spread(&links, LINKS))
}

/// Returns links to the trajectories of some steps, at their places on the drawn line.
fn point_links(label: &str, address: &str, points: &[(f64, f64)], smoothing: f64) -> Vec<PointLink> {
    let drawn = smoothed(&thinned(points), smoothing);
    let link = |(x, y): (f64, f64)| {
        let step = format!("{:.0}", x.round());
        let address = format!("{address}{}", query(&[("step", &step)]));
        PointLink { x, y, address, label: format!("{label}: trajectories of step {step}") }
    };
    spread(&drawn, LINKS).into_iter().map(link).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(label: &str, metrics: &[&str], rollouts: Option<&str>) -> StageCurves {
        let curves = metrics.iter().map(|name| ((*name).to_string(), vec![(1, 1.0), (2, 3.0)])).collect();
        StageCurves { label: label.into(), curves: Arc::new(curves), rollouts: rollouts.map(str::to_string) }
    }

    #[test]
    fn main_metrics_are_first_and_the_others_are_counted() {
        let lines = [line("rl", &["a", "b", "c", "d", "e", "f", "loss", "reward_mean", "score"], None)];
        assert_eq!(names(&lines, Some("score"))[..4], ["score", "reward_mean", "loss", "a"]);
        let drawn = draw(&lines, Some("score"), &CurveOptions::default()).into_string();
        assert_eq!(drawn.matches("<figure").count(), MAIN);
        assert!(drawn.contains("3 of 9 metrics are not drawn"), "{drawn}");
        let all = CurveOptions { all: "?metrics=all&log=1".into(), ..CurveOptions::default() };
        let linked = draw(&lines, None, &all).into_string();
        assert!(linked.contains("href=\"?metrics=all&amp;log=1\""), "{linked}");
        let options = CurveOptions { metrics: "los".into(), ..CurveOptions::default() };
        assert_eq!(draw(&lines, None, &options).into_string().matches("<figure").count(), 1);
        assert!(draw(&[], None, &options).into_string().contains("no curves yet"));
    }

    #[test]
    fn several_stages_share_a_legend() {
        let lines = [line("rl[seed=1]", &["loss"], None), line("rl[seed=2]", &["loss", "reward"], None)];
        let drawn = draw(&lines, None, &CurveOptions::default()).into_string();
        assert_eq!(drawn.matches("<ul class=\"legend\">").count(), 1, "{drawn}");
        let reward = drawn.split("<figure").nth(1).unwrap_or_default();
        assert!(reward.contains("reward by step") && reward.contains("class=\"line c1\""), "{drawn}");
        assert!(!reward.contains("line c0"), "the second stage keeps its color without the first: {drawn}");
    }

    #[test]
    fn points_lead_to_the_trajectories_of_their_step() {
        let lines = [line("rl", &["reward"], Some("../artifacts/d/trajectories/rollouts"))];
        let drawn = draw(&lines, None, &CurveOptions::default()).into_string();
        assert!(drawn.contains("href=\"../artifacts/d/trajectories/rollouts?step=2\""), "{drawn}");
        let many: Vec<(f64, f64)> = (0..5_000).map(|n| (f64::from(n), 1.0)).collect();
        assert_eq!(point_links("rl", "x", &many, 0.5).len(), LINKS);
    }
}
