//! Builds tool hosts for the integration tests. Their workers are this crate's binary or the one that the environment
//! names.

#![allow(dead_code, reason = "not every test needs all of it")]

use serde_json::json;
use std::sync::Arc;
use std::time::Duration;
use trainyard_envs::tools::WORKER_VARIABLE;
use trainyard_envs::tools::family;
use trainyard_envs::tools::registry::tool;
use trainyard_envs::tools::{ToolHost, ToolLimits, ToolResult, ToolSession};

pub const PATIENCE: Duration = Duration::from_secs(120);

pub fn host(workers: usize) -> Arc<ToolHost> {
    let program =
        std::env::var_os(WORKER_VARIABLE).unwrap_or_else(|| env!("CARGO_BIN_EXE_trainyard-tool-worker").into());
    ToolHost::with_program(workers, program)
}

pub fn limits() -> ToolLimits {
    ToolLimits { time_millis: 10_000, ..ToolLimits::default() }
}

pub fn session(host: &Arc<ToolHost>, limits: &ToolLimits) -> Box<dyn ToolSession> {
    tool("python").unwrap().open(host, limits).unwrap()
}

/// Opens a session of the CPython that is `python3` here. `None` if it is missing or cannot be confined, unless
/// TRAINYARD_TEST_CPYTHON requires it.
pub fn cpython(host: &Arc<ToolHost>, limits: &ToolLimits) -> Option<Box<dyn ToolSession>> {
    let options = json!({"kind": "python", "interpreter": "cpython"});
    match family().build(&options, &()).unwrap().open(host, limits) {
        Ok(session) => Some(session),
        Err(error) if std::env::var_os("TRAINYARD_TEST_CPYTHON").is_none() => {
            eprintln!("skipped: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

pub fn ask(session: &mut dyn ToolSession, code: &str) -> ToolResult {
    session.submit(&serde_json::json!({"code": code})).wait(PATIENCE).expect("an answer in time")
}
