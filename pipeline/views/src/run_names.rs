//! Names of runs that are no ids.

/// Name of the newest run.
pub const LATEST: &str = "latest";
/// Name of the newest run that succeeded.
pub const LATEST_SUCCESS: &str = "latest-success";
