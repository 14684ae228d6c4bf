//! Implements the rule `http`: a user-defined service judges each row (`docs/custom-code.md`).

use super::process::RuleRole;
use trainyard_envs::programs::{CustomCodePage, ServiceOptions};

impl CustomCodePage<ServiceOptions> for RuleRole {
    const SUMMARY: &'static str = "keeps or rejects each row by a custom HTTP service";
    const DOC: &'static str = "Like `process`, but each line of the protocol is a POST request to `url`, and its\n\
        response is one line (`docs/custom-code.md`, \"Over HTTP\"). In Python, `ty.serve(port)` in place of\n\
        `ty.run()` serves the same functions. At most `concurrency` requests are open at a time.\n\n\
        Requests to a service that is unreachable, too slow or overloaded are repeated, `attempts` times with\n\
        growing waits; then the stage ends with a retryable error. A rejected request (status 400 to 499) and an\n\
        invalid response end the stage. An exception ends it with its traceback; with `on_error: skip` the row\n\
        stays. Reason: rejected.";
}
