//! Appends numbered, create-only JSON records to a folder, and reads them in order.

use crate::connection::CreateOutcome;
use crate::store::Store;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use trainyard_core::{Error, Result};

/// Version of the format of tags and notes.
pub(crate) const FORMAT: u32 = 1;

#[derive(Deserialize)]
struct FormatHeader {
    format: u32,
}

/// Returns the records of a folder by their numbers, which begin with 1. Errors: data (a record cannot be read),
/// invalid (a newer program wrote it).
pub(crate) async fn read<T: DeserializeOwned>(store: &Store, folder: &str) -> Result<Vec<(u64, T)>> {
    let mut records = Vec::new();
    for number in 1.. {
        let path = path(folder, number);
        let Some(bytes) = store.get(&path).await? else { break };
        records.push((number, parse(&path, &bytes)?));
    }
    Ok(records)
}

/// Appends the record that `next` makes of the records before it, unless it makes none. Returns the number of the
/// appended record. `next` is called again if another process has appended a record meanwhile.
///
/// Errors: invalid (the store was opened read-only), those of [`read`].
pub(crate) async fn append<T: Serialize + DeserializeOwned>(
    store: &Store,
    folder: &str,
    mut next: impl FnMut(&[(u64, T)]) -> Option<T>,
) -> Result<Option<u64>> {
    store.writable(folder)?;
    let mut records = read::<T>(store, folder).await?;
    loop {
        let Some(record) = next(&records) else { return Ok(None) };
        let number = records.len() as u64 + 1;
        let path = path(folder, number);
        let bytes = serde_json::to_vec(&record).map_err(|e| Error::bug(format!("{path}: no JSON form: {e}")))?;
        match store.create(&path, bytes.into()).await? {
            CreateOutcome::Ours => return Ok(Some(number)),
            CreateOutcome::Theirs(bytes) => records.push((number, parse(&path, &bytes)?)),
        }
    }
}

fn path(folder: &str, number: u64) -> String {
    format!("{folder}/{number:06}")
}

fn parse<T: DeserializeOwned>(path: &str, bytes: &[u8]) -> Result<T> {
    let damaged = |e| Error::data(format!("{path}: not a tag or note: {e}")).help("delete this file");
    let header: FormatHeader = serde_json::from_slice(bytes).map_err(damaged)?;
    if header.format != FORMAT {
        return Err(Error::invalid(format!("{path}: format {} is newer than this program", header.format))
            .help("use a newer trainyard"));
    }
    serde_json::from_slice(bytes).map_err(damaged)
}
