//! From a workflow file to a checked plan: YAML → tree with spans → expanded → checked → [`plan::Plan`].
//!
//! Why so: every mistake that can be known from the file, the site and the catalogue is reported at once, with its place and the
//! fix, before anything runs. [`compile::compile`] is the only way in. Refuses: I/O of its own (files come through
//! [`files::Files`]), knowledge of stage code (kinds come through `trainyard_core::StageKinds`), the clock.
//!
//! | module | what |
//! |---|---|
//! | [`yaml`], [`tree`] | text → our own tree, a span on every node |
//! | [`diagnostic`] | what is wrong, where, and what to do |
//! | [`expression`], [`template`] | `${{ … }}` |
//! | [`workflow`], [`recipe`] | the typed raw file |
//! | [`expand`] | params, matrix, `for_each`, embedded workflows |
//! | [`check`] | ports, options, cycles, evaluation sets, resources |
//! | [`plan`] | the result |
//! | [`site`], [`schedule`], [`schema`], [`draw`] | the site file, schedules, the editor's JSON Schema, a drawing |

pub mod check;
pub mod compile;
pub mod diagnostic;
pub mod draw;
pub mod expand;
pub mod expression;
pub mod files;
pub mod options;
pub mod plan;
pub mod read;
pub mod recipe;
pub mod run_stage;
pub mod schedule;
pub mod schema;
pub mod site;
pub mod template;
pub mod tree;
pub mod workflow;
pub mod yaml;

pub use compile::{Compiled, Request, compile};
pub use diagnostic::{Diagnostic, Severity, Sources, Span};
pub use expression::{Expression, Scope};
pub use files::{DiskFiles, Files};
pub use plan::Plan;
pub use recipe::Recipe;
pub use schedule::Schedule;
pub use site::{Pool, Site};
pub use template::Template;
