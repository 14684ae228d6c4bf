//! `trainyard explain RUN STAGE`: why a stage is in the state it is in, told from the journal alone.

use crate::args::{ExplainArgs, Format};
use crate::exit::Exit;
use crate::names;
use crate::output::human::{print_json, print_text};
use crate::session::{self, Access};
use serde_json::json;
use std::sync::Arc;
use trainyard_app::Catalogue;
use trainyard_core::Result;

/// Reads the run's journal and tells what it says of the stage.
pub fn run(args: &ExplainArgs, catalogue: &Arc<Catalogue>) -> Result<Exit> {
    let session = session::open(&args.site, Access::Look, catalogue)?;
    let (stage, lines) = session.block_on(async {
        let run = names::run(&session.store, &args.run).await?;
        let view = names::view(&session.store, &run).await?;
        let stage = names::stage(&view, &args.stage)?;
        Ok((stage.clone(), view.explain(&stage.stage.0)))
    })?;
    match args.format {
        Format::Json => print_json(&json!({"stage": stage, "explanation": lines}))?,
        Format::Text => print_text(&lines.join("\n")),
    }
    Ok(Exit::Done)
}
