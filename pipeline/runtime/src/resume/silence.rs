//! Whether a writer of another host still writes.
//!
//! The times in its journal are those of its own clock, which may differ from ours by any amount. So silence is what
//! this process has seen itself: the journal did not grow while 30 s passed on its own monotonic clock.

use crate::patience::{SHORT_WAITS, patiently};
use std::time::Duration;
use trainyard_core::{Clock, Result};
use trainyard_store::{JournalReader, Store};

/// A writer that puts nothing for this long may be replaced. One that lives puts a heartbeat every 10 s.
pub const SILENCE: Duration = Duration::from_secs(30);
/// Time between two looks at the journal.
const LOOK: Duration = Duration::from_millis(500);

/// Waits until the journal goes on behind this position (`false`), or [`SILENCE`] has passed without that (`true`).
pub(crate) async fn is_silent(store: &Store, reader: &JournalReader, clock: &dyn Clock) -> Result<bool> {
    let begin = clock.monotonic();
    loop {
        // Taken before the look, so that the last look is made after the whole time.
        let waited = clock.monotonic().saturating_sub(begin);
        let goes_on = patiently(store, &SHORT_WAITS, || {
            let mut ahead = reader.clone();
            async move { Ok(ahead.next().await?.is_some()) }
        });
        if goes_on.await? {
            return Ok(false);
        }
        if waited >= SILENCE {
            return Ok(true);
        }
        tokio::time::sleep(LOOK).await;
    }
}
