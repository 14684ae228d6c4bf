//! Defines the options that select the store and the site file. They are accepted after a command, and before it.

use super::{Cli, CliCommand};
use clap::error::ErrorKind;
use clap::{Args, CommandFactory as _};
use std::path::PathBuf;

/// Options that select the store and the site file.
#[derive(Debug, Clone, Default, Args)]
pub struct SiteArgs {
    /// Store: a folder, `s3://bucket/prefix`, `az://container/prefix` or `gs://bucket/prefix`. Overrides the site file.
    #[arg(long, value_name = "URL", global = true)]
    pub store: Option<String>,
    /// Site file; default: `trainyard.yaml` in the working directory or its nearest parent that has one.
    #[arg(long, value_name = "FILE", global = true)]
    pub site: Option<PathBuf>,
}

/// The same options before a command that has them.
#[derive(Debug, Clone, Default, Args)]
pub struct LeadingSiteArgs {
    /// Store of the command, as after the command.
    #[arg(long, value_name = "URL")]
    pub store: Option<String>,
    /// Site file of the command, as after the command.
    #[arg(long, value_name = "FILE")]
    pub site: Option<PathBuf>,
}

impl Cli {
    /// Moves the options before the command into the command, where its own options precede. Errors: the command has no
    /// such options.
    pub fn settled(mut self) -> Result<Self, clap::Error> {
        let LeadingSiteArgs { store, site } = std::mem::take(&mut self.site);
        let name = if store.is_some() { "--store" } else { "--site" };
        match self.command.site_mut() {
            Some(own) => {
                own.store = own.store.take().or(store);
                own.site = own.site.take().or(site);
            }
            None if store.is_some() || site.is_some() => {
                let message = format!("this command does not use `{name}`");
                return Err(Self::command().error(ErrorKind::ArgumentConflict, message));
            }
            None => {}
        }
        Ok(self)
    }
}

impl CliCommand {
    fn site_mut(&mut self) -> Option<&mut SiteArgs> {
        Some(match self {
            Self::Run(args) => &mut args.site,
            Self::Check(args) => &mut args.site,
            Self::Plan(args) => &mut args.site,
            Self::Try(args) => &mut args.site,
            Self::Runs(args) => &mut args.site,
            Self::Top(args) => &mut args.site,
            Self::Pages(args) => &mut args.site,
            Self::Report(args) => &mut args.leading,
            Self::Logs(args) => &mut args.site,
            Self::Explain(args) => &mut args.site,
            Self::Artifacts(args) => &mut args.site,
            Self::Search(args) => &mut args.site,
            Self::Serve(args) => &mut args.site,
            Self::ServeModel(args) => &mut args.site,
            Self::Schedules(args) => &mut args.site,
            Self::Recipes(args) => &mut args.site,
            Self::Doctor(args) => &mut args.site,
            Self::Conformance(args) => &mut args.site,
            Self::ServeTools(_)
            | Self::Stages(_)
            | Self::Schema(_)
            | Self::Init(_)
            | Self::Parity(_)
            | Self::Completions(_)
            | Self::Attempt(_)
            | Self::QueryWorker
            | Self::ToolWorker { .. } => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser as _;

    fn store(args: &[&str]) -> Result<Option<String>, String> {
        let parsed = Cli::try_parse_from([&["trainyard"], args].concat()).and_then(Cli::settled);
        let mut cli = parsed.map_err(|error| error.to_string())?;
        Ok(cli.command.site_mut().and_then(|site| site.store.clone()))
    }

    #[test]
    fn options_before_a_command_are_those_of_the_command() {
        let is = |text: &str| Ok(Some(text.to_string()));
        assert_eq!(store(&["--store", "x", "runs"]), is("x"));
        assert_eq!(store(&["--store", "x", "runs", "show", "latest"]), is("x"));
        assert_eq!(store(&["runs", "--store", "x", "list"]), is("x"));
        assert_eq!(store(&["--store", "x", "run", "w.yaml", "--store", "y"]), is("y"), "that of the command precedes");
        assert_eq!(store(&["--store", "x", "report", "latest", "--site", "out"]), is("x"));
        assert_eq!(store(&["plan", "w.yaml"]), Ok(None));
        assert!(store(&["--store", "x", "stages"]).unwrap_err().contains("does not use `--store`"));
        Cli::command().debug_assert();
    }
}
