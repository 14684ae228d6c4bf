//! Pins manifests: garbage collection keeps a pinned manifest under every policy.
//!
//! Each pin or unpin is a statement `pins/<aa>/<stage-digest>/<generation>/<n>`. Statements about a manifest are
//! numbered and create-only, and the newest one counts.

use crate::connection::CreateOutcome;
use crate::layout;
use crate::store::Store;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use trainyard_core::{Digest, Error, Result};

/// Version of the statement format.
const FORMAT: u32 = 1;

/// The last statement about a manifest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pin {
    /// Version of this format: 1.
    pub format: u32,
    /// Stage digest.
    pub stage_digest: Digest,
    /// Generation of the manifest.
    pub generation: u32,
    /// Whether the manifest is to be kept.
    pub pinned: bool,
    /// Time of the statement, in Unix milliseconds.
    pub at: i64,
    /// Reason given by the user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

impl Store {
    /// Pins or unpins a manifest. Returns whether that changed anything. Garbage collection honors only pins that exist
    /// before it reads them.
    ///
    /// Errors: invalid (the store was opened read-only), data (an earlier statement cannot be read).
    pub async fn set_pin(&self, stage: &Digest, generation: u32, pinned: bool, note: Option<String>) -> Result<bool> {
        let folder = layout::pin(stage, generation);
        let mut next = self.list(&folder).await?.iter().filter_map(|name| number(name)).max().unwrap_or(0);
        let mut last = None;
        loop {
            let path = format!("{folder}/{next:06}");
            if let Some(bytes) = self.get(&path).await? {
                last = Some(parse(&path, &bytes)?);
                next += 1;
                continue;
            }
            if last.as_ref().map_or(!pinned, |pin: &Pin| pin.pinned == pinned) {
                return Ok(false);
            }
            let at = self.options().clock.unix_millis();
            let pin = Pin { format: FORMAT, stage_digest: stage.clone(), generation, pinned, at, note: note.clone() };
            let bytes = serde_json::to_vec(&pin).map_err(|e| Error::bug(format!("{path}: no JSON form: {e}")))?;
            // The winner made a new statement, which is read next.
            if self.create(&path, bytes.into()).await? == CreateOutcome::Ours {
                return Ok(true);
            }
        }
    }
    /// Returns all pins in force, by stage digest and generation. Errors: data (one cannot be read), invalid (a newer
    /// program wrote it).
    pub async fn pins(&self) -> Result<Vec<Pin>> {
        let mut last: BTreeMap<String, u64> = BTreeMap::new();
        for name in self.list(layout::PINS).await? {
            let Some((folder, number)) = name.rsplit_once('/').zip(number(&name)).map(|((f, _), n)| (f, n)) else {
                continue;
            };
            let newest = last.entry(folder.to_string()).or_default();
            *newest = number.max(*newest);
        }
        let mut pins = Vec::new();
        for (folder, mut next) in last {
            let mut newest = None;
            loop {
                let path = format!("{folder}/{next:06}");
                match self.get(&path).await? {
                    Some(bytes) => newest = Some(parse(&path, &bytes)?),
                    None => break,
                }
                next += 1;
            }
            pins.extend(newest.filter(|pin: &Pin| pin.pinned));
        }
        Ok(pins)
    }
}

fn number(path: &str) -> Option<u64> {
    path.rsplit('/').next()?.parse().ok()
}

fn parse(path: &str, bytes: &[u8]) -> Result<Pin> {
    let pin: Pin = serde_json::from_slice(bytes)
        .map_err(|e| Error::data(format!("{path}: not a pin: {e}")).help("delete it, then pin the artifact again"))?;
    if pin.format != FORMAT {
        return Err(Error::invalid(format!("{path}: pin format {} is newer than this program", pin.format))
            .help("use a newer trainyard"));
    }
    Ok(pin)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::StoreOptions;

    async fn pin_notes(store: &Store) -> Vec<(u32, Option<String>)> {
        store.pins().await.unwrap().into_iter().map(|pin| (pin.generation, pin.note)).collect()
    }

    #[tokio::test]
    async fn newest_pin_record_wins() {
        let store = Store::open("memory://", StoreOptions::default()).await.unwrap();
        let stage = Digest::of(b"s");
        assert!(!store.set_pin(&stage, 0, false, None).await.unwrap(), "there was none to take away");
        assert!(store.set_pin(&stage, 0, true, Some("paper".into())).await.unwrap());
        assert!(!store.set_pin(&stage, 0, true, None).await.unwrap());
        assert!(store.set_pin(&stage, 3, true, None).await.unwrap());
        assert_eq!(pin_notes(&store).await, [(0, Some("paper".into())), (3, None)]);
        assert!(store.set_pin(&stage, 0, false, None).await.unwrap());
        assert_eq!(pin_notes(&store).await, [(3, None)]);
        assert!(store.set_pin(&stage, 0, true, Some("again".into())).await.unwrap());
        assert_eq!(pin_notes(&store).await, [(0, Some("again".into())), (3, None)]);
        assert_eq!(store.list(layout::PINS).await.unwrap().len(), 4, "no pin record is removed");
    }

    #[tokio::test]
    async fn a_pin_that_cannot_be_read_is_an_error() {
        let store = Store::open("memory://", StoreOptions::default()).await.unwrap();
        let path = format!("{}/000000", layout::pin(&Digest::of(b"s"), 0));
        store.create(&path, "{half".into()).await.unwrap();
        assert!(store.pins().await.unwrap_err().message.contains(&path));
        assert!(store.set_pin(&Digest::of(b"s"), 0, true, None).await.is_err());
    }
}
