//! Stops the process of a session between its calls. A program can write its own response and run on, so only the
//! kernel keeps it from using time and disk after its call.

use rustix::io::{Result, retry_on_intr};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use std::process::Child;

/// Stops a process that leads its group, and waits until it has stopped or exited.
pub fn stop(process: &Child) -> Result<()> {
    let process = Pid::from_child(process);
    kill_process_group(process, Signal::STOP)?;
    // The status stays, because `Child` waits for the exit.
    let states = WaitIdOptions::STOPPED | WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
    retry_on_intr(|| waitid(WaitId::Pid(process), states)).map(drop)
}

/// Resumes a stopped process.
pub fn resume(process: &Child) -> Result<()> {
    kill_process_group(Pid::from_child(process), Signal::CONT)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::CommandExt as _;
    use std::process::Command;

    /// Returns the state letter of a process.
    fn state(process: &Child) -> char {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", process.id())).unwrap();
        stat.rsplit(") ").next().and_then(|rest| rest.chars().next()).unwrap()
    }

    #[test]
    fn stopped_processes_run_again_and_keep_their_status() {
        let mut process = Command::new("sleep").arg("1000").process_group(0).spawn().unwrap();
        for _ in 0..3 {
            stop(&process).unwrap();
            assert_eq!(state(&process), 'T');
            assert!(process.try_wait().unwrap().is_none());
            resume(&process).unwrap();
            assert_ne!(state(&process), 'T');
        }
        stop(&process).unwrap();
        process.kill().unwrap();
        assert!(!process.wait().unwrap().success());
    }

    #[test]
    fn an_exited_process_is_not_waited_for() {
        let mut process = Command::new("true").process_group(0).spawn().unwrap();
        while state(&process) != 'Z' {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        stop(&process).unwrap();
        assert!(process.wait().unwrap().success());
    }
}
