//! Checks for the kernel features of confinement. A CPython requires all of them; workers that only compute use those
//! that there are.

use landlock::{ABI, Access, AccessFs, CompatLevel, Compatible, Ruleset, RulesetAttr};
use trainyard_core::{Error, Result};

/// Checks that this machine can confine programs. Errors: invalid, with all missing features.
pub fn require() -> Result<()> {
    let missing_features = missing();
    if missing_features.is_empty() {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "CPython cannot be confined on this machine, which lacks {}",
        missing_features.join(" and ")
    ))
    .help("use the tool `python` with `interpreter: monty`, or a kernel with these features"))
}

/// Returns the features that this machine lacks; empty if programs can be confined.
pub fn missing() -> Vec<&'static str> {
    let checks = [
        (has_known_system_calls(), "a processor whose system calls are known here (x86_64 or aarch64)"),
        (has_landlock(), "Landlock (Linux 5.13 or later with `landlock` among its `lsm`)"),
        (has_seccomp(), "seccomp filters (CONFIG_SECCOMP_FILTER)"),
    ];
    checks.into_iter().filter(|(is_supported, _)| !is_supported).map(|(_, feature)| feature).collect()
}

pub fn has_known_system_calls() -> bool {
    cfg!(any(target_arch = "x86_64", target_arch = "aarch64"))
}

pub fn has_landlock() -> bool {
    let rules = Ruleset::default().set_compatibility(CompatLevel::HardRequirement);
    rules.handle_access(AccessFs::from_all(ABI::V1)).and_then(Ruleset::create).is_ok()
}

pub fn has_seccomp() -> bool {
    std::fs::read_to_string("/proc/sys/kernel/seccomp/actions_avail").is_ok_and(|actions| actions.contains("errno"))
}
