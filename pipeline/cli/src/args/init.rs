//! The grammar of `init`.

use super::Format;
use clap::{Args, ValueEnum};
use std::path::PathBuf;

#[derive(Debug, Clone, Args)]
pub struct InitArgs {
    /// Folder to write into.
    #[arg(default_value = ".")]
    pub folder: PathBuf,
    /// Start from this recipe; `trainyard recipes` lists them.
    #[arg(long, value_name = "NAME")]
    pub recipe: Option<String>,
    /// Write what `trainyard serve` is installed with instead: a systemd unit and a Containerfile.
    #[arg(long, conflicts_with = "recipe")]
    pub serve: bool,
    /// Write `trainyard_bridge.py` instead, with which Python functions become rewards, filter rules and verifiers, and
    /// `trainyard_serve.py`, with which they are served over HTTP.
    #[arg(long, conflicts_with_all = ["recipe", "serve"])]
    pub python: bool,
    /// Write an adapter beside it, a program that makes what you have an environment: `gymnasium`, `openenv`,
    /// `textworld` or `verifiers`. May be repeated.
    #[arg(long = "with", value_name = "PACKAGE", requires = "python", value_enum)]
    pub adapters: Vec<Adapter>,
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
}

/// A package whose environments an adapter brings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Adapter {
    Gymnasium,
    #[value(name = "openenv")]
    OpenEnv,
    #[value(name = "textworld")]
    TextWorld,
    Verifiers,
}
