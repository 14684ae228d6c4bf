//! Reads the environment variables that Trainyard shares with Hugging Face's programs.

use std::path::{Path, PathBuf};

/// Endpoint, credentials and cache of the hub.
#[derive(Clone)]
pub struct HubSettings {
    /// `HF_ENDPOINT`; `https://huggingface.co` unless set.
    pub endpoint: String,
    /// `HF_TOKEN`, for data sets that are not public.
    pub token: Option<String>,
    /// `HF_HUB_CACHE`, else `hub` in `HF_HOME`, else `.cache/huggingface/hub` in the home.
    pub cache: PathBuf,
    /// `HF_HUB_OFFLINE`: no requests are sent.
    pub offline: bool,
}

impl HubSettings {
    /// Reads variables by a function; empty ones count as not set.
    pub fn read(variable: impl Fn(&str) -> Option<String>) -> Self {
        let set = |name: &str| variable(name).filter(|value| !value.is_empty());
        let base = set("XDG_CACHE_HOME").map(PathBuf::from).or_else(|| Some(Path::new(&set("HOME")?).join(".cache")));
        let home = set("HF_HOME").map_or_else(|| base.unwrap_or_default().join("huggingface"), PathBuf::from);
        let yes = |value: String| ["1", "on", "true", "yes"].contains(&value.to_lowercase().as_str());
        Self {
            endpoint: set("HF_ENDPOINT").map_or_else(
                || "https://huggingface.co".to_string(),
                |endpoint| endpoint.trim_end_matches('/').to_string(),
            ),
            token: set("HF_TOKEN"),
            cache: set("HF_HUB_CACHE").map_or_else(|| home.join("hub"), PathBuf::from),
            offline: set("HF_HUB_OFFLINE").is_some_and(yes),
        }
    }
    /// Reads the variables of this process.
    pub fn from_env() -> Self {
        Self::read(|name| std::env::var(name).ok())
    }
}
