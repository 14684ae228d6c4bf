//! The grammar of `init`.

use super::Format;
use clap::Args;
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
    /// Write `trainyard_bridge.py` instead, with which Python functions become rewards, filter rules and verifiers.
    #[arg(long, conflicts_with_all = ["recipe", "serve"])]
    pub python: bool,
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
}
