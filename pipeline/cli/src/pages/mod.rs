//! Starts the page server of `run` and `pages`.

pub mod queries;

use crate::args::PagesArgs;
use crate::session::AppSession;
use std::sync::Arc;
use std::time::Duration;
use trainyard_app::session::home;
use trainyard_core::{Clock, Result};
use trainyard_pages::{LazyCatalogue, LocalPages, PageProgram};

/// Folder below `TRAINYARD_HOME` of the tokens of running servers.
const TOKENS: &str = "tokens";

/// Starts a page server on the session's runtime. Errors: those of [`trainyard_pages::start`].
pub fn start(
    session: &AppSession,
    args: &PagesArgs,
    clock: Arc<dyn Clock>,
    catalogue: LazyCatalogue,
) -> Result<LocalPages> {
    // A browser waits for the response, so its requests do not wait during an outage.
    let store = session.store.with_outage(Duration::ZERO);
    let queries = queries::of(&store);
    let address = (args.pages_bind, args.public_url.as_deref());
    let tokens = home().join(TOKENS);
    let program = PageProgram { version: env!("CARGO_PKG_VERSION"), catalogue, queries };
    session.block_on(trainyard_pages::start(store, clock, address, &tokens, program))
}
