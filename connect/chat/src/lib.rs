//! Client for language models at endpoints of OpenAI's chat completions, for stages that require a model's text.
//!
//! A stage opens its [`Models`] once; a part that uses a model opens a [`Chat`] there by its [`ChatOptions`]. Every
//! answer is stored as soon as it arrives, by the content of its request, so a crash loses none and an equal request is
//! not paid again (`docs/design/0033-endpoints.md`).
mod answer;
mod budget;
mod chat;
mod line;
mod models;
mod options;
mod pace;
mod question;
mod record;
mod table;
mod tally;
#[cfg(test)]
mod tests;

pub use answer::{Answer, Call, Finish};
pub use chat::{Chat, Ticket};
pub use line::{Line, Promise, Reply};
pub use models::Models;
pub use options::{ChatOptions, Price, Structure};
pub use question::{Form, Question, Said};
pub use tally::{Tally, metrics};
