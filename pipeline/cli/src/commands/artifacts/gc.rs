//! Objects that no manifest and no checkpoint names: listed, and deleted only if asked.

use crate::args::Format;
use crate::exit::Exit;
use crate::output::human::{print_json, print_text};
use crate::session::Session;
use serde_json::json;
use std::time::Duration;
use trainyard_core::Result;
use trainyard_core::units::format_size;

/// Younger objects may belong to an attempt that is about to publish.
const MIN_AGE: Duration = Duration::from_secs(24 * 3600);

/// Lists garbage; deletes it only if asked.
pub fn run(session: &Session, delete: bool, format: Format) -> Result<Exit> {
    let plan = session.block_on(session.store.garbage_plan(MIN_AGE))?;
    let done = if delete { Some(session.block_on(session.store.collect_garbage(&plan))?) } else { None };
    if format == Format::Json {
        let paths: Vec<&String> = plan.objects.iter().map(|(path, _)| path).collect();
        print_json(&json!({
            "garbage": paths,
            "bytes": plan.bytes(),
            "young": plan.young,
            "kept": plan.kept,
            "kept_bytes": plan.kept_bytes,
            "deleted": done.map(|d| d.files),
        }))?;
        return Ok(Exit::Done);
    }
    print_text(&format!(
        "{} objects ({}) are in use; {} without a name are younger than a day",
        plan.kept,
        format_size(plan.kept_bytes),
        plan.young
    ));
    let garbage = plan.objects.len() + plan.staged.len();
    print_text(&match done {
        Some(done) => format!("deleted {} files, {}", done.files, format_size(done.bytes)),
        None if garbage == 0 => "no garbage".into(),
        None => format!(
            "{garbage} files ({}) are garbage; `trainyard artifacts gc --delete` removes them",
            format_size(plan.bytes())
        ),
    });
    Ok(Exit::Done)
}
