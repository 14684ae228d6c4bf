//! `top` needs a terminal, and says what to use without one.

use crate::kit::Sandbox;
use crate::python_programs::{call_through, python_sandbox};

#[test]
fn without_a_terminal_it_names_the_command_for_pipes() {
    let s = Sandbox::new();
    // The store does not exist, but the missing terminal is the first error.
    s.run(&["top"]).code(2).says("stdout is not a terminal").says("trainyard runs show --watch RUN");
    s.run(&["top", "latest"]).code(2).says("stdout is not a terminal");
}

#[test]
fn help_names_the_run_and_the_examples() {
    let s = Sandbox::new();
    s.run(&["top", "--help"]).code(0).prints("[RUN]").prints("trainyard top latest").prints("The key ? lists the keys");
}

/// Runs a command on a terminal, which is closed a second after the command has drawn something. Fails if the command
/// still runs.
const CLOSED: &str = r#"
import fcntl, os, pty, struct, sys, termios, time

child, screen = pty.fork()
if child == 0:
    fcntl.ioctl(1, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 100, 0, 0))
    os.execv(sys.argv[1], sys.argv[1:])
os.read(screen, 65536)
time.sleep(1)
os.close(screen)
end = time.monotonic() + 20
while time.monotonic() < end:
    if os.waitpid(child, os.WNOHANG)[0]:
        sys.exit(0)
    time.sleep(0.05)
os.kill(child, 9)
sys.exit("the command still runs 20 s after its terminal was closed")
"#;

#[test]
fn it_ends_with_its_terminal() {
    let Some(s) = python_sandbox() else { return };
    s.write("closed.py", CLOSED);
    std::fs::create_dir_all(s.store()).unwrap();
    call_through(&s, &["closed.py"], &["top"]);
}
