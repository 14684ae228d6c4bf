//! State shared by all requests.

use super::kept::Kept;
use super::settings::Settings;
use crate::asked::Form;
use crate::desk::Desk;
use crate::forms::Stamp;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// State shared by all requests.
pub struct App {
    pub desk: Arc<dyn Desk>,
    pub settings: Settings,
    pub kept: Kept,
    answers: AtomicU64,
}

impl App {
    pub fn new(desk: Arc<dyn Desk>, settings: Settings) -> Self {
        let kept = Kept::new(settings.kept);
        Self { desk, settings, kept, answers: AtomicU64::new(0) }
    }
    /// Returns the identity of the next answer.
    pub fn stamp(&self, form: Form) -> Stamp {
        let number = self.answers.fetch_add(1, Ordering::Relaxed);
        let mut draws = self.settings.chance.at("answer", &[number]);
        let prefix = match form {
            Form::Chat => "chatcmpl-",
            Form::Completions => "cmpl-",
            Form::Responses => "resp_",
            Form::Messages => "msg_",
        };
        let id = format!("{prefix}{:016x}{:08x}", draws.next_u64(), draws.next_u32());
        Stamp { id, created: self.settings.clock.unix_millis() / 1000 }
    }
}
