//! Opens sessions from command-line arguments, and prints mistakes of a site file on stderr.

use crate::args::SiteArgs;
use crate::logging;
use crate::output::diagnostics;
pub use trainyard_app::session::{SITE_FILE, read_site};
pub use trainyard_app::{Access, AppSession};
use trainyard_app::{Catalogue, SessionError, SessionOptions};
use trainyard_core::{Error, Result};
use trainyard_spec::site::Site;

/// Opens the store that the arguments name. Attempts of the session inherit the diagnostics settings of this process.
///
/// Errors: invalid (the site file, or the store's URL), lost (the store is unreachable: exit code 3).
pub fn open(args: &SiteArgs, access: Access, catalogue: &Catalogue) -> Result<AppSession> {
    let mut session = AppSession::open(&place(args), access, catalogue).map_err(into_error)?;
    session.environment = logging::environment();
    Ok(session)
}

/// Opens the store like [`open`], but prints nothing: mistakes of the site file are part of the error.
pub fn open_quietly(args: &SiteArgs, access: Access, catalogue: &Catalogue) -> Result<AppSession> {
    AppSession::open(&place(args), access, catalogue).map_err(Error::from)
}

/// Reads the site that the arguments name, without opening its store.
pub fn site(args: &SiteArgs, catalogue: &Catalogue) -> Result<Site> {
    trainyard_app::session::site(&place(args), catalogue).map_err(into_error)
}

fn place(args: &SiteArgs) -> SessionOptions {
    SessionOptions { store: args.store.clone(), site: args.site.clone() }
}

/// Prints the diagnostics of a site file, if these are the error, and returns the error.
fn into_error(error: SessionError) -> Error {
    match error {
        SessionError::Error(error) => error,
        SessionError::Site { path, found, sources } => {
            diagnostics::print(&found, &sources);
            Error::invalid(format!("the site file {} has {}", path.display(), diagnostics::count(&found)))
        }
    }
}
