//! Runs the program by a custom command, such as `bwrap`.

use super::{Sandbox, SandboxedCommand};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::Path;
use trainyard_core::OptionProblem;

/// A command before that of the program.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct CommandSandbox {
    /// Words before the command of the program: `[bwrap, --ro-bind, /, /, --bind, "{folder}", "{folder}",
    /// --die-with-parent]`. `{folder}` is the working folder of the episode. The command must exist where the stage
    /// runs, must keep the working folder and the variables, and must pass on output and exit status.
    pub prefix: Vec<String>,
}

impl Sandbox for CommandSandbox {
    fn problems(&self) -> Vec<OptionProblem> {
        if self.prefix.first().is_some_and(|word| !word.is_empty()) {
            return Vec::new();
        }
        vec![
            OptionProblem::new("/prefix", "the command of the sandbox is empty").help("write for example `[bwrap, …]`"),
        ]
    }
    fn wrap(&self, command: &[String], folder: &Path, _: &[&str]) -> SandboxedCommand {
        let folder = folder.display().to_string();
        let prefix = self.prefix.iter().map(|word| word.replace("{folder}", &folder));
        SandboxedCommand { command: prefix.chain(command.iter().cloned()).collect(), stop: Vec::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefix_is_before_the_command() {
        let prefix = ["bwrap", "--bind", "{folder}", "{folder}"].map(String::from).to_vec();
        let command = ["python3", "{folder}.py"].map(String::from);
        let wrapped = CommandSandbox { prefix }.wrap(&command, Path::new("/tmp/e"), &["KEY"]);
        assert_eq!(wrapped.command, ["bwrap", "--bind", "/tmp/e", "/tmp/e", "python3", "{folder}.py"]);
        assert!(wrapped.stop.is_empty());
    }
}
