//! Sweep of a run: the instances of a fan-out as a table, their differences and learning curves.

mod address;
mod charts;
mod table;
#[cfg(test)]
mod tests;

use self::address::{Shown, Sweeping};
use crate::areas;
use crate::error::PageResult;
use crate::layout::{Heading, document};
use crate::request::{PageRequest, given};
use crate::state::PageState;
use axum::extract::{Path, Query, State};
use maud::{Markup, html};
use std::sync::Arc;
use trainyard_core::RunId;
use trainyard_views::sweep::{self, NO_POOL, SweepQuery, SweepView};

/// Shows a sweep of a run.
pub async fn show(
    State(app): State<Arc<PageState>>,
    page: PageRequest,
    Path(run): Path<String>,
    Query(chosen): Query<Sweeping>,
) -> PageResult {
    let chosen = Sweeping {
        stage: given(chosen.stage),
        metrics: given(chosen.metrics),
        pool: given(chosen.pool),
        sort: given(chosen.sort),
        baseline: given(chosen.baseline),
        curve: given(chosen.curve),
    };
    let metrics = chosen.metrics.iter().flat_map(|names| names.split(',')).map(|name| name.trim().to_string());
    let selected = SweepQuery {
        stage: chosen.stage.clone(),
        metrics: metrics.collect(),
        pool: chosen.pool.clone(),
        sort: chosen.sort.clone(),
        baseline: chosen.baseline.clone(),
    };
    let id = RunId(run.clone());
    let found = sweep::show(&app.store, app.clock.as_ref(), &id, &selected).await?;
    let instances: Vec<String> = found.rows.iter().flat_map(|row| row.stages.iter().cloned()).collect();
    let curves = sweep::curves(&app.store, &id, &instances, chosen.curve.as_deref()).await?;
    let shown = Shown { links: &page.links, run: &run, chosen: &chosen };
    let heading = Heading::new(&areas::RUNS, format!("Sweep of {}", found.stage))
        .below(page.links.to(&[]), "Runs")
        .below(page.links.run(&run), run.as_str());
    let content = html! {
        (filters(&found, &chosen))
        (table::content(&shown, &found))
        (charts::differences(&found))
        (charts::curves(&shown, &found, &curves, instances.len()))
    };
    Ok(document(&page.links, &heading, &content))
}

fn filters(found: &SweepView, chosen: &Sweeping) -> Markup {
    let pooled = found.pooled.as_deref().unwrap_or(NO_POOL);
    html! {
        form .filters method="get" {
            label {
                "Stage"
                select name="stage" {
                    @for stage in &found.stages {
                        option value=(stage) selected[*stage == found.stage] { (crate::text::visible(stage)) }
                    }
                }
            }
            label {
                "Metrics, separated by commas"
                input type="text" name="metrics" value=(found.metrics.join(",")) size="36" list="metrics";
            }
            datalist #metrics { @for metric in &found.all_metrics { option value=(metric) {} } }
            label {
                "Pooled over"
                select name="pool" {
                    option value=(NO_POOL) selected[pooled == NO_POOL] { "no axis" }
                    @for axis in &found.axes {
                        option value=(axis) selected[axis == pooled] { (crate::text::visible(axis)) }
                    }
                }
            }
            label {
                "Compared with"
                select name="baseline" {
                    @for row in &found.rows {
                        @let is_chosen = found.baseline.as_deref() == Some(row.name.as_str());
                        option value=(row.name) selected[is_chosen] { (crate::text::visible(&row.name)) }
                    }
                }
            }
            @if let Some(sort) = &chosen.sort { input type="hidden" name="sort" value=(sort); }
            @if let Some(curve) = &chosen.curve { input type="hidden" name="curve" value=(curve); }
            button type="submit" { "Show" }
        }
    }
}
