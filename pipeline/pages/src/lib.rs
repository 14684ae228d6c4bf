//! Pages for a browser: runs, rollouts, data, lineage and schedules, rendered on the server from `pipeline/views`.
//!
//! ```text
//! request ─▶ access: Host, token or cookie, origin of forms ─▶ page (one file in `pages/`) ─▶ view of the store
//!                                                                 └─▶ layout, charts ─▶ HTML
//! ```
//!
//! Pages of a run that is open follow it: `live` sends its changes as server-sent events.
//!
//! A page is one file in `pages/` and one line in its list `pages::all`. Pages use relative addresses only, so they
//! work through any proxy that strips a prefix, and in a folder on a disk. All text of artifacts is untrusted: the
//! templates escape it, `text` makes control and direction characters visible, and the content security policy
//! permits no inline script.
#![warn(missing_docs)]

mod access;
mod address;
mod areas;
mod assets;
mod catalogue;
mod charts;
mod compression;
mod error;
#[cfg(test)]
mod fixture;
mod forms;
mod guard;
mod layout;
mod links;
mod live;
mod local;
mod outcomes;
mod pages;
mod progress;
mod queries;
mod request;
mod server;
mod site;
mod state;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
mod text;

pub use access::{PageAccess, PageUser, TokenFinder};
pub use address::PageAddress;
pub use catalogue::{LazyCatalogue, LazyRecipes, PageCatalogue, PartEntry, RecipeCheck, RecipeEntry};
pub use local::{LocalPages, PageProgram, start};
pub use queries::{
    ConditionQuery, FindMatching, MatchingRows, PageQueries, RunSelect, SelectColumn, SelectQuery, SelectResult,
};
pub use server::router;
pub use site::{SiteSummary, write_site};
pub use state::PageState;
