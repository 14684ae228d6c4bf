//! Documents the tool `http`, which provides functions of a user-defined service.

use super::process::ToolRole;
use crate::programs::{CustomCodePage, ServiceOptions};

impl CustomCodePage<ServiceOptions> for ToolRole {
    const SUMMARY: &'static str = "tools of a user-defined service, over HTTP";
    const DOC: &'static str = "As `process`, but the lines of the protocol are requests to `url`: each is a\n\
        POST whose response is one line (`docs/custom-code.md`, \"Over HTTP\"). In Python, `ty.serve(port)` in place\n\
        of `ty.run()` serves the same functions. Every episode is a session of the service.\n\n\
        A call is sent once, unless the service declares in its handshake that it supports repeated requests\n\
        (`repeats`). A session that the service no longer knows (status 410), or whose connection broke, is started\n\
        again: its calls are repeated and their results compared. An episode that cannot be rebuilt, or whose call\n\
        timed out, is an infrastructure failure; a rejected request (any other status of 400 to 499 except 408, 425\n\
        and 429) ends the stage.";
}
