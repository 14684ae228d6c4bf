//! The tool worker as a program of its own, for tests of crates that have no `trainyard` binary at hand.

fn main() {
    std::process::exit(trainyard_envs::tools::worker::main());
}
