//! Builds the grammar of a turn of a given form: JSON of a schema, forced calls, or either.

use super::grammar::{Grammar, GrammarBuilder, NodeId};
use super::schema::SchemaCompiler;
use serde_json::Value;
use trainyard_core::{Error, Result};
use trainyard_tables::{AnswerForm, CallForm, CallableTool, TurnForm, TurnFormError};

/// Maximum calls of a turn with a given form.
const MAX_CALLS: u32 = 16;

/// Returns the grammar of a turn. `thought` is the tag that ends a thought which the prompt opens. Errors: a schema
/// that is not supported.
pub fn turn_grammar(form: &TurnForm, thought: Option<&'static str>) -> Result<Grammar, TurnFormError> {
    let mut builder = GrammarBuilder::new(form.calls.as_ref().map_or(&[], |calls| calls.syntax.markup));
    let mut alternatives = Vec::new();
    if let Some(calls) = &form.calls {
        alternatives.push(calls_node(&mut builder, calls, form.answer.is_none())?);
    }
    if let Some(answer) = &form.answer {
        alternatives.push(answer_node(&mut builder, answer).map_err(|error| form.error(error))?);
    }
    let mut start = builder.choice(&alternatives);
    if let Some(close) = thought {
        let thought = builder.text_until(close);
        start = builder.sequence(&[thought, start]);
    }
    Ok(builder.build(start))
}

fn answer_node(builder: &mut GrammarBuilder, answer: &AnswerForm) -> Result<NodeId> {
    match answer {
        AnswerForm::Schema(schema) => SchemaCompiler::new(builder, schema).compile(),
        AnswerForm::Object => Ok(SchemaCompiler::any_object(builder)),
    }
}

/// Returns the node of the permitted calls.
fn calls_node(builder: &mut GrammarBuilder, calls: &CallForm, forced: bool) -> Result<NodeId, TurnFormError> {
    let syntax = &calls.syntax;
    let mut tools = Vec::new();
    for tool in &calls.tools {
        let arguments = arguments_node(builder, tool, forced).map_err(|error| TurnFormError {
            field: format!("tools[{}]", tool.number),
            error: Error { message: format!("tool `{}`: {}", tool.name, error.message), ..error },
        })?;
        let [before, between, after] = syntax.call.map(|text| builder.literal(text));
        let name = builder.literal(&Value::from(tool.name.as_str()).to_string());
        tools.push(builder.sequence(&[before, name, between, arguments, after]));
    }
    let call = builder.choice(&tools);
    let [open, close] = [syntax.open, syntax.close].map(|text| builder.literal(text));
    if !calls.several {
        return Ok(builder.sequence(&[open, call, close]));
    }
    let separator = builder.literal(syntax.separator);
    let next = builder.sequence(&[separator, call]);
    let more = builder.repeat(next, 0, MAX_CALLS - 1);
    Ok(builder.sequence(&[open, call, more, close]))
}

/// Returns the node of a tool's arguments. Where the model may also answer, a schema that is not supported permits any
/// object, as in a response of free form.
fn arguments_node(builder: &mut GrammarBuilder, tool: &CallableTool, forced: bool) -> Result<NodeId> {
    if tool.parameters.get("type").and_then(Value::as_str) != Some("object") {
        return Ok(SchemaCompiler::any_object(builder));
    }
    match SchemaCompiler::new(builder, &tool.parameters).compile() {
        Err(_) if !forced => Ok(SchemaCompiler::any_object(builder)),
        compiled => compiled,
    }
}
