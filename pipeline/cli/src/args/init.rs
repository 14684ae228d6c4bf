//! Defines the arguments of `trainyard init`.

use super::OutputFormat;
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
    /// Write the files that install `trainyard serve` instead: a systemd unit and a Containerfile.
    #[arg(long, conflicts_with = "recipe")]
    pub serve: bool,
    /// Write the bridge for Python instead: `trainyard_bridge.py` turns Python functions into rewards, filter rules and
    /// verifiers, and `trainyard_serve.py` serves them over HTTP.
    #[arg(long, conflicts_with_all = ["recipe", "serve"])]
    pub python: bool,
    /// Also write an adapter, a program that turns environments of a package into Trainyard environments: `gymnasium`,
    /// `openenv`, `textworld` or `verifiers`. May be repeated.
    #[arg(long = "with", value_name = "PACKAGE", requires = "python", value_enum)]
    pub adapters: Vec<AdapterPackage>,
    /// Output format.
    #[arg(long, value_enum, default_value_t)]
    pub format: OutputFormat,
}

/// Package whose environments an adapter provides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum AdapterPackage {
    Gymnasium,
    #[value(name = "openenv")]
    OpenEnv,
    #[value(name = "textworld")]
    TextWorld,
    Verifiers,
}
