//! Defines the arguments of `trainyard serve-model`.

use super::SiteArgs;
use crate::complete;
use clap::Args;
use clap_complete::engine::ArgValueCompleter;
use std::net::SocketAddr;
use std::path::PathBuf;

#[derive(Debug, Clone, Args)]
pub struct ServeModelArgs {
    /// An artifact such as `latest/rl/model`, the folder of a model, or a model on the hub: `hf://OWNER/NAME@REVISION`.
    #[arg(value_name = "MODEL", add = ArgValueCompleter::new(complete::models))]
    pub model: String,
    #[command(flatten)]
    pub site: SiteArgs,
    /// Address and port to listen on; port 0 selects a free port.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8000")]
    pub bind: SocketAddr,
    /// Model name that clients send in requests; default: MODEL as given.
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// File with the API key that every request must carry. Without it, only this machine may send requests, with a
    /// random key in a file below `$TRAINYARD_HOME/tokens`.
    #[arg(long, value_name = "FILE")]
    pub key_file: Option<PathBuf>,
    /// Accept requests of this machine without a key, from every user and program on it.
    #[arg(long, conflicts_with = "key_file")]
    pub no_token: bool,
    /// Compute backend, as in stages: `cpu`, `candle`, or `{kind: candle, device: cuda}`.
    #[arg(long, value_name = "BACKEND", default_value = "cpu")]
    pub backend: String,
    /// Maximum number of responses sampled in one batch; further requests wait.
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub max_batch: u32,
    /// Maximum number of waiting requests; further ones are rejected with status 429.
    #[arg(long, value_name = "N", default_value_t = 1024)]
    pub max_waiting: u32,
    /// Number of decoding threads; default: all cores. Responses do not depend on it.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub threads: Option<u32>,
    /// Format of tool calls, such as `hermes`, instead of the one in the model's template: the tools are then described
    /// in the system message. For models trained with such a format.
    #[arg(long, value_name = "FORMAT")]
    pub calls: Option<String>,
}
