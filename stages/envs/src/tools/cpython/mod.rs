//! Runs CPython in a sandbox: the user's interpreter and packages, in one process per session.
//!
//! A worker (`sessions`) supervises the processes: it sends one program at a time, kills late ones, stops the others
//! between their calls (`pause`), measures their files (`scratch`), and removes them.
//! A process first confines itself (`sandbox`: limits, no capabilities, Landlock, seccomp) and only then becomes the
//! interpreter, so that programs of the model never run unconfined. `docs/design/0015-sandboxed-cpython.md` lists the
//! bounds and their mechanisms.

mod fault;
pub mod installation;
mod mapped;
mod pause;
mod process;
pub mod sandbox;
mod sandbox_spec;
mod scratch;
pub mod sessions;
pub mod setup;
