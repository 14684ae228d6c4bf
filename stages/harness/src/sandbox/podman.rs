//! Runs the program in a container of Podman.

use super::container::{ContainerOptions, ContainerProgram};
use super::{Sandbox, SandboxedCommand};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use trainyard_core::OptionProblem;

/// Name of the stage's machine in a container.
const HOST: &str = "host.containers.internal";
/// Program of these containers. It adds the name of the stage's machine by itself, and the user of an image that runs
/// as root is the user of the stage.
const PODMAN: ContainerProgram = ContainerProgram { name: "podman", host_args: &[], user: None };

/// A container of Podman.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct PodmanSandbox(pub ContainerOptions);

impl Sandbox for PodmanSandbox {
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
        &["CONTAINER_HOST", "CONTAINERS_CONF", "DBUS_SESSION_BUS_ADDRESS", "REGISTRY_AUTH_FILE", "XDG_RUNTIME_DIR"]
    }
    fn wrap(&self, command: &[String], folder: &Path, variables: &[&str]) -> SandboxedCommand {
        self.0.wrap(&PODMAN, command, folder, variables)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn user_of_the_image_stays() {
        let sandbox = PodmanSandbox(ContainerOptions { image: "agent:1".into(), ..ContainerOptions::default() });
        assert_eq!(sandbox.host(), Some(HOST));
        let made = sandbox.wrap(&["python3".into(), "agent.py".into()], Path::new("/tmp/e-1"), &["A", "B"]);
        let expected = "podman run --rm --name e-1 --label trainyard=harness --volume /tmp/e-1:/program:ro --workdir \
                        /program --env A --env B agent:1 python3 agent.py";
        assert_eq!(made.command.join(" "), expected);
        assert_eq!(made.stop, ["podman", "rm", "--force", "e-1"]);
    }
}
