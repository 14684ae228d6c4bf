//! Gives turns the form that a program requests.

use super::live_episode::LiveEpisode;
use std::sync::Arc;
use trainyard_core::{Error, Result};
use trainyard_lm::constrain::turn_grammar;
use trainyard_lm::generate::TokenConstraint;
use trainyard_lm::template::ChatEncoder;
use trainyard_tables::turn_form::opened_thought;
use trainyard_tables::{TurnForm, TurnFormError};

impl LiveEpisode<'_> {
    /// Sets whether the sampler can give turns a form.
    pub(super) fn set_supports_forms(&mut self, supports: bool) {
        if let Some(program) = &mut self.program {
            program.supports_forms = supports;
        }
    }
    /// Checks a requested form. Errors: a form that a turn cannot have.
    pub(super) fn check_form(&self, form: Option<&TurnForm>) -> Result<(), TurnFormError> {
        let (Some(program), Some(form)) = (&self.program, form) else { return Ok(()) };
        check(program.chat, program.supports_forms, form)
    }
    /// Returns the constraint of the open turn; `None` if the program leaves its form free.
    pub(super) fn turn_constraint(&self) -> Result<Option<Box<dyn TokenConstraint>>> {
        let Some(program) = &self.program else { return Ok(None) };
        let Some(form) = &program.form else { return Ok(None) };
        let thought = opened_thought(&program.prompt_end(&self.request_tokens())?);
        constraint(program.chat, form, thought).map(Some).map_err(|refusal| refusal.error)
    }
}

fn check(chat: &ChatEncoder, supports_forms: bool, form: &TurnForm) -> Result<(), TurnFormError> {
    if !supports_forms {
        let error = Error::invalid("the backend that samples does not give turns a form");
        return Err(form.error(error.help("use the backend `cpu` or `candle`")));
    }
    constraint(chat, form, None).map(drop)
}

fn constraint(
    chat: &ChatEncoder,
    form: &TurnForm,
    thought: Option<&'static str>,
) -> Result<Box<dyn TokenConstraint>, TurnFormError> {
    let grammar = Arc::new(turn_grammar(form, thought)?);
    let constraint = chat.constraint(grammar, chat.stop_tokens()).map_err(|error| form.error(error))?;
    Ok(Box::new(constraint))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::tiny_model;
    use serde_json::json;
    use trainyard_tables::AnswerForm;

    #[test]
    fn form_is_checked_before_its_turn() {
        let model = tiny_model(16, 1, 1);
        let form = |schema| TurnForm { calls: None, answer: Some(AnswerForm::Schema(schema)) };
        let good = form(json!({"enum": ["yes", "no"]}));
        assert_eq!(check(&model.chat, true, &good), Ok(()));
        let refusal = check(&model.chat, false, &good).unwrap_err();
        assert!(refusal.error.to_string().contains("backend `cpu` or `candle`"), "{}", refusal.error);
        let refusal = check(&model.chat, true, &form(json!({"type": "string", "pattern": "a"}))).unwrap_err();
        assert_eq!(refusal.field, "response_format");
        assert!(refusal.error.message.contains("/pattern"), "{}", refusal.error);
    }

    #[test]
    fn opened_thought_comes_before_the_form() {
        let model = tiny_model(16, 1, 1);
        let tokenizer = model.chat.tokenizer();
        let form = TurnForm { calls: None, answer: Some(AnswerForm::Schema(json!({"enum": ["yes"]}))) };
        let permits = |thought, text: &str| {
            let mut constraint = constraint(&model.chat, &form, thought).unwrap();
            tokenizer.encode_plain(text).unwrap().into_iter().all(|id| {
                let forbidden = constraint.forbidden(tokenizer.vocabulary_size() as u32);
                constraint.advance(id);
                forbidden.is_some_and(|ranges| ranges.iter().all(|ids| !ids.contains(&id)))
            })
        };
        assert!(permits(None, "\"yes\"") && !permits(None, "no"));
        assert!(permits(Some("</think>"), "no doubt</think>\"yes\""));
        assert!(!permits(Some("</think>"), "no doubt</think>no"));
    }
}
