//! Documents the reward `http`, which a user-defined service computes (`docs/custom-code.md`).

use super::process::RewardRole;
use crate::programs::{CustomCodePage, ServiceOptions};

impl CustomCodePage<ServiceOptions> for RewardRole {
    const SUMMARY: &'static str = "a value that a user-defined service computes, over HTTP";
    const DOC: &'static str = "As `process`, but the lines of the protocol are requests to `url`: each is a\n\
        POST whose response is one line (`docs/custom-code.md`, \"Over HTTP\"). In Python, `ty.serve(port)` in place\n\
        of `ty.run()` serves the same functions. At most `concurrency` requests are open at a time.\n\n\
        A request to a service that is unreachable, slow or overloaded is retried, up to `attempts` attempts with\n\
        growing waits; then the stage ends with a retryable error, never with a low reward. A rejected request\n\
        (status 400 to 499) or an invalid response ends the stage. An exception ends the stage with its traceback,\n\
        or is counted, depending on `on_error`.";
}
