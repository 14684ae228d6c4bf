//! Defines the arguments of `trainyard recipes`.

use super::{OutputFormat, SiteArgs};
use crate::complete;
use clap::{Args, Subcommand};
use clap_complete::engine::ArgValueCompleter;
use std::path::PathBuf;

#[derive(Debug, Clone, Args)]
pub struct RecipesArgs {
    #[command(subcommand)]
    pub command: Option<RecipesCommand>,
    /// Folder of custom recipe files, including subfolders; default: the recipes of this build.
    #[arg(long, value_name = "FOLDER", global = true)]
    pub folder: Option<PathBuf>,
    /// Write a Markdown index of all systems, with their effects in this store, and a page for each system into a
    /// folder of the same name without the extension.
    #[arg(long, value_name = "FILE")]
    pub write: Option<PathBuf>,
    /// Parameter of every recipe, `name=value` or `@file`. May be repeated.
    #[arg(short = 'p', long = "param", value_name = "NAME=VALUE|@FILE", global = true)]
    pub params: Vec<String>,
    #[command(flatten)]
    pub site: SiteArgs,
    /// Output format.
    #[arg(long, value_enum, default_value_t, global = true)]
    pub format: OutputFormat,
}

#[derive(Debug, Clone, Subcommand)]
pub enum RecipesCommand {
    /// Run recipes with their mechanism on, then off: on, every check must hold; off, every mechanism check must fail,
    /// every guard must hold, and nothing may be trained again.
    Run {
        /// Recipe names: file names without `.yaml`; default: all recipes.
        #[arg(add = ArgValueCompleter::new(complete::recipes))]
        names: Vec<String>,
        #[command(flatten)]
        seeds: SeedArgs,
    },
    /// Print the file of a recipe.
    Show {
        /// File name of the recipe without `.yaml`.
        #[arg(add = ArgValueCompleter::new(complete::recipes))]
        name: String,
        /// Print the recipe merged with the parents that it `extends`.
        #[arg(long)]
        merged: bool,
    },
}

/// Arguments of pooled seeds.
#[derive(Debug, Clone, Args)]
pub struct SeedArgs {
    /// Judge the claim on several seeds, such as `41..45` (inclusive) or `41,43`; fails unless they confirm the
    /// recipe's declared `result`. Seeds with a result file are not computed again.
    #[arg(long, value_name = "SEEDS")]
    pub seeds: Option<String>,
    /// Number of seeds computed concurrently; with more than one, each stage takes one CPU.
    #[arg(long, value_name = "N", default_value_t = 1, requires = "seeds")]
    pub jobs: usize,
    /// Folder of the result files, `FOLDER/NAME/SEED.json`.
    #[arg(long, value_name = "FOLDER", default_value = "recipe-results", requires = "seeds")]
    pub results: PathBuf,
}
