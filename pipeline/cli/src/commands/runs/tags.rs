//! Implements `runs tag` and `runs untag`.

use crate::args::{OutputFormat, TagArgs};
use crate::commands::author;
use crate::exit::CliExit;
use crate::output::human::{print_json, print_text};
use crate::session::AppSession;
use serde_json::json;
use trainyard_core::Result;
use trainyard_views::{annotations, find};

/// Gives or takes the tags, and prints what changed. Errors: invalid (a name that cannot be a tag, no such run), those
/// of the store.
pub fn set(session: &AppSession, args: &TagArgs, tagged: bool, format: OutputFormat) -> Result<CliExit> {
    // All names are checked before the first tag is set.
    for name in args.names.iter().filter(|_| tagged) {
        annotations::check_tag(name)?;
    }
    let by = author(args.by.as_deref());
    let (run, changed, tags) = session.block_on(async {
        let store = &session.store;
        let run = find::run(store, &args.run).await?;
        let mut changed = Vec::new();
        for name in &args.names {
            if store.set_tag(&run, name, tagged, by.as_deref()).await? {
                changed.push(name.clone());
            }
        }
        let tags = annotations::tags_of(store, &run).await?;
        Ok((run, changed, tags))
    })?;
    match format {
        OutputFormat::Json => print_json(&json!({"run": run, "changed": changed, "tags": tags}))?,
        OutputFormat::Text if tags.is_empty() => print_text(&format!("run {run} has no tags")),
        OutputFormat::Text => print_text(&format!("tags of run {run}: {}", tags.join(", "))),
    }
    Ok(CliExit::Done)
}
