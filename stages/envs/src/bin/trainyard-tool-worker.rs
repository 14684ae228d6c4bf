//! The tool worker as its own program, for tests of crates that cannot start the `trainyard` binary.

fn main() {
    std::process::exit(trainyard_envs::tools::worker::main());
}
