//! Implements `trainyard schema`, which prints the JSON Schema of workflow files with every stage kind of this build.

use crate::args::{SchemaArgs, SchemaFormat};
use crate::exit::CliExit;
use crate::output::human::print_json;
use std::sync::Arc;
use trainyard_app::Catalogue;
use trainyard_core::Result;

/// Prints the schema as JSON, its only format.
pub fn run(args: &SchemaArgs, catalogue: &Arc<Catalogue>) -> Result<CliExit> {
    let schema = trainyard_spec::schema::workflow_schema(&**catalogue);
    match args.format {
        SchemaFormat::Json => print_json(&schema)?,
    }
    Ok(CliExit::Done)
}
