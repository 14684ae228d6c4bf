//! Configuration of a stage: its values, with the defaults of its kind dimmed and named.

use super::data::StageData;
use crate::layout::{empty, scrolling};
use crate::text;
use maud::{Markup, html};
use serde_json::Value;
use trainyard_core::KindInfo;
use trainyard_views::config_rows::{ConfigRow, KindDefaults, config_rows};
use trainyard_views::stage::StageDetails;

/// Maximum number of values.
const MAX_ROWS: usize = 1_000;
/// Maximum characters of a value.
const MAX_VALUE: usize = 2_000;

/// Shows the complete configuration, and which of its values equal the defaults.
pub fn config(data: &StageData<'_>, kind: &str, details: &StageDetails) -> Markup {
    html! {
        section aria-labelledby="config-title" {
            h2 #config-title { "Configuration" }
            @match (&details.config, data.app.catalogue.kind(kind)) {
                (None, _) => {
                    (empty("The configuration is complete once the stage starts or is found in the cache."))
                }
                (Some(config), Some(kind)) => {
                    (values(data, config, kind, details.kind_version))
                    details { summary { "As JSON" } (json(config)) }
                }
                (Some(config), None) => {
                    p .muted {
                        "Complete, with defaults filled in. They are not marked, since this program has no stage kind "
                        code { (text::cut(kind, 100).0) } "."
                    }
                    (json(config))
                }
            }
        }
    }
}

fn values(data: &StageData<'_>, config: &Value, kind: &KindInfo, version: Option<u32>) -> Markup {
    let composition = data.app.catalogue.composition(kind, config);
    let defaults = KindDefaults { options: &kind.options, composition: composition.as_ref() };
    let rows = config_rows(config, defaults);
    let equal = rows.iter().filter(|row| row.is_default).count();
    let shown = &rows[..rows.len().min(MAX_ROWS)];
    html! {
        p .muted {
            (equal) " of " (rows.len()) " values equal the defaults of "
            a .mono href=(data.links.to(&["stages", kind.name])) { (kind.name) }
            ": they are dimmed and named “default”. The others were given by the workflow, its parameters, or a "
            "composition that it names. Options that are not listed have their defaults."
        }
        @if let Some(version) = version.filter(|version| *version != kind.version) {
            p {
                "The stage ran with version " (version) " of this kind, and the defaults are those of version "
                (kind.version) "."
            }
        }
        (scrolling("Configuration", &table(shown)))
        @if shown.len() < rows.len() {
            p .muted { (text::count((rows.len() - shown.len()) as u64)) " more values" }
        }
    }
}

fn table(rows: &[ConfigRow]) -> Markup {
    html! {
        table .config {
            thead { tr { th { "Option" } th { "Value" } th { "Origin" } } }
            tbody {
                @for row in rows {
                    tr .(if row.is_default { "default" } else { "given" }) {
                        td .mono { (text::cut(&row.path, 300).0) }
                        td .mono.wide { (value(&row.value)) }
                        td .origin { (if row.is_default { "default" } else { "given" }) }
                    }
                }
            }
        }
    }
}

fn value(value: &Value) -> Markup {
    let text = value.to_string();
    let (shown, left) = text::cut(&text, MAX_VALUE);
    html! { (shown) @if left > 0 { " … " (text::count(left as u64)) " more characters" } }
}

fn json(config: &Value) -> Markup {
    let lines = serde_json::to_string_pretty(config).unwrap_or_default();
    let (shown, left) = text::cut(&lines, text::MAX_CHARS);
    html! {
        pre role="region" tabindex="0" aria-label="Configuration as JSON" { (shown) }
        @if left > 0 { p .muted { (text::count(left as u64)) " more characters" } }
    }
}
