//! `trainyard check FILE…`: every mistake of every file at once.

use crate::args::{CheckArgs, Format, SiteArgs};
use crate::exit::Exit;
use crate::output::diagnostics;
use crate::output::human::{print_json, print_text};
use crate::{compiled, session};
use serde_json::json;
use std::sync::Arc;
use trainyard_app::Catalogue;
use trainyard_core::Result;

/// Exit 2 if any file has an error; warnings and notes leave it at 0.
pub fn run(args: &CheckArgs, catalogue: &Arc<Catalogue>) -> Result<Exit> {
    let site = session::site(&SiteArgs { store: None, site: args.site.clone() }, catalogue)?;
    let (mut all, mut errors) = (Vec::new(), 0);
    for path in &args.files {
        let found = compiled::file(path, &args.params.params, &**catalogue, &site)?;
        errors += found.errors();
        match args.format {
            Format::Json => all.extend(found.diagnostics.iter().map(|d| diagnostics::json(d, &found.sources))),
            Format::Text => {
                diagnostics::print(&found.diagnostics, &found.sources);
                let stages = found.plan.as_ref().map(|p| format!("{} stages, ", p.nodes.len())).unwrap_or_default();
                print_text(&format!("{}: {stages}{}", path.display(), diagnostics::count(&found.diagnostics)));
            }
        }
    }
    if args.format == Format::Json {
        print_json(&json!({"errors": errors, "diagnostics": all}))?;
    }
    Ok(if errors == 0 { Exit::Done } else { Exit::Invalid })
}
