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
        if !program.supports_forms {
            return Err(form.error(
                Error::invalid("the backend that samples does not give turns a form")
                    .help("use the backend `cpu` or `candle`"),
            ));
        }
        constraint(program.chat, form, None).map(drop)
    }
    /// Returns the constraint of the open turn; `None` if the program leaves its form free.
    pub(super) fn turn_constraint(&self) -> Result<Option<Box<dyn TokenConstraint>>> {
        let Some(program) = &self.program else { return Ok(None) };
        let Some(form) = &program.form else { return Ok(None) };
        let thought = opened_thought(&program.prompt_end(&self.request_tokens())?);
        constraint(program.chat, form, thought).map(Some).map_err(|refusal| refusal.error)
    }
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
