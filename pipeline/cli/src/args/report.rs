//! Defines the arguments of `trainyard report`.

use super::SiteArgs;
use crate::complete;
use clap::Args;
use clap_complete::engine::ArgValueCompleter;
use std::path::PathBuf;

#[derive(Debug, Clone, Args)]
pub struct ReportArgs {
    /// Run id, a unique prefix of it, a tag, `latest`, or `latest-success`.
    #[arg(add = ArgValueCompleter::new(complete::runs))]
    pub run: String,
    /// Folder of the written pages, empty or absent.
    #[arg(id = "folder", long = "site", value_name = "DIR")]
    pub folder: PathBuf,
    /// Maximum number of rollouts of an artifact, evenly spread over its rows.
    #[arg(long, value_name = "N", default_value_t = 500)]
    pub rollouts: usize,
    /// Store: a folder, `s3://bucket/prefix`, `az://container/prefix` or `gs://bucket/prefix`. Overrides the site file.
    #[arg(id = "run_store", long = "store", value_name = "URL")]
    pub store: Option<String>,
    /// Options before the command: `trainyard --site FILE report RUN --site DIR` names a site file.
    #[arg(skip)]
    pub leading: SiteArgs,
}

impl ReportArgs {
    /// Returns the store and the site file.
    pub fn site(&self) -> SiteArgs {
        SiteArgs { store: self.store.clone().or_else(|| self.leading.store.clone()), site: self.leading.site.clone() }
    }
}
