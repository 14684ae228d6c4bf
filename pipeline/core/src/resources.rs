//! Determines whether a machine can meet a request, and the reasons if it cannot.
//!
//! `check`, the engine's admission and the slots of this machine share these functions, because all three must come to
//! the same result.

use crate::units::format_size;

/// Amounts of one machine: total, free or requested.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ResourceAmounts {
    /// CPUs.
    pub cpus: u32,
    /// Bytes of memory. As a machine's total, 0 means unknown and admits any request.
    pub memory: u64,
    /// GPUs that are large enough for the request.
    pub gpus: u32,
}

/// Describes the amounts that one machine lacks for a request, one phrase each; empty if the request fits.
///
/// `gpu_memory` is the memory that each GPU must have in bytes, 0 for any. `free` is the unused part of `total`; pass
/// `total` twice for an idle machine.
///
/// ```
/// use trainyard_core::resources::{ResourceAmounts, shortfalls};
///
/// let total = ResourceAmounts { cpus: 4, memory: 0, gpus: 0 };
/// let need = ResourceAmounts { cpus: 3, ..ResourceAmounts::default() };
/// assert_eq!(shortfalls(need, 0, ResourceAmounts { cpus: 2, ..total }, total), ["needs 3 CPUs; 2 of 4 are free"]);
/// assert_eq!(shortfalls(ResourceAmounts { cpus: 8, ..need }, 0, total, total), ["needs 8 CPUs; it has 4"]);
/// assert!(shortfalls(need, 0, total, total).is_empty());
/// ```
pub fn shortfalls(
    need: ResourceAmounts,
    gpu_memory: u64,
    free: ResourceAmounts,
    total: ResourceAmounts,
) -> Vec<String> {
    let mut found = Vec::new();
    if need.cpus > free.cpus {
        found.push(format!("needs {}; {}", count(need.cpus, "CPU"), available(need.cpus, free.cpus, total.cpus)));
    }
    if total.memory > 0 && need.memory > free.memory {
        let available_text = if need.memory > total.memory {
            format!("it has {}", format_size(total.memory))
        } else {
            format!("{} of {} are free", format_size(free.memory), format_size(total.memory))
        };
        found.push(format!("needs {} of memory; {available_text}", format_size(need.memory)));
    }
    if need.gpus > free.gpus {
        let size = if gpu_memory > 0 { format!(" with {}", format_size(gpu_memory)) } else { String::new() };
        let available_text = available(need.gpus, free.gpus, total.gpus);
        found.push(format!("needs {}{size}; {available_text}", count(need.gpus, "GPU")));
    }
    found
}

/// Names the tags of `need` that are not among `tags`, as the end of a sentence: ``has no tag `spot` ``. Returns `None`
/// if `tags` contains all of them.
pub fn missing_tags(need: &[String], tags: &[String]) -> Option<String> {
    let missing: Vec<String> = need.iter().filter(|t| !tags.contains(t)).map(|t| format!("`{t}`")).collect();
    match missing.as_slice() {
        [] => None,
        [one] => Some(format!("has no tag {one}")),
        several => Some(format!("has no tags {}", several.join(", "))),
    }
}

/// Returns `1 CPU`, `3 CPUs`.
fn count(number: u32, unit: &str) -> String {
    format!("{number} {unit}{}", if number == 1 { "" } else { "s" })
}

fn available(need: u32, free: u32, total: u32) -> String {
    match (need > total, free) {
        (true, _) => format!("it has {total}"),
        (false, 1) => format!("1 of {total} is free"),
        (false, free) => format!("{free} of {total} are free"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOTAL: ResourceAmounts = ResourceAmounts { cpus: 4, memory: 8 << 30, gpus: 2 };

    #[test]
    fn every_shortfall_is_named() {
        let need = ResourceAmounts { cpus: 2, memory: 6 << 30, gpus: 1 };
        let free = ResourceAmounts { cpus: 1, memory: 2 << 30, gpus: 0 };
        assert_eq!(
            shortfalls(need, 40 << 30, free, TOTAL),
            [
                "needs 2 CPUs; 1 of 4 is free",
                "needs 6.0 GiB of memory; 2.0 GiB of 8.0 GiB are free",
                "needs 1 GPU with 40.0 GiB; 0 of 2 are free"
            ]
        );
        let large = ResourceAmounts { cpus: 5, memory: 9 << 30, gpus: 3 };
        let lacks = ["needs 5 CPUs; it has 4", "needs 9.0 GiB of memory; it has 8.0 GiB", "needs 3 GPUs; it has 2"];
        assert_eq!(shortfalls(large, 0, TOTAL, TOTAL), lacks);
    }

    #[test]
    fn unknown_memory_admits_any_request() {
        let unknown = ResourceAmounts { memory: 0, ..TOTAL };
        assert!(
            shortfalls(ResourceAmounts { memory: 1 << 50, ..ResourceAmounts::default() }, 0, unknown, unknown)
                .is_empty()
        );
    }

    #[test]
    fn missing_tags_are_named() {
        let tags = |list: &[&str]| list.iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(missing_tags(&tags(&["a"]), &tags(&["a", "b"])), None);
        assert_eq!(missing_tags(&tags(&["a", "c"]), &tags(&["a"])).unwrap(), "has no tag `c`");
        assert_eq!(missing_tags(&tags(&["c", "d"]), &[]).unwrap(), "has no tags `c`, `d`");
    }
}
