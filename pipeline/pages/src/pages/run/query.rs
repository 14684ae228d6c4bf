//! State of the page of a run in its address.

use crate::text::visible;
use maud::{Markup, html};
use serde::Deserialize;
use std::collections::BTreeSet;
use trainyard_engine::fold::RunView;

/// Maximum number of overlaid runs.
const MAX_OVERLAYS: usize = 4;

/// Parameters of the address. All are optional, and a wrong number counts as its default.
#[derive(Debug, Clone, Default, Deserialize)]
pub struct RunQuery {
    /// Name of the only section that is returned.
    pub part: Option<String>,
    /// Runs whose curves are drawn over those of this one, with commas between them.
    #[serde(default)]
    pub with: String,
    /// Weight of the past in smoothed curves, from 0 to 0.99.
    #[serde(default)]
    pub smooth: String,
    /// `1` for a logarithmic axis.
    #[serde(default)]
    pub log: String,
    /// `all`, or a part of the names of shown metrics.
    #[serde(default)]
    pub metrics: String,
    /// Stage id whose instances the table shows.
    #[serde(default)]
    pub group: String,
    /// Status of the stages in the table.
    #[serde(default)]
    pub status: String,
    /// Index of the first stage in the table.
    #[serde(default)]
    pub from: String,
}

/// Choices about the curves of a page.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CurveOptions {
    /// Weight of the past, from 0 to below 1.
    pub smoothing: f64,
    /// Whether the y axis is logarithmic.
    pub is_log: bool,
    /// Names of overlaid runs.
    pub with: Vec<String>,
    /// `all`, or a part of the names of shown metrics; empty for the main ones.
    pub metrics: String,
    /// Address of the page with all metrics.
    pub all: String,
}

impl RunQuery {
    /// Returns the choices about curves.
    pub fn curve_options(&self) -> CurveOptions {
        let smoothing = self.smooth.parse().ok().filter(|weight: &f64| weight.is_finite()).unwrap_or(0.0);
        let names = self.with.split(',').map(str::trim).filter(|name| !name.is_empty());
        CurveOptions {
            smoothing: smoothing.clamp(0.0, 0.99),
            is_log: self.log == "1",
            with: names.take(MAX_OVERLAYS).map(str::to_string).collect(),
            metrics: self.metrics.clone(),
            all: Self { metrics: "all".to_string(), ..self.clone() }.address(),
        }
    }

    /// Returns the index of the first stage in the table.
    pub fn first_stage(&self) -> usize {
        self.from.parse().unwrap_or(0)
    }

    /// Returns the form with the choices about curves.
    pub fn curve_form(&self) -> Markup {
        html! {
            form .filters method="get" {
                label { "Smoothing (0 to 0.99)"
                    input type="number" name="smooth" min="0" max="0.99" step="0.01" value=(self.smooth); }
                label { "Overlay runs"
                    input type="search" name="with" value=(self.with) size="26"
                        placeholder="latest-success, a tag, an id"; }
                label { "Metrics (all, or a part of their names)"
                    input type="search" name="metrics" value=(self.metrics); }
                label .check { input type="checkbox" name="log" value="1" checked[self.log == "1"]; "Log scale" }
                (hidden(&[("group", &self.group), ("status", &self.status)]))
                button type="submit" { "Draw" }
            }
        }
    }

    /// Returns the form that selects stages of the table.
    pub fn stage_form(&self, view: &RunView, is_live: bool) -> Markup {
        let statuses: BTreeSet<&str> = view.stages.iter().map(|stage| stage.shown_status(is_live)).collect();
        html! {
            form .filters method="get" action="#stages" {
                label { "Stage" input type="search" name="group" value=(self.group) placeholder="rl"; }
                label { "Status"
                    select name="status" {
                        option value="" { "any" }
                        @for status in statuses { option value=(status) selected[self.status == status] { (status) } }
                    }
                }
                (hidden(&[("smooth", &self.smooth), ("with", &self.with)]))
                (hidden(&[("metrics", &self.metrics), ("log", &self.log)]))
                button type="submit" { "Filter" }
            }
        }
    }

    /// Returns the parameters of an address with another first stage.
    pub fn address_from(&self, from: usize) -> String {
        Self { from: from.to_string(), ..self.clone() }.address()
    }

    /// Returns the parameters of the address of the page, without `part`.
    fn address(&self) -> String {
        let all = [
            ("group", self.group.as_str()),
            ("status", &self.status),
            ("smooth", &self.smooth),
            ("with", &self.with),
            ("metrics", &self.metrics),
            ("log", &self.log),
            ("from", &self.from),
        ];
        let given: Vec<(&str, &str)> = all.into_iter().filter(|(_, value)| !value.is_empty()).collect();
        crate::links::query(&given)
    }
}

fn hidden(fields: &[(&str, &str)]) -> Markup {
    html! {
        @for (name, value) in fields.iter().filter(|(_, value)| !value.is_empty()) {
            input type="hidden" name=(name) value=(visible(value));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_numbers_are_defaults() {
        let query =
            |smooth: &str, with: &str| RunQuery { smooth: smooth.into(), with: with.into(), ..RunQuery::default() };
        assert_eq!(query("0.6", "a, b,,c").curve_options().with, ["a", "b", "c"]);
        let weights = ["0.6", "7", "-1", "NaN", "x", ""].map(|text| query(text, "").curve_options().smoothing);
        assert_eq!(weights, [0.6, 0.99, 0.0, 0.0, 0.0, 0.0]);
        assert_eq!(query("", "1,2,3,4,5").curve_options().with.len(), MAX_OVERLAYS);
        assert_eq!(query("0.5", "").address_from(200), "?smooth=0.5&from=200");
        assert_eq!(query("0.5", "").curve_options().all, "?smooth=0.5&metrics=all");
    }
}
