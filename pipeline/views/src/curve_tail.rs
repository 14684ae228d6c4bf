//! Follows the learning curves of a stage over its attempts: each turn reads only new chunks, and a curve keeps a
//! bounded number of points.

use std::collections::BTreeMap;
use std::sync::Arc;
use trainyard_core::{AttemptNumber, Result, RunId, StageKey};
use trainyard_runtime::curves::points;
use trainyard_store::{AttemptStream, Store};

/// Maximum points of a curve; a longer one keeps every second point.
const MAX_POINTS: usize = 2_048;
/// Maximum curves of a stage.
const MAX_CURVES: usize = 512;
/// Maximum bytes of an unfinished line.
const MAX_REST: usize = 1 << 20;

/// Curves by name: step and value.
pub type Curves = BTreeMap<String, Vec<(u64, f64)>>;

/// Curves of a stage over its attempts. An attempt that resumed from a checkpoint replaces the steps after it.
#[derive(Debug, Default)]
pub struct CurveTail {
    attempt: AttemptNumber,
    /// Number of the next chunk of that attempt.
    next: u32,
    /// Beginning of a line whose end is in the next chunk.
    rest: Vec<u8>,
    curves: BTreeMap<String, ThinnedCurve>,
    shown: Arc<Curves>,
}

impl CurveTail {
    /// Reads at most `limit` new chunks of the attempts, which are in order, and returns the curves. Errors: those of
    /// the store; the next call continues at the chunk that failed.
    pub async fn turn(
        &mut self,
        store: &Store,
        run: &RunId,
        stage: &StageKey,
        attempts: &[AttemptNumber],
        limit: usize,
    ) -> Result<Arc<Curves>> {
        let (mut left, mut has_news) = (limit, false);
        for attempt in attempts.iter().copied().filter(|attempt| *attempt >= self.attempt).collect::<Vec<_>>() {
            if attempt > self.attempt {
                (self.attempt, self.next, self.rest) = (attempt, 0, Vec::new());
            }
            let mut chunks = store.chunks(run, stage, attempt, AttemptStream::Metrics, self.next);
            while left > 0 {
                let Some(chunk) = chunks.next().await? else { break };
                (self.next, left, has_news) = (self.next + 1, left - 1, true);
                self.add(&chunk);
            }
            // The rest of this attempt is read before the next one.
            if left == 0 {
                break;
            }
        }
        if has_news {
            let curves = self.curves.iter().map(|(name, curve)| (name.clone(), curve.points.clone()));
            self.shown = Arc::new(curves.collect());
        }
        Ok(self.shown.clone())
    }

    fn add(&mut self, chunk: &[u8]) {
        self.rest.extend_from_slice(chunk);
        let complete = self.rest.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let rest = self.rest.split_off(complete);
        let lines = std::mem::replace(&mut self.rest, rest);
        if self.rest.len() > MAX_REST {
            self.rest.clear();
        }
        for (name, step, value) in points(&lines) {
            if self.curves.len() < MAX_CURVES || self.curves.contains_key(&name) {
                self.curves.entry(name).or_default().add(self.attempt, step, value);
            }
        }
    }
}

/// Curve that keeps every point, or, once it is long, every second, fourth, … point.
#[derive(Debug, Default)]
struct ThinnedCurve {
    attempt: AttemptNumber,
    points: Vec<(u64, f64)>,
    /// Binary logarithm of the number of points of which one is kept.
    thinning: u32,
    seen: u64,
}

impl ThinnedCurve {
    fn add(&mut self, attempt: AttemptNumber, step: u64, value: f64) {
        if attempt > self.attempt {
            self.attempt = attempt;
            let kept = self.points.partition_point(|(known, _)| *known < step);
            self.points.truncate(kept);
        }
        self.seen += 1;
        if !self.seen.is_multiple_of(1 << self.thinning) {
            return;
        }
        self.points.push((step, value));
        if self.points.len() > MAX_POINTS {
            let mut at = 0;
            self.points.retain(|_| {
                at += 1;
                at % 2 == 0
            });
            self.thinning += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trainyard_core::attempt::AttemptMessage;
    use trainyard_store::StoreOptions;

    #[tokio::test]
    async fn later_attempts_replace_the_steps_that_they_repeat() {
        let store = Store::open("memory://", StoreOptions::default()).await.unwrap();
        let (run, stage) = (RunId("20261121-000000-000000".into()), StageKey("rl".into()));
        let line = |step: u64, value: f64| {
            serde_json::to_string(&AttemptMessage::Metric { name: "loss".into(), step, value }).unwrap() + "\n"
        };
        let put = async |attempt: AttemptNumber, number: u32, text: String| {
            store.put_chunk(&run, &stage, attempt, AttemptStream::Metrics, number, text.into()).await.unwrap();
        };
        let third = line(3, 2.4);
        let (begin, end) = third.split_at(9);
        put(1, 0, line(1, 3.0) + &line(2, 2.5) + begin).await;
        let mut tail = CurveTail::default();
        let curves = tail.turn(&store, &run, &stage, &[1], 9).await.unwrap();
        assert_eq!(curves["loss"], [(1, 3.0), (2, 2.5)], "half a line waits for its end");
        put(1, 1, end.to_string()).await;
        let curves = tail.turn(&store, &run, &stage, &[1], 9).await.unwrap();
        assert_eq!(curves["loss"], [(1, 3.0), (2, 2.5), (3, 2.4)]);
        put(2, 0, line(2, 2.0)).await;
        let curves = tail.turn(&store, &run, &stage, &[1, 2], 9).await.unwrap();
        assert_eq!(curves["loss"], [(1, 3.0), (2, 2.0)]);
        let again = tail.turn(&store, &run, &stage, &[1, 2], 9).await.unwrap();
        assert!(Arc::ptr_eq(&curves, &again), "nothing is new");
    }

    #[test]
    fn long_curves_keep_a_bounded_number_of_points_over_all_steps() {
        let mut curve = ThinnedCurve::default();
        (1..=100_000u32).for_each(|step| curve.add(1, u64::from(step), f64::from(step)));
        assert!(curve.points.len() <= MAX_POINTS && curve.points.len() > MAX_POINTS / 4, "{}", curve.points.len());
        assert!(curve.points[0].0 < 200 && curve.points.last().unwrap().0 > 99_800);
        assert!(curve.points.is_sorted_by_key(|(step, _)| *step));
    }
}
