//! Implements `trainyard pages`, which serves the pages of a store until a signal arrives.

use super::page_catalogue;
use crate::args::ServePagesArgs;
use crate::exit::CliExit;
use crate::output::human::print_note;
use crate::pages;
use crate::session::{self, Access};
use std::sync::Arc;
use trainyard_app::Catalogue;
use trainyard_core::{Clock, Result, SystemClock};
use trainyard_runtime::Interrupt;

/// Serves the pages. Errors: invalid (no store: a folder that is made later would not be seen), those of the address.
pub fn run(args: &ServePagesArgs, catalogue: &Arc<Catalogue>) -> Result<CliExit> {
    let session = session::open(&args.site, Access::Read, catalogue)?;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let started = pages::start(&session, &args.pages, clock, page_catalogue::lazy(catalogue, &session.site))?;
    print_note(&format!("pages of {}: {}", session.store.url(), started.url("")));
    session.block_on(async {
        let interrupt = Interrupt::default();
        interrupt.on_signals()?;
        interrupt.beyond(0).await;
        Ok(())
    })?;
    Ok(CliExit::Done)
}
