//! Builds the grammar of a response with a given form: JSON of a schema, or forced calls.

use std::sync::Arc;
use trainyard_envs::formats::ToolFormat;
use trainyard_lm::constrain::{Grammar, turn_grammar};
use trainyard_model_api::{ModelApiError, ModelRequest};
use trainyard_tables::CallSyntax;

/// Returns the grammar of a response, or `None` if the request leaves its form free. `thought` is the tag that ends a
/// thought which the prompt opens. Errors: a schema that is not supported, or a call that cannot be forced.
pub fn grammar(
    request: &ModelRequest,
    format: Option<&dyn ToolFormat>,
    thought: Option<&'static str>,
) -> Result<Option<Arc<Grammar>>, ModelApiError> {
    if !request.has_form() {
        return Ok(None);
    }
    let syntax = format.map(|format| syntax(request, format)).transpose()?;
    match request.form(syntax) {
        None => Ok(None),
        Some(form) => Ok(Some(Arc::new(turn_grammar(&form, thought)?))),
    }
}

fn syntax(request: &ModelRequest, format: &dyn ToolFormat) -> Result<CallSyntax, ModelApiError> {
    let refuse = || request.refuse_call_format(format.kind(), "start the server with `--calls hermes`");
    format.call_syntax().ok_or_else(refuse)
}
