//! Determines how a template handles assistant turns and tool results, by rendering small conversations.

use super::chat_template::ChatTemplate;
use super::message::CallStyle;
use super::options::RenderOptions;
use trainyard_core::Result;
use trainyard_tables::Message;

/// Texts that occur in no template.
const ANSWER: &str = "Qz7kq";
const RESULT: &str = "Rw8vw";
const TOOL: &str = "pj5xh";

/// A template's handling of calls and their results.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolSupport {
    /// Form of calls.
    pub style: CallStyle,
    /// Whether the template writes calls that are not part of a content.
    pub writes_calls: bool,
    /// Reason why the template cannot show tool results; `None` if it can.
    pub lost: Option<String>,
}

/// Returns the template's text after an assistant's content, or `None` if it drops the content.
pub fn closing(template: &ChatTemplate, options: &RenderOptions) -> Result<Option<String>> {
    let messages = [Message::new("user", "x"), Message::new("assistant", ANSWER)];
    let text = template.render(&messages, false, options)?;
    Ok(text.rsplit_once(ANSWER).map(|(_, closing)| closing.to_string()))
}

/// Finds the first form of calls with which a template shows the call and its result: in the agent's text, else
/// separate. The form of separate calls is found in any case, for conversations that contain them.
pub fn tool_support(template: &ChatTemplate, options: &RenderOptions) -> ToolSupport {
    let inside = shows_result(template, options, CallStyle::default());
    let forms = [(false, false), (true, false), (false, true), (true, true)];
    let forms = forms.map(|(null_content, text_arguments)| CallStyle { separate: true, null_content, text_arguments });
    let separate = forms.into_iter().find(|style| matches!(shows_result(template, options, *style), Ok(true)));
    let lost = match &inside {
        Ok(true) => None,
        _ if separate.is_some() => None,
        Ok(false) => Some("its text lacks the result of a call".to_string()),
        Err(e) => Some(e.message.clone()),
    };
    let style =
        CallStyle { separate: !matches!(inside, Ok(true)) && separate.is_some(), ..separate.unwrap_or_default() };
    ToolSupport { style, writes_calls: separate.is_some(), lost }
}

/// Returns whether a template shows the tools that are passed to it.
pub fn describes_tools(template: &ChatTemplate, options: &RenderOptions) -> bool {
    let tool = format!(
        r#"[{{"type": "function", "function": {{"name": "{TOOL}", "description": "d",
            "parameters": {{"type": "object", "properties": {{}}}}}}}}]"#
    );
    let options = RenderOptions { tools: Some(tool), ..options.clone() };
    template.render(&[Message::new("user", "x")], true, &options).is_ok_and(|text| text.contains(TOOL))
}

fn shows_result(template: &ChatTemplate, options: &RenderOptions, calls: CallStyle) -> Result<bool> {
    let call = Message {
        tool_calls: Some(format!(r#"[{{"name": "{TOOL}", "arguments": {{"a": "b"}}}}]"#)),
        ..Message::new("assistant", if calls.separate { "" } else { ANSWER })
    };
    let messages = [Message::new("user", "x"), call, Message::new("tool", RESULT)];
    let text = template.render(&messages, true, &RenderOptions { calls, ..options.clone() })?;
    let expected = if calls.separate { TOOL } else { ANSWER };
    Ok(text.contains(RESULT) && text.contains(expected))
}
