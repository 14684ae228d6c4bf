//! Encodes the prompt of a whole conversation, in the form in which servers receive it.

use super::chat_encoder::ChatEncoder;
use serde_json::Value;
use std::collections::BTreeMap;
use trainyard_core::Result;
use trainyard_tables::Message;

impl ChatEncoder {
    /// Returns text and tokens of a conversation up to the start of the next turn, with `tools` (JSON text of a list of
    /// schemas) and further variables for the template. Markup in messages of users and tools is ordinary text.
    ///
    /// Errors: data, for a message that the tokenizer cannot express or the template rejects, and for calls that the
    /// template does not write; invalid, for results of tools that the template loses.
    pub fn prompt(
        &self,
        messages: &[Message],
        tools: Option<&str>,
        variables: &BTreeMap<String, Value>,
    ) -> Result<(String, Vec<u32>)> {
        for (i, message) in messages.iter().enumerate() {
            let checked = match message.role.as_str() {
                "tool" => self.expect_tools(),
                "assistant" => self.expect_calls(message),
                _ => Ok(()),
            };
            checked.map_err(|e| e.at(format!("message {i}")))?;
        }
        let text = self.render_prompt(messages, tools, variables)?;
        let render = |messages: &[Message]| self.render_prompt(messages, tools, variables);
        let ids = self.encode_external(&text, "", messages, 0, render)?;
        Ok((text, ids))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::conformance::model;
    use crate::template::{ChatTemplate, TokenizedConversation};
    use serde_json::json;

    #[test]
    fn prompt_equals_the_incremental_conversation() {
        let chat = model().chat;
        let messages = [Message::new("user", "12"), Message::new("assistant", "3"), Message::new("user", "4")];
        let (text, ids) = chat.prompt(&messages, None, &BTreeMap::new()).unwrap();
        let mut conversation = TokenizedConversation::new(&chat, None);
        conversation.extend(&messages).unwrap();
        conversation.open_turn().unwrap();
        assert_eq!(ids, conversation.context());
        assert_eq!(chat.tokenizer().encode(&text).unwrap(), ids);
        assert!(chat.prompt(&[Message::new("user", "\u{2603}")], None, &BTreeMap::new()).is_err());
    }

    #[test]
    fn markup_of_users_is_text_and_variables_reach_the_template() {
        let chat = model().chat;
        let end = chat.tokenizer().token(chat.end_token()).unwrap();
        let ends = |text: &str| {
            let (_, ids) = chat.prompt(&[Message::new("user", text)], None, &BTreeMap::new()).unwrap();
            ids.into_iter().filter(|id| *id == chat.end_token()).count()
        };
        assert_eq!(ends(&end), ends("1"), "the marker is text");
        let source = "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}<|end|>{% endfor %}\
            {% if add_generation_prompt %}<|assistant|>{{ extra or '' }}{% endif %}";
        let chat = ChatEncoder::new(chat.tokenizer().clone(), ChatTemplate::new(source).unwrap()).unwrap();
        let variables = BTreeMap::from([("extra".to_string(), json!("77"))]);
        let messages = [Message::new("user", "1")];
        let of = |variables: &BTreeMap<String, Value>| chat.prompt(&messages, None, variables).unwrap().0;
        assert_eq!(of(&variables), of(&BTreeMap::new()) + "77");
    }
}
