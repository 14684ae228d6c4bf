//! Defines the options of pages and of `trainyard pages`.

use super::SiteArgs;
use clap::Args;
use std::net::{Ipv4Addr, SocketAddr};

/// Options of the page server.
#[derive(Debug, Clone, Args)]
pub struct PagesArgs {
    /// Address and port of the pages. If the port is taken, the next free one.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:7878")]
    pub pages_bind: SocketAddr,
    /// Address that the browser shows, if a proxy is before the pages, such as JupyterHub.
    #[arg(long, value_name = "URL")]
    pub public_url: Option<String>,
}

impl Default for PagesArgs {
    fn default() -> Self {
        Self { pages_bind: SocketAddr::from((Ipv4Addr::LOCALHOST, 7878)), public_url: None }
    }
}

/// Options of `trainyard pages`.
#[derive(Debug, Clone, Args)]
pub struct ServePagesArgs {
    #[command(flatten)]
    pub site: SiteArgs,
    #[command(flatten)]
    pub pages: PagesArgs,
}
