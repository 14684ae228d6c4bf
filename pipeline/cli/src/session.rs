//! Sessions from command-line arguments; mistakes of a site file are printed on stderr.

use crate::args::SiteArgs;
use crate::logging;
use crate::output::diagnostics;
pub use trainyard_app::session::{SITE_FILE, read_site};
pub use trainyard_app::{Access, AppSession};
use trainyard_app::{Catalogue, SessionError, SessionOptions};
use trainyard_core::{Error, Result};
use trainyard_spec::site::Site;

/// Opens the store named by the arguments; its attempts inherit the diagnostics settings of this process.
///
/// Errors: invalid (the site file, the store's URL), lost (the store is unreachable: exit 3).
pub fn open(args: &SiteArgs, access: Access, catalogue: &Catalogue) -> Result<AppSession> {
    let mut session = AppSession::open(&place(args), access, catalogue).map_err(into_error)?;
    session.environment = logging::environment();
    Ok(session)
}

/// Returns the site named by the arguments, without its store.
pub fn site(args: &SiteArgs, catalogue: &Catalogue) -> Result<Site> {
    trainyard_app::session::site(&place(args), catalogue).map_err(into_error)
}

fn place(args: &SiteArgs) -> SessionOptions {
    SessionOptions { store: args.store.clone(), site: args.site.clone() }
}

/// Prints the diagnostics of a site file, and returns its error.
fn into_error(error: SessionError) -> Error {
    match error {
        SessionError::Error(error) => error,
        SessionError::Site { path, found, sources } => {
            diagnostics::print(&found, &sources);
            Error::invalid(format!("the site file {} has {}", path.display(), diagnostics::count(&found)))
        }
    }
}
