//! Page of one stage kind or part.

use crate::catalogue::PartEntry;
use crate::layout::scrolling;
use crate::links::Links;
use crate::text::visible;
use maud::{Markup, html};
use serde_json::Value;
use trainyard_core::metric::MetricDirection;
use trainyard_core::option_list::options;
use trainyard_core::{Cardinality, KindInfo, MetricInfo, PortInfo};

/// Returns a table of names, which are links, and summaries.
pub fn table(links: &Links, rows: &[(&str, &str)]) -> Markup {
    html! {
        table {
            thead { tr { th { "Name" } th { "Summary" } } }
            tbody {
                @for (name, summary) in rows {
                    tr {
                        td { a .mono href=(links.to(&["stages", name])) { (visible(name)) } }
                        td .wide { (visible(summary)) }
                    }
                }
            }
        }
    }
}

/// Renders a stage kind, with the parts that its options may name.
pub fn kind(links: &Links, kind: &KindInfo, parts: &[PartEntry]) -> Markup {
    let is_named = |part: &&PartEntry| kind.families.iter().any(|family| *family == part.family);
    let rows: Vec<(&str, &str)> =
        parts.iter().filter(is_named).map(|part| (part.name.as_str(), part.summary.as_str())).collect();
    html! {
        p { (visible(kind.summary)) span .muted { " Version " (kind.version) "." } }
        pre { (visible(kind.doc.trim())) }
        (ports("Inputs", &kind.inputs))
        (ports("Outputs", &kind.outputs))
        (option_table(&kind.options))
        (metrics("Metrics", &kind.metrics.metrics))
        (metrics("Comparisons", &kind.metrics.comparisons))
        h2 { "Example" }
        pre { (visible(kind.example)) }
        @if !rows.is_empty() { h2 { "Parts" } (scrolling("Parts", &table(links, &rows))) }
    }
}

/// Renders a part.
pub fn part(part: &PartEntry) -> Markup {
    html! {
        p { (visible(&part.summary)) span .muted { " A part of " code { (visible(&part.family)) } "." } }
        pre { (visible(part.doc.trim())) }
        @if !part.needs.is_empty() { h2 { "Needs" } p { (visible(&part.needs.join(", "))) } }
        (option_table(&part.options))
        (metrics("Metrics", &part.metrics))
        @if let Some(expanded) = &part.expands_to { h2 { "Expands to" } pre { (visible(expanded)) } }
    }
}

fn ports(title: &str, ports: &[PortInfo]) -> Markup {
    let how_many = |cardinality: Cardinality| match cardinality {
        Cardinality::One => "one",
        Cardinality::Optional => "optional",
        Cardinality::Many => "many",
    };
    html! {
        @if !ports.is_empty() {
            h2 { (title) }
            (scrolling(title, &html! {
                table {
                    thead { tr { th { "Name" } th { "Kind" } th { "How many" } th { "Meaning" } } }
                    tbody {
                        @for port in ports {
                            tr {
                                td .mono { (visible(port.name)) }
                                td { (port.kind) }
                                td { (how_many(port.cardinality)) }
                                td .wide { (visible(port.doc)) }
                            }
                        }
                    }
                }
            }))
        }
    }
}

fn option_table(schema: &Value) -> Markup {
    let rows: Vec<_> = options(schema).into_iter().filter(|row| row.path != "kind").collect();
    html! {
        @if !rows.is_empty() {
            h2 { "Options" }
            (scrolling("Options", &html! {
                table {
                    thead { tr { th { "Option" } th { "Type" } th { "Default" } th { "Meaning" } } }
                    tbody {
                        @for row in &rows {
                            tr {
                                td .mono { (visible(&row.path)) }
                                td .wide { (visible(&row.kind)) }
                                td .mono { @if let Some(default) = &row.default { (visible(default)) } }
                                td .wide { (visible(&row.doc)) }
                            }
                        }
                    }
                }
            }))
        }
    }
}

fn metrics(title: &str, metrics: &[MetricInfo]) -> Markup {
    let better = |direction: MetricDirection| match direction {
        MetricDirection::Higher => "higher",
        MetricDirection::Lower => "lower",
        MetricDirection::Neutral => "",
    };
    html! {
        @if !metrics.is_empty() {
            h2 { (title) }
            (scrolling(title, &html! {
                table {
                    thead { tr { th { "Name" } th { "Unit" } th { "Better" } th { "Meaning" } } }
                    tbody {
                        @for metric in metrics {
                            tr {
                                td .mono { (visible(&metric.name)) }
                                td { (visible(&metric.unit)) }
                                td { (better(metric.direction)) }
                                td .wide {
                                    (visible(&metric.doc))
                                    @if let Some(reduce) = metric.reduce { " (" (reduce.describe()) ")" }
                                }
                            }
                        }
                    }
                }
            }))
        }
    }
}
