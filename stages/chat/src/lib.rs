//! Language models behind endpoints that speak OpenAI's chat completions, wherever a stage needs a model for its words.
//!
//! A stage opens its [`Models`] once; a part that asks a model opens a [`Chat`] there by its [`ChatOptions`]. Every
//! answer is kept as soon as it comes, by the content of its request, so a crash loses none and who asks the same again
//! pays nothing (`docs/design/0033-endpoints.md`).
#![warn(missing_docs)]

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
pub mod testing;
#[cfg(test)]
mod tests;

pub use answer::{Answer, Call, Finish};
pub use chat::{Chat, Ticket};
pub use line::{Line, Promise, Reply};
pub use models::Models;
pub use options::{ChatOptions, Price, Structure};
pub use question::{Form, Question, Said};
pub use tally::{Tally, metrics};
