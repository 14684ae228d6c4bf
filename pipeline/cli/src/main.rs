//! Runs the `trainyard` binary: the command line with all parts of this workspace.

use std::process::ExitCode;
use trainyard::prelude::Catalogue;

// Training allocates and frees the same large buffers at every step. The system allocator would return them to the
// kernel each time, which then zeroes new pages. The allocator is global, so it serves all subcommands.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    trainyard::main(Catalogue::builder())
}
