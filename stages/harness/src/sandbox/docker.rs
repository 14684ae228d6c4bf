//! Runs the program in a container of Docker.

use super::container::{ContainerOptions, ContainerProgram};
use super::{Sandbox, SandboxedCommand};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use trainyard_core::OptionProblem;
use trainyard_process::own_user;

/// Name of the stage's machine in a container.
const HOST: &str = "host.docker.internal";

/// A container of Docker.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct DockerSandbox(pub ContainerOptions);

impl Sandbox for DockerSandbox {
    fn problems(&self) -> Vec<OptionProblem> {
        self.0.problems()
    }
    fn host(&self) -> Option<&'static str> {
        self.0.has_own_loopback().then_some(HOST)
    }
    fn folder(&self, _: &Path) -> PathBuf {
        ContainerOptions::folder()
    }
    fn client_variables(&self) -> &'static [&'static str] {
        &["DOCKER_HOST", "DOCKER_CONTEXT", "DOCKER_CONFIG", "DOCKER_CERT_PATH", "DOCKER_TLS_VERIFY", "XDG_RUNTIME_DIR"]
    }
    fn wrap(&self, command: &[String], folder: &Path, variables: &[&str]) -> SandboxedCommand {
        let program = ContainerProgram {
            name: "docker",
            host_args: &["--add-host", "host.docker.internal:host-gateway"],
            // Only the user of the stage reads the folder of the program.
            user: Some(own_user()),
        };
        self.0.wrap(&program, command, folder, variables)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrapped(options: ContainerOptions) -> SandboxedCommand {
        let command = ["/tmp/trainyard-x/run.sh", "a b"].map(String::from);
        DockerSandbox(options).wrap(&command, Path::new("/tmp/trainyard-x"), &["OPENAI_API_KEY"])
    }

    #[test]
    fn container_is_removed_and_gets_folder_and_names_of_variables() {
        let image = "agent:1".to_string();
        let user = own_user();
        let made = wrapped(ContainerOptions { image: image.clone(), ..ContainerOptions::default() });
        let expected = format!(
            "docker run --rm --name trainyard-x --label trainyard=harness --volume /tmp/trainyard-x:/program:ro \
             --workdir /program --user {user} --env HOME=/tmp --add-host host.docker.internal:host-gateway --env \
             OPENAI_API_KEY agent:1 /program/run.sh a b"
        );
        assert_eq!(made.command.join(" "), expected);
        assert_eq!(made.command.last().map(String::as_str), Some("a b"), "a word stays a word");
        assert_eq!(made.stop, ["docker", "rm", "--force", "trainyard-x"]);
        let own = ContainerOptions {
            image,
            network: "host".into(),
            user: "1:2".into(),
            writable: true,
            args: vec!["--memory=2g".into()],
        };
        assert_eq!(DockerSandbox(own.clone()).host(), None);
        let text = wrapped(own).command.join(" ");
        assert!(text.contains("--volume /tmp/trainyard-x:/program --workdir"), "{text}");
        assert!(text.contains("--user 1:2 --env HOME=/tmp --network host --env OPENAI_API_KEY --memory=2g agent:1 "));
    }
}
