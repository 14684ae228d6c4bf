//! Encodes and decodes the first frame of a worker: the limits and, for CPython and SQL, its setup.

use crate::tools::ToolLimits;
use crate::tools::cpython::setup::CpythonSetup;
use crate::tools::sql::SqlLimits;
use crate::tools::wire::{FrameReader, FrameWriter};
use serde::{Deserialize, Serialize};

/// Setup of a worker that does not run the embedded interpreter.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum WorkerSetup {
    /// Processes of CPython that the worker supervises.
    Cpython(CpythonSetup),
    /// Queries of the tool `sql` within these limits.
    Sql(SqlLimits),
}

pub fn encode_hello(limits: &ToolLimits, setup: Option<&WorkerSetup>) -> Vec<u8> {
    let mut out = FrameWriter::default();
    for value in [
        limits.time_millis,
        limits.memory_bytes,
        limits.output_bytes,
        u64::from(limits.recursion_depth),
        u64::from(limits.suspensions),
    ] {
        out.long(value);
    }
    // All paths are UTF-8, because the probe reports them as JSON.
    let setup = setup.map(|setup| serde_json::to_vec(setup).unwrap_or_default());
    out.optional(setup.as_deref());
    out.0
}

pub fn decode_hello(payload: &[u8]) -> Option<(ToolLimits, Option<WorkerSetup>)> {
    let mut from = FrameReader(payload);
    let limits = ToolLimits {
        time_millis: from.long()?,
        memory_bytes: from.long()?,
        output_bytes: from.long()?,
        recursion_depth: u32::try_from(from.long()?).ok()?,
        suspensions: u32::try_from(from.long()?).ok()?,
    };
    let setup = from.optional()?.map(serde_json::from_slice).transpose().ok()?;
    from.0.is_empty().then_some((limits, setup))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::cpython::installation::Installation;

    #[test]
    fn limits_and_setups_round_trip() {
        let limits = ToolLimits::default();
        assert_eq!(decode_hello(&encode_hello(&limits, None)), Some((limits.clone(), None)));
        let installation = Installation {
            implementation: "cpython".to_string(),
            version: "3.14.0".to_string(),
            executable: "/opt/venv/bin/python".into(),
            reads: vec!["/opt/venv/lib".into()],
            executes: Vec::new(),
            user_base: None,
            search_paths: Vec::new(),
        };
        let cpython = WorkerSetup::Cpython(CpythonSetup { installation, scratch: "/tmp/a".into() });
        let sql = WorkerSetup::Sql(SqlLimits { steps: 10_000, rows: 5, output_bytes: 100 });
        for setup in [cpython, sql] {
            let hello = encode_hello(&limits, Some(&setup));
            assert_eq!(decode_hello(&hello), Some((limits.clone(), Some(setup))));
            assert_eq!(decode_hello(&hello[..hello.len() - 1]), None);
        }
    }
}
