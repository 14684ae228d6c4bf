//! CPython in a sandbox: the user's own interpreter and packages, one process per session.
//!
//! A worker (`sessions`) supervises the processes: it feeds one program at a time, kills what is late, and removes
//! files. A process first confines itself (`sandbox`: limits, no capabilities, Landlock, seccomp) and only then becomes
//! the interpreter, so nothing of the user's Python runs unconfined. `docs/design/0015-sandboxed-cpython.md` says
//! what is bounded by what.

mod fault;
mod files;
pub mod installation;
mod order;
mod process;
pub mod sandbox;
mod scratch;
pub mod sessions;
pub mod setup;
pub mod support;
mod system_calls;
