//! Tool `http`: functions of a user-defined service.

use super::process::ToolRole;
use crate::programs::{CustomCodePage, ServiceOptions};

impl CustomCodePage<ServiceOptions> for ToolRole {
    const SUMMARY: &'static str = "tools of a service of yours, over HTTP";
    const DOC: &'static str = "As `process`, but the lines of the protocol are requests to `url`: each is a\n\
        POST whose answer is one line (`docs/custom-code.md`, \"Over HTTP\"). In Python, `ty.serve(port)` in place\n\
        of `ty.run()` serves the same functions. Every episode is a session of the service.\n\n\
        A call is sent once, unless the service says that it knows requests that come again. A session that is\n\
        not known any more (status 410), or whose connection broke, is begun again: its calls are made once more\n\
        and their results compared. An episode that cannot be built again, or whose own call was late, is an\n\
        infrastructure failure; a service that refuses (any other status of 400 to 499 but 408, 425 and 429)\n\
        ends the stage.";
}
