//! Reads learning curves from the points that attempts stored while they ran.

use std::collections::BTreeMap;
use trainyard_core::attempt::AttemptMessage;
use trainyard_core::{AttemptNumber, Result, RunId, StageKey};
use trainyard_store::{AttemptStream, Store};

/// Curves of a stage: name, then step, then value.
pub type StageCurves = BTreeMap<String, BTreeMap<u64, f64>>;

/// Parses the points of some lines of a stored curve. A line that cannot be parsed is skipped.
pub fn points(lines: &[u8]) -> Vec<(String, u64, f64)> {
    let message = |line: &[u8]| match serde_json::from_slice(line) {
        Ok(AttemptMessage::Metric { name, step, value }) => Some((name, step, value)),
        Ok(_) | Err(_) => None,
    };
    lines.split(|byte| *byte == b'\n').filter_map(message).collect()
}

/// Returns the curves of a stage over all its attempts. An attempt that resumed from a checkpoint repeats the steps
/// after it; the last value of a step counts.
pub async fn of_stage(store: &Store, run: &RunId, stage: &StageKey, attempts: &[AttemptNumber]) -> Result<StageCurves> {
    let mut curves = StageCurves::new();
    for attempt in attempts {
        let mut chunks = store.chunks(run, stage, *attempt, AttemptStream::Metrics, 0);
        let mut buffer = Vec::new();
        while let Some(chunk) = chunks.next().await? {
            buffer.extend_from_slice(&chunk);
            let complete = buffer.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
            for (name, step, value) in points(&buffer[..complete]) {
                curves.entry(name).or_default().insert(step, value);
            }
            buffer.drain(..complete);
        }
    }
    Ok(curves)
}

#[cfg(test)]
mod tests {
    use super::*;
    use trainyard_store::StoreOptions;

    #[tokio::test]
    async fn last_attempt_overrides_repeated_steps() {
        let store = Store::open("memory://", StoreOptions::default()).await.unwrap();
        let (run, stage) = (RunId("20261121-000000-000000".into()), StageKey("rl".into()));
        let line = |name: &str, step: u64, value: f64| {
            serde_json::to_string(&AttemptMessage::Metric { name: name.into(), step, value }).unwrap() + "\n"
        };
        let first = line("loss", 1, 3.0) + &line("loss", 2, 2.5) + "half a li";
        let (second, third) = (line("loss", 2, 2.0), line("loss", 3, 1.0) + &line("kl", 3, 0.5));
        for (attempt, number, text) in [(1, 0, first), (2, 0, second), (2, 1, third)] {
            store.put_chunk(&run, &stage, attempt, AttemptStream::Metrics, number, text.into()).await.unwrap();
        }
        let curves = of_stage(&store, &run, &stage, &[1, 2]).await.unwrap();
        let loss = BTreeMap::from([(1, 3.0), (2, 2.0), (3, 1.0)]);
        assert_eq!(
            curves,
            BTreeMap::from([("kl".to_string(), BTreeMap::from([(3, 0.5)])), ("loss".to_string(), loss)])
        );
    }
}
