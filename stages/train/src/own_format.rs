//! The format in which a model's own chat template writes tool calls.

use trainyard_core::{Error, Result};
use trainyard_envs::formats;
use trainyard_lm::template::{Builtin, Chat, ToolDescriptions};

/// The format of a model whose template is to describe tools and write calls; none if texts are to stay as they are.
///
/// Errors (kind invalid): `native` with a template that cannot.
pub fn own_format(chat: &Chat, tools: ToolDescriptions) -> Result<Option<&'static str>> {
    match tools {
        ToolDescriptions::Prompt => Ok(None),
        ToolDescriptions::Auto if Builtin::wrote(chat.template().source()) => Ok(None),
        ToolDescriptions::Auto => Ok(found(chat).ok()),
        ToolDescriptions::Native => found(chat).map(Some),
    }
}

fn found(chat: &Chat) -> Result<&'static str> {
    let refuse = |what: &str| {
        let message = format!("the chat template {what}, so `template.tools` cannot be `native`");
        Error::invalid(message).help("use `prompt` or `auto`")
    };
    if !chat.describes_tools() {
        return Err(refuse("does not describe tools"));
    }
    formats::of_template(chat.template().source())
        .ok_or_else(|| refuse("writes calls in a format that is not known here"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::tiny_model;
    use trainyard_lm::template::ChatTemplate;

    fn chat(source: &str) -> Chat {
        let tokenizer = tiny_model(16, 1, 1).chat.tokenizer().clone();
        Chat::new(tokenizer, ChatTemplate::new(source).unwrap()).unwrap()
    }

    const MESSAGES: &str = "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}{% for c in m.tool_calls or [] %}\
        [TOOL_CALLS][{{ c.function | tojson }}]{% endfor %}<|end|>{% endfor %}\
        {% if add_generation_prompt %}<|assistant|>{% endif %}";

    #[test]
    fn a_template_of_ones_own_is_native_where_it_can_be() {
        let own = chat(&format!("{{{{ tools | tojson if tools else '' }}}}{MESSAGES}"));
        assert_eq!(own_format(&own, ToolDescriptions::Auto).unwrap(), Some("mistral"));
        assert_eq!(own_format(&own, ToolDescriptions::Native).unwrap(), Some("mistral"));
        assert_eq!(own_format(&own, ToolDescriptions::Prompt).unwrap(), None);
        let silent = chat(MESSAGES);
        assert_eq!(own_format(&silent, ToolDescriptions::Auto).unwrap(), None);
        let error = own_format(&silent, ToolDescriptions::Native).unwrap_err();
        assert!(error.message.contains("does not describe tools"), "{error}");
        let built_in = chat(Builtin::Chatml.source().replace("im_end", "end").as_str());
        assert_eq!(
            own_format(&built_in, ToolDescriptions::Auto).unwrap(),
            Some("hermes"),
            "a changed one is no built-in"
        );
        assert_eq!(own_format(&tiny_model(16, 1, 1).chat, ToolDescriptions::Auto).unwrap(), None);
    }
}
