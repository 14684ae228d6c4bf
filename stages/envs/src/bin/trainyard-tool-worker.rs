//! Runs the tool worker as a separate program, for tests of crates that cannot start the `trainyard` binary.

fn main() {
    std::process::exit(trainyard_envs::tools::worker::main());
}
