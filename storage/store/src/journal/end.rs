//! Finds the end of a journal without reading its batches, for observers that only check whether its writer is alive.
//!
//! A journal has no gaps, so the search checks the existence of single batches, in steps that double and then halve. A
//! journal of 100,000 batches takes some thirty requests the first time, and one request while it does not grow.

use super::format::{JournalBatch, decode};
use crate::layout;
use crate::store::Store;
use trainyard_core::{Result, RunId};

impl Store {
    /// Returns the number of the next batch in a run's journal, searched from `from` on, where an earlier call found
    /// it; 0 for a run without a journal. The number is never less than `from`. It may be too small if the store
    /// temporarily hides batches, or a batch is missing; the next call continues from it.
    pub async fn journal_end(&self, run: &RunId, from: u64) -> Result<u64> {
        gallop(from, |number| async move { Ok(self.connection().size(&layout::journal(run, number)).await?.is_some()) })
            .await
    }
    /// Reads one batch of a run's journal in isolation: its position in the chain is not checked. `None` if it does not
    /// exist. Errors: data (damaged).
    pub async fn journal_batch(&self, run: &RunId, number: u64) -> Result<Option<JournalBatch>> {
        let path = layout::journal(run, number);
        self.get(&path).await?.map(|bytes| decode(&path, &bytes)).transpose()
    }
}

/// Returns the first number from `from` on that does not exist, if all before it do.
async fn gallop<F: Future<Output = Result<bool>>>(from: u64, mut exists: impl FnMut(u64) -> F) -> Result<u64> {
    if !exists(from).await? {
        return Ok(from);
    }
    let (mut last, mut step) = (from, 1);
    let mut end = loop {
        let next = last + step;
        if !exists(next).await? {
            break next;
        }
        (last, step) = (next, 2 * step);
    };
    while end - last > 1 {
        let middle = last + (end - last) / 2;
        if exists(middle).await? {
            last = middle;
        } else {
            end = middle;
        }
    }
    Ok(end)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::StoreOptions;
    use futures::FutureExt as _;
    use proptest::prelude::*;
    use serde_json::json;
    use std::cell::Cell;
    use trainyard_core::{Error, ErrorKind};

    /// Returns the end, and the number of checks.
    fn search(from: u64, exists: impl Fn(u64) -> bool) -> (u64, u32) {
        let checks = Cell::new(0);
        let found = gallop(from, |number| {
            checks.set(checks.get() + 1);
            let found = exists(number);
            async move { Ok(found) }
        });
        (found.now_or_never().unwrap().unwrap(), checks.get())
    }

    #[test]
    fn end_is_found_from_every_start() {
        for end in 0..70 {
            for from in 0..=end {
                assert_eq!(search(from, |n| n < end).0, end, "from {from}");
            }
        }
        assert_eq!(search(9, |n| n < 5).0, 9, "a journal that shrank has not grown");
    }

    #[test]
    fn search_needs_few_requests() {
        assert_eq!(search(100_000, |n| n < 100_000), (100_000, 1));
        assert_eq!(search(99_999, |n| n < 100_000), (100_000, 2));
        let (end, checks) = search(0, |n| n < 100_000);
        assert!(end == 100_000 && checks <= 36, "{checks} checks");
    }

    proptest! {
        /// A store may hide batches that exist.
        #[test]
        fn search_with_hidden_batches_stays_in_bounds(
            hidden in proptest::collection::btree_set(0_u64..200, 0..20), end in 0_u64..200, from in 0_u64..200
        ) {
            let found = search(from, |n| n < end && !hidden.contains(&n)).0;
            prop_assert!(found >= from && found <= end.max(from));
            let grew = from < end && !hidden.contains(&from);
            prop_assert_eq!(found > from, grew);
        }
    }

    #[tokio::test]
    async fn store_returns_the_end_and_single_batches() {
        let store = Store::open("memory://", StoreOptions::default()).await.unwrap();
        let run = RunId("20260102-030405-00000a".into());
        assert_eq!(store.journal_end(&run, 0).await, Ok(0));
        assert_eq!(store.journal_batch(&run, 0).await, Ok(None));
        let (mut writer, _) =
            crate::JournalWriter::open(&store, &run, "w", |epoch| json!({"epoch": epoch})).await.unwrap();
        for number in 1..9 {
            writer.append(&[json!({"n": number})]).await.unwrap();
        }
        assert_eq!(store.journal_end(&run, 0).await, Ok(9));
        assert_eq!(store.journal_end(&run, 9).await, Ok(9));
        let batch = store.journal_batch(&run, 8).await.unwrap().unwrap();
        assert_eq!((batch.header.seq, batch.events), (8, vec![json!({"n": 8})]));
        store.create(&layout::journal(&run, 9), "{half".into()).await.unwrap();
        assert_eq!(store.journal_batch(&run, 9).await.unwrap_err().kind, ErrorKind::Data);
    }

    #[tokio::test]
    async fn failed_request_is_an_error() {
        assert_eq!(gallop(3, |_| async { Err(Error::retryable("503")) }).await, Err(Error::retryable("503")));
    }
}
