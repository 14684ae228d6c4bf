//! Builds the grammar of a response with a given form: JSON of a schema, or forced calls.

use serde_json::Value;
use std::sync::Arc;
use trainyard_envs::formats::{CallSyntax, ToolFormat};
use trainyard_lm::constrain::{Grammar, GrammarBuilder, NodeId, SchemaCompiler};
use trainyard_model_api::{ApiTool, ApiToolChoice, ModelApiError, ModelRequest, OutputForm};

/// Maximum calls of a turn with a given form.
const MAX_CALLS: u32 = 16;

/// Returns the grammar of a response, or `None` if the request leaves its form free. `thought` is the tag that ends a
/// thought which the prompt opens. Errors: a schema that is not supported, or a call that cannot be forced.
pub fn grammar(
    request: &ModelRequest,
    format: Option<&dyn ToolFormat>,
    thought: Option<&'static str>,
) -> Result<Option<Arc<Grammar>>, ModelApiError> {
    let forced = request.tool_choice.is_forced();
    if request.output == OutputForm::Text && !forced {
        return Ok(None);
    }
    let syntax = format.map(|format| syntax(request, format)).transpose()?;
    let mut builder = GrammarBuilder::new(syntax.map_or(&[], |syntax| syntax.markup));
    let mut alternatives = Vec::new();
    if let Some(syntax) = syntax {
        alternatives.push(calls(&mut builder, request, &syntax)?);
    }
    if !forced {
        alternatives.push(answer(&mut builder, &request.output)?);
    }
    let mut start = builder.choice(&alternatives);
    if let Some(close) = thought {
        let thought = builder.text_until(close);
        start = builder.sequence(&[thought, start]);
    }
    Ok(Some(Arc::new(builder.build(start))))
}

/// Returns the name of the field that gives the response its form.
pub fn field(request: &ModelRequest) -> &'static str {
    if request.tool_choice.is_forced() { "tool_choice" } else { "response_format" }
}

fn syntax(request: &ModelRequest, format: &dyn ToolFormat) -> Result<CallSyntax, ModelApiError> {
    format.call_syntax().ok_or_else(|| {
        let message = format!(
            "calls of the format `{}` are no JSON, so they cannot be forced or go with a response of a given form; \
             start the server with `--calls hermes`",
            format.kind()
        );
        ModelApiError::invalid_field(field(request), message).code("unsupported_parameter")
    })
}

fn answer(builder: &mut GrammarBuilder, form: &OutputForm) -> Result<NodeId, ModelApiError> {
    match form {
        OutputForm::Schema(schema) => SchemaCompiler::new(builder, schema)
            .compile()
            .map_err(|error| ModelApiError { param: Some("response_format".into()), ..ModelApiError::from(error) }),
        OutputForm::JsonObject | OutputForm::Text => Ok(SchemaCompiler::any_object(builder)),
    }
}

/// Returns the node of the permitted calls.
fn calls(builder: &mut GrammarBuilder, request: &ModelRequest, syntax: &CallSyntax) -> Result<NodeId, ModelApiError> {
    let mut tools = Vec::new();
    for (i, tool) in request.visible_tools().iter().enumerate() {
        if matches!(&request.tool_choice, ApiToolChoice::Named(name) if *name != tool.name) {
            continue;
        }
        let arguments = arguments(builder, request, tool).map_err(|error| {
            let param = Some(format!("tools[{i}]"));
            ModelApiError { param, message: format!("tool `{}`: {}", tool.name, error.message), ..error }
        })?;
        let [before, between, after] = syntax.call.map(|text| builder.literal(text));
        let name = builder.literal(&Value::from(tool.name.as_str()).to_string());
        tools.push(builder.sequence(&[before, name, between, arguments, after]));
    }
    let call = builder.choice(&tools);
    let [open, close] = [syntax.open, syntax.close].map(|text| builder.literal(text));
    let several = request.parallel_calls && !matches!(request.tool_choice, ApiToolChoice::Named(_));
    if !several {
        return Ok(builder.sequence(&[open, call, close]));
    }
    let separator = builder.literal(syntax.separator);
    let next = builder.sequence(&[separator, call]);
    let more = builder.repeat(next, 0, MAX_CALLS - 1);
    Ok(builder.sequence(&[open, call, more, close]))
}

/// Returns the node of a tool's arguments. Where the model may also answer, a schema that is not supported permits any
/// object, as in a response of free form.
fn arguments(builder: &mut GrammarBuilder, request: &ModelRequest, tool: &ApiTool) -> Result<NodeId, ModelApiError> {
    if tool.parameters.get("type").and_then(Value::as_str) != Some("object") {
        return Ok(SchemaCompiler::any_object(builder));
    }
    match SchemaCompiler::new(builder, &tool.parameters).compile() {
        Ok(arguments) => Ok(arguments),
        Err(error) if request.tool_choice.is_forced() => Err(ModelApiError::from(error)),
        Err(_) => Ok(SchemaCompiler::any_object(builder)),
    }
}
