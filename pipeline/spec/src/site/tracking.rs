//! Reads the key `tracking` of a site file: the trackers, which are programs that follow runs.

use crate::options::KindOptions;
use crate::read::{BoundContent, BoundNode, ValueReader};
use crate::template::Template;
use serde_json::{Value, json};

/// Reads the entries of `tracking`, validated by the schema of a tracker. Returns an empty list if one has a mistake.
pub(super) fn read(site: &BoundNode, tracker: &Value, reader: &mut ValueReader<'_>) -> Vec<Value> {
    let BoundContent::Map(entries) = &site.content else { return Vec::new() };
    let Some(entry) = entries.iter().find(|entry| entry.key == "tracking") else { return Vec::new() };
    // Validated as an option of the site, so that mistakes are reported at their positions below it.
    let list = json!({"type": "array", "items": tracker});
    let options = KindOptions::of(&json!({"type": "object", "properties": {"tracking": list}}));
    let (config, read) = options.read(&[entry], reader.diagnostics);
    let config = Template::Map(config);
    let found = options.validate(&config, &read, site, "the site file");
    let good = found.is_empty();
    reader.diagnostics.extend(found);
    let known = config.as_literal().filter(|_| good);
    known.and_then(|known| known.get("tracking")?.as_array().cloned()).unwrap_or_default()
}
