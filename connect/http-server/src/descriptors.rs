//! Reads and raises the limit on open files of the process, so that connections leave descriptors for its other work.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Highest limit that is set. Some programs iterate over all possible descriptors when they start a child.
const ENOUGH: u64 = 65_536;

/// Returns the soft limit on open files of this process.
pub fn descriptor_limit() -> u64 {
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// Raises the soft limit on open files of this process as far as its hard limit permits, to at most 65,536. Returns the
/// limit in force. Call it when the process starts; programs that it starts inherit the limit.
pub fn raise_descriptor_limit() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    let soft = limit.current.unwrap_or(u64::MAX);
    let wanted = limit.maximum.unwrap_or(u64::MAX).min(ENOUGH);
    if soft >= wanted {
        return soft;
    }
    match setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum: limit.maximum }) {
        Ok(()) => wanted,
        Err(error) => {
            tracing::warn!(%error, soft, wanted, "cannot raise the limit on open files");
            soft
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limit_is_raised_once() {
        let hard = getrlimit(Resource::Nofile).maximum.unwrap_or(u64::MAX);
        let raised = raise_descriptor_limit();
        assert!(raised >= hard.min(ENOUGH), "{raised} of {hard}");
        assert_eq!(descriptor_limit(), raised);
        assert_eq!(raise_descriptor_limit(), raised);
    }
}
