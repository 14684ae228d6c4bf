//! Restricts the files that a confined program may open, by Landlock.
//!
//! A program with files requires the rights of Landlock's first version. They do not cover all operations (`truncate`,
//! `chmod`, …). Seccomp denies the others on every kernel (`system_calls`), and later rights are added where the kernel
//! knows them. Names, sizes and times of files stay visible, because Landlock does not hide them.

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, Ruleset, RulesetAttr, RulesetCreated,
    RulesetCreatedAttr, RulesetError, RulesetStatus, Scope, path_beneath_rules,
};
use std::path::{Path, PathBuf};

/// Files that programs need in addition to their interpreter: shared libraries, time zones, locales.
const SYSTEM: [&str; 14] = [
    "/lib",
    "/lib64",
    "/usr/lib",
    "/usr/lib64",
    "/usr/local/lib",
    "/usr/share/zoneinfo",
    "/usr/share/locale",
    "/etc/ld.so.cache",
    "/etc/localtime",
    "/dev/full",
    "/dev/random",
    "/dev/urandom",
    "/dev/zero",
    "/sys/devices/system/cpu",
];

/// Removes permanently every right of this thread to files, except for reading `reads` and the system's libraries,
/// reading and executing `executes`, reading and writing `/dev/null`, and using files in the folder `scratch`, in which
/// it can create neither subfolders nor links. Fails if the kernel does not support these restrictions.
pub fn restrict(reads: &[PathBuf], executes: &[PathBuf], scratch: &Path) -> Result<(), String> {
    match rules(reads, executes, scratch) {
        Ok(RulesetStatus::NotEnforced) => Err("Landlock was not enforced".to_string()),
        Ok(_) => Ok(()),
        Err(e) => Err(format!("Landlock: {e}")),
    }
}

/// Removes permanently every right of this thread, and of those that it starts, to open files and to connect, as far as
/// the kernel supports it.
pub fn forbid() -> Result<(), String> {
    let restricted = ruleset(CompatLevel::BestEffort).and_then(RulesetCreated::restrict_self);
    restricted.map(|_| ()).map_err(|e| format!("Landlock: {e}"))
}

fn rules(reads: &[PathBuf], executes: &[PathBuf], scratch: &Path) -> Result<RulesetStatus, RulesetError> {
    let read = AccessFs::ReadFile | AccessFs::ReadDir;
    let scratch_access = read | AccessFs::WriteFile | AccessFs::MakeReg | AccessFs::RemoveFile | AccessFs::Truncate;
    let status = ruleset(CompatLevel::HardRequirement)?
        .add_rules(path_beneath_rules(SYSTEM, read))?
        .add_rules(path_beneath_rules(reads, read))?
        .add_rules(path_beneath_rules(executes, AccessFs::Execute | AccessFs::ReadFile))?
        .add_rules(path_beneath_rules(["/dev/null"], AccessFs::ReadFile | AccessFs::WriteFile))?
        .add_rules(path_beneath_rules([scratch], scratch_access as BitFlags<AccessFs>))?
        .restrict_self()?;
    Ok(status.ruleset)
}

/// Returns a set without rules, which permits nothing. `first` says whether the rights of Landlock's first version are
/// required; those of later versions are not.
fn ruleset(first: CompatLevel) -> Result<RulesetCreated, RulesetError> {
    Ruleset::default()
        .set_compatibility(first)
        .handle_access(AccessFs::from_all(ABI::V1))?
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(ABI::V5))?
        .handle_access(AccessNet::from_all(ABI::V4))?
        .scope(Scope::from_all(ABI::V6))?
        .create()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::confinement::support;
    use std::fs::{self, File};
    use std::io::ErrorKind;

    #[test]
    fn thread_without_rights_opens_no_file() {
        if !support::has_landlock() {
            eprintln!("skipped: no Landlock");
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let old = folder.path().join("old");
        fs::write(&old, "secret").unwrap();
        let failures = std::thread::scope(|scope| {
            let restricted = scope.spawn(|| {
                forbid().unwrap();
                [
                    ("read", fs::read(&old).err()),
                    ("overwrite", File::options().write(true).open(&old).err()),
                    ("create", File::create(folder.path().join("new")).err()),
                    ("list", fs::read_dir(folder.path()).err()),
                    ("remove", fs::remove_file(&old).err()),
                ]
                .map(|(name, error)| (name, error.map(|e| e.kind())))
            });
            restricted.join().unwrap()
        });
        for (name, kind) in failures {
            assert_eq!(kind, Some(ErrorKind::PermissionDenied), "{name}");
        }
        assert_eq!(fs::read_to_string(&old).unwrap(), "secret", "other threads keep their rights");
    }
}
