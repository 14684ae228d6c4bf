//! Form and facets of the list of rollouts.

use super::params::RolloutParams;
use crate::text::{count, cut};
use maud::{Markup, html};
use trainyard_views::rollouts::{Facet, FacetValue};

/// Maximum characters of a value of a facet.
const LABEL: usize = 48;
/// Orders of the list: values of `sort` and their names.
const ORDERS: [(&str, &str); 7] = [
    ("", "row"),
    ("-reward", "reward, highest first"),
    ("reward", "reward, lowest first"),
    ("-turns", "turns, most first"),
    ("turns", "turns, fewest first"),
    ("-tokens", "tokens, most first"),
    ("tokens", "tokens, fewest first"),
];

/// Shows the form of the filters that are written.
pub fn form(params: &RolloutParams) -> Markup {
    let sort = params.get("sort").unwrap_or_default();
    html! {
        form .filters method="get" role="search" {
            @for (name, value) in params.hidden() { input type="hidden" name=(name) value=(value); }
            label { "Text in a message" input #find type="search" name="find" value=[params.get("find")]; }
            label .check {
                input type="checkbox" name="regex" value="1" checked[params.get("regex").is_some()];
                " Regular expression"
            }
            label { "Reward, as in 0..0.5" input type="text" size="10" name="reward" value=[params.get("reward")]; }
            label { "Steps, as in 10..20" input type="text" size="10" name="step" value=[params.get("step")]; }
            label { "Problem id" input type="text" name="problem" value=[params.get("problem")]; }
            label {
                "Order"
                select name="sort" {
                    @for (value, name) in ORDERS { option value=(value) selected[value == sort] { (name) } }
                }
            }
            button type="submit" { "Show" }
        }
    }
}

/// Shows the facets: each value is a link that selects it, or removes the selection.
pub fn facets(params: &RolloutParams, facets: &[Facet]) -> Markup {
    let shown = facets.iter().filter(|facet| facet.values.len() > 1 || params.get(facet.name).is_some());
    html! {
        details .facets open[params.is_filtered()] {
            summary { "Filter by verdict, reward, level, turns, tool errors, end, step or problem" }
            div .facet-grid {
                @for facet in shown { (one(params, facet)) }
            }
            @if params.is_filtered() { p { a href="?" { "Remove all filters" } } }
        }
    }
}

fn one(params: &RolloutParams, facet: &Facet) -> Markup {
    let selected = params.get(facet.name);
    let has_selected = facet.values.iter().any(|value| Some(value.value.as_str()) == selected);
    html! {
        section {
            h2 { (title(facet.name)) }
            ul {
                @if let Some(value) = selected.filter(|_| !has_selected) {
                    li {
                        a href=(address(params.with(facet.name, None))) aria-current="true" {
                            "✓ " (cut(value, LABEL).0)
                        }
                    }
                }
                @for value in &facet.values { (entry(params, facet.name, value, selected)) }
            }
            @if facet.more > 0 { p .muted { (count(facet.more as u64)) " more values" } }
        }
    }
}

fn entry(params: &RolloutParams, name: &'static str, value: &FacetValue, selected: Option<&str>) -> Markup {
    let is_selected = selected == Some(value.value.as_str());
    let target = address(params.with(name, (!is_selected).then_some(value.value.as_str())));
    html! {
        li {
            a href=(target) aria-current=[is_selected.then_some("true")] {
                @if is_selected { "✓ " }
                (cut(&value.label, LABEL).0)
            }
            " " span .muted { (count(value.count)) }
        }
    }
}

/// Returns an address relative to this page; an empty one would keep the parameters.
fn address(query: String) -> String {
    if query.is_empty() { "?".to_string() } else { query }
}

fn title(name: &str) -> &'static str {
    match name {
        "verdict" => "Verdict",
        "reward" => "Reward",
        "level" => "Level",
        "turns" => "Turns",
        "tool_errors" => "Tool errors",
        "stop" => "End",
        "step" => "Step",
        _ => "Problem",
    }
}
