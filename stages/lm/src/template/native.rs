//! Detects templates that describe tools and write calls, and the format of the calls.

use super::builtin::BuiltinTemplate;
use super::chat_encoder::ChatEncoder;
use super::options::{TemplateOptions, ToolDescriptions};
use trainyard_core::{Error, Result};

/// Markers in the source of a template that writes calls, and the formats' names.
const SIGNS: [(&str, &str); 3] = [("<function=", "qwen"), ("[TOOL_CALLS]", "mistral"), ("<tool_call>", "hermes")];

/// Returns the format in which a chat template writes calls, by markers in its source, or `None` if the template writes
/// no calls or uses an unknown format.
fn call_format(source: &str) -> Option<&'static str> {
    let has = |text: &str| source.contains(text);
    if !has("tools") || has("<arg_key>") {
        return None;
    }
    let found = SIGNS.into_iter().find(|(sign, _)| has(sign)).map(|(_, format)| format);
    found.or_else(|| (has("\"parameters\": ") && has("ipython")).then_some("llama3"))
}

/// Returns the format of calls in a template. `describing` is the template's source, or `None` if the template does not
/// describe tools. Errors: invalid, if the template has no format.
pub fn native_format(describing: Option<&str>) -> Result<&'static str> {
    let refuse = |what: &str| {
        let message = format!("the chat template {what}, so `template.tools` cannot be `native`");
        Error::invalid(message).help("use `prompt` or `auto`")
    };
    let source = describing.ok_or_else(|| refuse("does not describe tools"))?;
    call_format(source).ok_or_else(|| refuse("writes calls in an unsupported format"))
}

impl ChatEncoder {
    /// Returns the format of a template that describes tools and writes calls, or `None` if texts stay unchanged: for
    /// `prompt`, and for `auto` with a built-in template or one that does not support tools.
    ///
    /// Errors (kind invalid): `native` with a template that does not support it.
    pub fn tool_call_format(&self, tools: ToolDescriptions) -> Result<Option<&'static str>> {
        let found = || native_format(self.describes_tools().then(|| self.template().source()));
        match tools {
            ToolDescriptions::Prompt => Ok(None),
            ToolDescriptions::Auto if BuiltinTemplate::is_builtin_source(self.template().source()) => Ok(None),
            ToolDescriptions::Auto => Ok(found().ok()),
            ToolDescriptions::Native => found().map(Some),
        }
    }
    /// Returns the encoder with a stage's options. Errors (kind invalid): `tools: native` with a template that does not
    /// support it.
    pub fn with_template_options(self, options: &TemplateOptions) -> Result<Self> {
        let chat = self.with_options(options);
        let native = chat.tool_call_format(options.tools)?.is_some();
        Ok(chat.with_native_calls(native))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::template::ChatTemplate;

    #[test]
    fn call_format_is_detected_from_the_template() {
        let source = |sign: &str| call_format(&format!("{{% if tools %}}{sign}{{% endif %}}"));
        assert_eq!(source("<tool_call>"), Some("hermes"));
        assert_eq!(source("<tool_call>\n<function="), Some("qwen"));
        assert_eq!(source("[TOOL_CALLS]"), Some("mistral"));
        assert_eq!(source("ipython {\"parameters\": "), Some("llama3"));
        assert_eq!((source("<tool_call>{name}<arg_key>"), source("")), (None, None));
        assert_eq!(call_format("<tool_call>"), None);
    }

    fn chat(source: &str) -> ChatEncoder {
        let tokenizer = crate::backend::conformance::model().chat.tokenizer().clone();
        ChatEncoder::new(tokenizer, ChatTemplate::new(source).unwrap()).unwrap()
    }

    const MESSAGES: &str = "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}{% for c in m.tool_calls or [] %}\
        [TOOL_CALLS][{{ c.function | tojson }}]{% endfor %}<|end|>{% endfor %}\
        {% if add_generation_prompt %}<|assistant|>{% endif %}";

    #[test]
    fn custom_template_is_native_if_supported() {
        let own = chat(&format!("{{{{ tools | tojson if tools else '' }}}}{MESSAGES}"));
        assert_eq!(own.tool_call_format(ToolDescriptions::Auto).unwrap(), Some("mistral"));
        assert_eq!(own.tool_call_format(ToolDescriptions::Native).unwrap(), Some("mistral"));
        assert_eq!(own.tool_call_format(ToolDescriptions::Prompt).unwrap(), None);
        let silent = chat(MESSAGES);
        assert_eq!(silent.tool_call_format(ToolDescriptions::Auto).unwrap(), None);
        let error = silent.tool_call_format(ToolDescriptions::Native).unwrap_err();
        assert!(error.message.contains("does not describe tools"), "{error}");
        let built_in = chat(BuiltinTemplate::Chatml.source().replace("im_end", "end").as_str());
        let changed = built_in.tool_call_format(ToolDescriptions::Auto).unwrap();
        assert_eq!(changed, Some("hermes"), "a changed one is no built-in");
        assert_eq!(chat(BuiltinTemplate::Compact.source()).tool_call_format(ToolDescriptions::Auto).unwrap(), None);
    }
}
