//! Runs the command that ends what a program left and that is not one of its processes, such as a container.

use crate::descendants::ProgramMark;
use std::process::{Command, Stdio};
use std::time::Duration;

/// Time in which a stop command must end.
const TIMEOUT: Duration = Duration::from_secs(10);
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// Runs the words of a stop command, at most for [`TIMEOUT`]; does nothing without words. The command gets the
/// environment of this process and the name of the program's process. Its failure is ignored: there may be nothing to
/// end.
pub fn run(words: &[String], mark: &ProgramMark) {
    let Some((name, arguments)) = words.split_first() else { return };
    let mut command = Command::new(name);
    command.args(arguments).envs(mark.variables());
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let Ok(mut stop) = command.spawn() else { return };
    let mut remaining = TIMEOUT;
    while matches!(stop.try_wait(), Ok(None)) {
        if remaining.is_zero() {
            let _ = stop.kill();
            let _ = stop.wait();
            return;
        }
        std::thread::sleep(POLL_INTERVAL);
        remaining = remaining.saturating_sub(POLL_INTERVAL);
    }
}
