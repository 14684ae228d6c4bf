//! Defines and validates the options of a Ray pool.

use super::resources::{CPU, GPU, MEMORY, RayResources};
use reqwest::Url;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::time::Duration;
use trainyard_core::units::parse_duration;
use trainyard_core::{Error, Result};

/// Options of a pool whose executor is `ray`.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RayOptions {
    /// Address of the cluster's dashboard, which serves the Ray Jobs API: `http://127.0.0.1:8265`.
    pub address: String,
    /// Source of the token of a cluster with authentication: `env:NAME`. The token is sent as a bearer token.
    #[serde(default)]
    pub token: Option<String>,
    /// Custom resources of every attempt, with amounts: `{h100: 1}`. CPUs, GPUs and memory come from the stage.
    #[serde(default)]
    pub resources: BTreeMap<String, f64>,
    /// Ray's runtime environment of the attempts, passed on unchanged: `{working_dir: "s3://bucket/code.zip"}`.
    #[serde(default)]
    pub runtime_env: Map<String, Value>,
    /// Environment variables of the attempts. Visible to all users of the dashboard: no secrets here.
    #[serde(default)]
    pub environment: BTreeMap<String, String>,
    /// Whether an attempt that requests no GPUs sees none (`CUDA_VISIBLE_DEVICES` is empty), instead of all GPUs of its
    /// machine.
    #[serde(default = "default_hide_gpus")]
    pub hide_gpus: bool,
    /// Whether the machines of the cluster see the files of this machine under the same paths. If not, sources are
    /// uploaded to the store.
    #[serde(default)]
    pub shared_filesystem: bool,
    /// Whether the cluster starts machines on demand. If not, an attempt that requests more than any machine has is
    /// refused; otherwise it waits.
    #[serde(default)]
    pub autoscaling: bool,
    /// Poll interval of the jobs.
    #[serde(default = "default_poll")]
    pub poll: String,
}

fn default_hide_gpus() -> bool {
    true
}

fn default_poll() -> String {
    "2s".into()
}

impl RayOptions {
    /// Returns the address without a trailing `/`. Errors: invalid.
    pub(super) fn address(&self) -> Result<String> {
        let invalid = |why: String| {
            Error::invalid(format!("`address: {}` {why}", self.address))
                .help("give the address of the cluster's dashboard, as in `http://127.0.0.1:8265`")
        };
        let url = Url::parse(&self.address).map_err(|e| invalid(format!("is not an address: {e}")))?;
        match url.scheme() {
            "http" | "https" if url.query().is_none() && url.fragment().is_none() => {
                Ok(self.address.trim_end_matches('/').to_string())
            }
            "http" | "https" => Err(invalid("must not have a query or a fragment".into())),
            other => Err(invalid(format!("has the scheme `{other}`; it must be http or https"))),
        }
    }
    /// Returns the variable that holds the token, if there is one. Errors: invalid (a token in the file).
    pub(super) fn token_variable(&self) -> Result<Option<String>> {
        match self.token.as_deref().map(|token| token.strip_prefix("env:")) {
            None => Ok(None),
            Some(Some(name)) if !name.is_empty() => Ok(Some(name.to_string())),
            // Not quoted, since the text may be the token itself.
            Some(_) => Err(Error::invalid("`token` does not name the source of the token")
                .help("put the token into an environment variable and write `token: env:NAME`")),
        }
    }
    /// Returns the resources of every attempt in addition to its CPUs, GPUs and memory. Errors: invalid.
    pub(super) fn custom_resources(&self) -> Result<RayResources> {
        for (name, amount) in &self.resources {
            if [CPU, GPU, MEMORY, "object_store_memory"].contains(&name.as_str()) {
                return Err(Error::invalid(format!("`resources` names {name}, which is not a custom resource"))
                    .help("CPUs, GPUs and memory come from `resources` of the stage"));
            }
            if !amount.is_finite() || *amount <= 0.0 {
                return Err(Error::invalid(format!("`resources` requests {amount} of {name}"))
                    .help("give an amount above 0, or leave it out"));
            }
        }
        Ok(RayResources(self.resources.clone()))
    }
    /// Merges the variables of the runtime environment with those of the pool, which take precedence. Errors: invalid.
    pub(super) fn variables(&self) -> Result<BTreeMap<String, String>> {
        let invalid =
            || Error::invalid("`runtime_env.env_vars` must map names to texts").help("put its values in quotes");
        let mut variables = BTreeMap::new();
        match self.runtime_env.get("env_vars") {
            None | Some(Value::Null) => {}
            Some(Value::Object(map)) => {
                for (name, value) in map {
                    variables.insert(name.clone(), value.as_str().ok_or_else(invalid)?.to_string());
                }
            }
            Some(_) => return Err(invalid()),
        }
        variables.extend(self.environment.clone());
        Ok(variables)
    }
    /// Returns the poll interval. Errors: invalid.
    pub(super) fn interval(&self) -> Result<Duration> {
        let interval = parse_duration(&self.poll).map_err(|e| Error::invalid(format!("`poll`: {e}")))?;
        if interval < Duration::from_millis(100) {
            return Err(Error::invalid(format!("`poll: {}` is too short", self.poll)).help("give at least 100ms"));
        }
        Ok(interval)
    }
}
