//! Rule `http`: a user-defined service judges each row (`docs/custom-code.md`).

use super::process::RuleRole;
use trainyard_envs::programs::{CustomCodePage, ServiceOptions};

impl CustomCodePage<ServiceOptions> for RuleRole {
    const SUMMARY: &'static str = "a service of yours keeps or rejects each row, over HTTP";
    const DOC: &'static str = "As `process`, but the lines of the protocol are requests to `url`: each is a\n\
        POST whose answer is one line (`docs/custom-code.md`, \"Over HTTP\"). In Python, `ty.serve(port)` in place\n\
        of `ty.run()` serves the same functions. At most `concurrency` requests are open at a time.\n\n\
        A service that is out of reach, too slow or overloaded is asked again, `attempts` times with growing\n\
        waits; then the stage ends with a retryable error. What it refuses (a status of 400 to 499) and what is\n\
        no answer to the request end the stage. An exception ends it with its traceback; with `on_error: skip`\n\
        the row stays. Reason: rejected.";
}
