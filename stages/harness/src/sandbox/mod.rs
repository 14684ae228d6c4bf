//! Runs the program of an episode in a sandbox: by a custom command, or in a container.
//!
//! A kind is one file with its options and its [`Sandbox`], one variant of [`SandboxOptions`] and one line in each list
//! of the kinds.
mod command;
mod container;
mod docker;
mod podman;

pub use command::CommandSandbox;
pub use docker::DockerSandbox;
pub use podman::PodmanSandbox;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::borrow::Cow;
use std::path::{Path, PathBuf};
use trainyard_core::OptionProblem;

/// Command line of a program in a sandbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SandboxedCommand {
    pub command: Vec<String>,
    /// Command that ends what a killed program leaves; may be empty.
    pub stop: Vec<String>,
}

/// A kind of sandbox.
pub trait Sandbox {
    /// Returns all problems; pointers are relative to the options.
    fn problems(&self) -> Vec<OptionProblem>;
    /// Returns the name of the machine of the stage in the sandbox, if `127.0.0.1` is not that machine there.
    fn host(&self) -> Option<&'static str> {
        None
    }
    /// Returns the place of the program's folder in the sandbox.
    fn folder(&self, folder: &Path) -> PathBuf {
        folder.to_path_buf()
    }
    /// Returns the names of further variables that the command of the sandbox needs.
    fn client_variables(&self) -> &'static [&'static str] {
        &[]
    }
    /// Returns the command line that runs `command` in the sandbox. `folder` is the program's folder outside of the
    /// sandbox, and `variables` are the names of variables that the program must get.
    fn wrap(&self, command: &[String], folder: &Path, variables: &[&str]) -> SandboxedCommand;
}

/// Sandbox in which programs run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum SandboxOptions {
    /// Command before the program's own.
    Command(CommandSandbox),
    /// Container of Podman.
    Podman(PodmanSandbox),
    /// Container of Docker.
    Docker(DockerSandbox),
}

impl SandboxOptions {
    /// Returns the sandbox of the kind.
    pub fn sandbox(&self) -> &dyn Sandbox {
        match self {
            Self::Command(sandbox) => sandbox,
            Self::Podman(sandbox) => sandbox,
            Self::Docker(sandbox) => sandbox,
        }
    }
    fn branches(generator: &mut SchemaGenerator) -> Vec<Value> {
        vec![
            branch::<CommandSandbox>("command", generator),
            branch::<PodmanSandbox>("podman", generator),
            branch::<DockerSandbox>("docker", generator),
        ]
    }
}

impl JsonSchema for SandboxOptions {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> Cow<'static, str> {
        "SandboxOptions".into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({ "oneOf": Self::branches(generator) })
    }
}

fn branch<S: JsonSchema>(kind: &str, generator: &mut SchemaGenerator) -> Value {
    let mut schema = S::json_schema(generator).to_value();
    schema["properties"]["kind"] = json!({ "const": kind });
    let required = schema["required"].as_array().cloned().unwrap_or_default();
    schema["required"] = required.into_iter().chain([json!("kind")]).collect();
    schema["title"] = json!(kind);
    schema
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(options: Value) -> Result<SandboxOptions, serde_json::Error> {
        serde_json::from_value(options)
    }

    #[test]
    fn kinds_are_read_and_checked() {
        let places = |options: Value| -> Vec<String> {
            read(options).unwrap().sandbox().problems().into_iter().map(|problem| problem.pointer).collect()
        };
        assert!(places(json!({"kind": "command", "prefix": ["bwrap", "--ro-bind", "/", "/"]})).is_empty());
        assert_eq!(places(json!({"kind": "command", "prefix": []})), ["/prefix"]);
        for kind in ["podman", "docker"] {
            assert!(places(json!({"kind": kind, "image": "python:3.12-slim"})).is_empty());
            assert_eq!(places(json!({"kind": kind, "image": "", "network": "none"})), ["/image", "/network"]);
            assert_eq!(places(json!({"kind": kind, "image": "--privileged"})), ["/image"]);
        }
        for wrong in [
            json!({"kind": "chroot"}),
            json!({"prefix": ["bwrap"]}),
            json!({"kind": "docker", "image": "a", "imag": "b"}),
            json!({"kind": "command", "image": "a"}),
        ] {
            assert!(read(wrong.clone()).is_err(), "{wrong}");
        }
    }

    #[test]
    fn schema_has_a_branch_for_each_kind() {
        let schema = SandboxOptions::json_schema(&mut SchemaGenerator::default()).to_value();
        let kinds = ["/oneOf/0", "/oneOf/1", "/oneOf/2"].map(|at| schema.pointer(at).unwrap());
        assert_eq!(
            kinds.map(|kind| kind["properties"]["kind"]["const"].as_str()),
            [Some("command"), Some("podman"), Some("docker"),]
        );
        assert!(kinds[2]["properties"]["image"].is_object(), "{schema}");
    }
}
