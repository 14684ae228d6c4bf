//! Reads the form that a request gives to its response.

use crate::error::ModelApiError;
use crate::request::{ApiTool, ApiToolChoice, ModelRequest, OutputForm};
use trainyard_tables::{AnswerForm, CallForm, CallSyntax, CallableTool, TurnForm};

impl ModelRequest {
    /// Returns the form that the request gives to its response; `None` leaves it free. `syntax` is that of calls, if
    /// tools are visible.
    pub fn form(&self, syntax: Option<CallSyntax>) -> Option<TurnForm> {
        let forced = self.tool_choice.is_forced();
        if !self.has_form() {
            return None;
        }
        let answer = match &self.output {
            _ if forced => None,
            OutputForm::Schema(schema) => Some(AnswerForm::Schema(schema.clone())),
            OutputForm::JsonObject | OutputForm::Text => Some(AnswerForm::Object),
        };
        Some(TurnForm { calls: syntax.map(|syntax| self.call_form(syntax)), answer })
    }
    /// Returns whether the request gives its response a form.
    pub fn has_form(&self) -> bool {
        self.output != OutputForm::Text || self.tool_choice.is_forced()
    }
    /// Returns the name of the field that gives the response its form.
    pub fn form_field(&self) -> &'static str {
        if self.tool_choice.is_forced() { "tool_choice" } else { "response_format" }
    }
    /// Creates the refusal of a form that needs calls as JSON, where calls have the format `kind`. `help` says what to
    /// do.
    pub fn refuse_call_format(&self, kind: &str, help: &str) -> ModelApiError {
        let message = format!(
            "calls of the format `{kind}` are no JSON, so they cannot be forced or go with a response of a given form; \
             {help}"
        );
        ModelApiError::invalid_field(self.form_field(), message).code("unsupported_parameter")
    }
    fn call_form(&self, syntax: CallSyntax) -> CallForm {
        let named = match &self.tool_choice {
            ApiToolChoice::Named(name) => Some(name),
            ApiToolChoice::Auto | ApiToolChoice::None | ApiToolChoice::Required => None,
        };
        let tools = self.visible_tools().iter().enumerate().filter(|(_, tool)| named.is_none_or(|n| *n == tool.name));
        let callable = |(number, tool): (usize, &ApiTool)| CallableTool {
            name: tool.name.clone(),
            parameters: tool.parameters.clone(),
            number,
        };
        let several = self.parallel_calls && named.is_none();
        CallForm { syntax, tools: tools.map(callable).collect(), several }
    }
}
