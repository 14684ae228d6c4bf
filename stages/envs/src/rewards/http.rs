//! `http`: a reward that a user-defined service computes (`docs/custom-code.md`).

use super::process::RewardRole;
use crate::programs::{CustomCodePage, ServiceOptions};

impl CustomCodePage<ServiceOptions> for RewardRole {
    const SUMMARY: &'static str = "what a service of yours says, over HTTP";
    const DOC: &'static str = "As `process`, but the lines of the protocol are requests to `url`: each is a\n\
        POST whose answer is one line (`docs/custom-code.md`, \"Over HTTP\"). In Python, `ty.serve(port)` in place\n\
        of `ty.run()` serves the same functions. At most `concurrency` requests are open at a time.\n\n\
        A service that is out of reach, too slow or overloaded is asked again, `attempts` times with growing\n\
        waits; then the stage ends with a retryable error, never with a low reward. What it refuses (a status of\n\
        400 to 499) and what is no answer to the request end the stage. An exception ends the stage with its\n\
        traceback, or is counted, as `on_error` says.";
}
