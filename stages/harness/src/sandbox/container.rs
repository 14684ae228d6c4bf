//! Builds the command line of a container, which Podman and Docker share.

use super::SandboxedCommand;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use trainyard_core::OptionProblem;

/// Place of the program's folder in the container.
const FOLDER: &str = "/program";
/// Label of all containers of episodes: `docker ps --filter label=trainyard`.
const LABEL: &str = "trainyard=harness";

/// A container that exists as long as its episode.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(inline)]
pub struct ContainerOptions {
    /// Image with the interpreter and the packages of the program: `python:3.12-slim`, or one of a registry.
    pub image: String,
    /// Network of the container as `--network` takes it; empty = the default of the container program. With `host`, the
    /// program reaches a server on 127.0.0.1.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub network: String,
    /// User in the container as `--user` takes it. Empty = with Docker, the user of the stage; with Podman, that of the
    /// image.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub user: String,
    /// Let the program write into its working folder, which is read-only otherwise.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub writable: bool,
    /// Further arguments of `run`, before the image: `[--memory=2g, --cap-drop=ALL]`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<String>,
}

/// Program that runs containers.
pub struct ContainerProgram {
    pub name: &'static str,
    /// Arguments that make the name of the stage's machine known in the container.
    pub host_args: &'static [&'static str],
    /// User of the container if the options name none; `None` for that of the image.
    pub user: Option<String>,
}

impl ContainerOptions {
    /// Returns all problems; pointers are relative to the options.
    pub fn problems(&self) -> Vec<OptionProblem> {
        let mut problems = Vec::new();
        if self.image.is_empty() || self.image.starts_with('-') || self.image.contains(char::is_whitespace) {
            let message = format!("`{}` is not the name of an image", self.image);
            problems.push(OptionProblem::new("/image", message).help("write for example `image: python:3.12-slim`"));
        }
        if self.network == "none" {
            let message = "without a network, the program does not reach the model";
            let help = "leave it out, write `host`, or name a network without access to others";
            problems.push(OptionProblem::new("/network", message).help(help));
        }
        problems
    }
    /// Returns whether the container has its own loopback address.
    pub fn has_own_loopback(&self) -> bool {
        self.network != "host"
    }
    /// Returns the program's folder in the container.
    pub fn folder() -> PathBuf {
        PathBuf::from(FOLDER)
    }
    /// Returns the command line that runs `command` in a new container, and the one that removes the container. Values
    /// of variables are passed by their names only, so that no list of processes shows them.
    pub fn wrap(
        &self,
        program: &ContainerProgram,
        command: &[String],
        folder: &Path,
        variables: &[&str],
    ) -> SandboxedCommand {
        // The name of the folder is unique on this machine.
        let name = folder.file_name().and_then(OsStr::to_str).unwrap_or("trainyard").to_string();
        let access = if self.writable { "" } else { ":ro" };
        let volume = format!("{}:{FOLDER}{access}", folder.display());
        let run = ["run", "--rm", "--name", &name, "--label", LABEL, "--volume", &volume, "--workdir", FOLDER];
        let mut words: Vec<String> = [program.name].iter().chain(&run).map(ToString::to_string).collect();
        let user = Some(self.user.clone()).filter(|user| !user.is_empty()).or_else(|| program.user.clone());
        if let Some(user) = user {
            // A user whom the image does not know has no home.
            words.extend(["--user".to_string(), user, "--env".to_string(), "HOME=/tmp".to_string()]);
        }
        if !self.network.is_empty() {
            words.extend(["--network".to_string(), self.network.clone()]);
        }
        if self.has_own_loopback() {
            words.extend(program.host_args.iter().map(ToString::to_string));
        }
        words.extend(variables.iter().flat_map(|name| ["--env".to_string(), (*name).to_string()]));
        words.extend(self.args.iter().cloned());
        words.push(self.image.clone());
        words.extend(command.iter().map(|word| inside(word, folder)));
        let stop = [program.name, "rm", "--force", &name].map(String::from).to_vec();
        SandboxedCommand { command: words, stop }
    }
}

/// Returns a word of the command in which a path in the folder is that in the container.
fn inside(word: &str, folder: &Path) -> String {
    match Path::new(word).strip_prefix(folder) {
        Ok(rest) => Path::new(FOLDER).join(rest).display().to_string(),
        Err(_) => word.to_string(),
    }
}
