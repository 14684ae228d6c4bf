//! Compiles a workflow file to a checked plan: YAML → tree with spans → expanded → checked → [`plan::Plan`].
//!
//! [`compile::compile`] is the entry point. It reports all mistakes that can be known from the file, the site and the
//! catalogue at once, each with its position and the fix. The crate does no I/O itself (files come through
//! [`files::FileSystem`]), contains no stage code (kinds come through `trainyard_core::StageKinds`) and reads no clock.
//!
//! | module | content |
//! |---|---|
//! | [`yaml`], [`tree`] | text → tree with a span on every node |
//! | [`diagnostic`], [`vocabulary`] | mistakes, their positions and fixes; names used by other tools |
//! | [`expression`], [`template`] | `${{ … }}` |
//! | [`extends`], [`merge`] | a file over its parents |
//! | [`workflow`], [`recipe`] | the typed raw file |
//! | [`expand`] | params, matrix, `for_each`, embedded workflows |
//! | [`check`] | ports, options, cycles, evaluation sets, resources |
//! | [`plan`], [`declaration`] | the result, and what it takes |
//! | [`merged`], [`mod@print`] | a file with its parents as YAML again |
//! | [`site`], [`schedule`], [`schema`], [`draw`] | the site file, schedules, the editor's JSON Schema, a drawing |

pub mod check;
pub mod compile;
pub mod declaration;
pub mod diagnostic;
pub mod draw;
pub mod expand;
pub mod expression;
pub mod extends;
pub mod files;
mod identity;
pub mod merge;
pub mod merged;
mod names;
pub mod options;
pub mod plan;
pub mod print;
pub mod read;
pub mod recipe;
mod reported;
pub mod run_stage;
pub mod schedule;
pub mod schema;
pub mod site;
pub mod template;
pub mod tree;
pub mod vocabulary;
pub mod workflow;
pub mod yaml;

pub use compile::{Compilation, CompileRequest, compile};
pub use declaration::ParamDeclaration;
pub use diagnostic::{Diagnostic, Severity, Sources, Span};
pub use expression::{Expression, Scope};
pub use files::{FileSystem, LocalFileSystem, SourceForm};
pub use plan::Plan;
pub use recipe::RecipeHeader;
pub use schedule::Schedule;
pub use site::{Site, SitePool};
pub use template::Template;
