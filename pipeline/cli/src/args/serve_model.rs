//! The arguments of `serve-model`.

use super::SiteArgs;
use clap::Args;
use std::net::SocketAddr;
use std::path::PathBuf;

#[derive(Debug, Clone, Args)]
pub struct ServeModelArgs {
    /// An artifact such as `latest/rl/model`, or the folder of a model.
    #[arg(value_name = "MODEL")]
    pub model: String,
    #[command(flatten)]
    pub site: SiteArgs,
    /// Address to listen on, with its port; port 0 = any that is free.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8000")]
    pub bind: SocketAddr,
    /// The name that requests give; without one, the artifact's or the folder's.
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// File that holds the key which every request must bring. Without one, only this machine may ask.
    #[arg(long, value_name = "FILE")]
    pub key_file: Option<PathBuf>,
    /// The backend that computes, as stages take it: `cpu`, `candle`, or `{kind: candle, device: cuda}`.
    #[arg(long, value_name = "BACKEND", default_value = "cpu")]
    pub backend: String,
    /// Answers that are sampled together; further requests wait.
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub max_batch: u32,
    /// Requests that may wait; further ones are refused with status 429.
    #[arg(long, value_name = "N", default_value_t = 1024)]
    pub max_waiting: u32,
    /// Threads to decode with; without it, all cores. No answer depends on it.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub threads: Option<u32>,
    /// Format of tool calls, such as `hermes`, in place of that of the model's template: the tools are then described
    /// in the system message. For models that were trained so.
    #[arg(long, value_name = "FORMAT")]
    pub calls: Option<String>,
}
