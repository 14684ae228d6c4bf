//! `trainyard schema`: the JSON Schema of workflow files, with every stage kind of this build.

use crate::exit::Exit;
use crate::output::human::print_json;
use crate::wiring;
use trainyard_core::Result;

pub fn run() -> Result<Exit> {
    print_json(&trainyard_spec::schema::workflow_schema(&wiring::registry()?))?;
    Ok(Exit::Done)
}
