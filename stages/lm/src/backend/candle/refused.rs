//! What the backend refuses.

use crate::adapter::Adapter;
use trainyard_core::{Error, Result};

/// Errors: invalid, for a model with an adapter.
pub fn expect_no_adapter(adapter: Option<&Adapter>) -> Result<()> {
    match adapter {
        None => Ok(()),
        Some(_) => Err(Error::invalid("the backend `candle` does not compute adapters")
            .help("leave `backend` out, or merge the adapter first with a stage `model/merge`")),
    }
}
