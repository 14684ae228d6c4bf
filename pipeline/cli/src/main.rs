//! The `trainyard` binary: the command line with all parts of this workspace.

use std::process::ExitCode;
use trainyard::prelude::Catalogue;

// Training allocates and frees the same large buffers at every step; the system allocator returns them to the kernel
// each time and pays for zeroed pages again. One global allocator serves all subcommands.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    trainyard::main(Catalogue::builder())
}
