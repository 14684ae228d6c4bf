//! The backends of this build, sorted by kind.

use super::Backend;
use super::cpu::Cpu;
use std::sync::Arc;
use trainyard_core::{Error, Result};

/// The backend that stages use unless they are told otherwise.
pub const DEFAULT: &str = "cpu";

/// All backends of this build.
pub fn all() -> [Arc<dyn Backend>; 1] {
    [Arc::new(Cpu)]
}

/// Finds a backend by its kind. Errors: invalid, naming the kinds that exist.
pub fn find(kind: &str) -> Result<Arc<dyn Backend>> {
    let backends = all();
    let kinds: Vec<&str> = backends.iter().map(|b| b.kind()).collect();
    let help = format!("use one of: {}", kinds.join(", "));
    backends
        .into_iter()
        .find(|b| b.kind() == kind)
        .ok_or_else(|| Error::invalid(format!("unknown backend `{kind}`")).help(help))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_exists_and_an_unknown_kind_is_refused_with_the_known_ones() {
        assert_eq!(find(DEFAULT).unwrap().kind(), DEFAULT);
        let error = find("abacus").err().unwrap();
        assert!(error.message.contains("abacus") && error.help.unwrap().contains("cpu"));
    }
}
