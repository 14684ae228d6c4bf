//! Implements `trainyard report`: the pages of a run as files.

use super::page_catalogue;
use crate::args::ReportArgs;
use crate::exit::CliExit;
use crate::output::human::{print_lines, print_note};
use crate::session::{self, Access};
use std::sync::Arc;
use trainyard_app::Catalogue;
use trainyard_core::{Clock, Result, SystemClock};
use trainyard_pages::{PageProgram, PageQueries, SiteSummary};
use trainyard_views::find;

/// Maximum pages with an error that are named.
const NAMED: usize = 5;

/// Writes the pages. Errors: invalid (no such run, a folder with files), those of the store and of the disk.
pub fn run(args: &ReportArgs, catalogue: &Arc<Catalogue>) -> Result<CliExit> {
    let session = session::open(&args.site(), Access::Read, catalogue)?;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let store = session.store.clone();
    let catalogue = page_catalogue::lazy(catalogue, &session.site);
    // No page of the copy runs a query.
    let program = PageProgram { version: env!("CARGO_PKG_VERSION"), catalogue, queries: PageQueries::default() };
    let summary = session.block_on(async {
        let run = find::run(&store, &args.run).await?;
        trainyard_pages::write_site(store.clone(), clock, &run, args.rollouts, &args.folder, program).await
    })?;
    for path in summary.with_error.iter().take(NAMED) {
        print_note(&format!("the page {path} shows an error instead of its content"));
    }
    if summary.with_error.len() > NAMED {
        print_note(&format!("so do {} more", summary.with_error.len() - NAMED));
    }
    print_lines(&format!("{}\n", text(&summary, &args.folder.join("index.html").display().to_string())));
    Ok(CliExit::Done)
}

fn text(summary: &SiteSummary, first: &str) -> String {
    let SiteSummary { pages, rollouts, rollouts_total, .. } = summary;
    let kilobytes = summary.bytes.div_ceil(1_000);
    format!("wrote {pages} pages ({kilobytes} kB) with {rollouts} of {rollouts_total} rollouts; open {first}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_names_the_first_page() {
        let summary = SiteSummary { pages: 12, bytes: 1_500, rollouts: 4, rollouts_total: 100, with_error: Vec::new() };
        let expected = "wrote 12 pages (2 kB) with 4 of 100 rollouts; open site/index.html";
        assert_eq!(text(&summary, "site/index.html"), expected);
    }
}
