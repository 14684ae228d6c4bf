//! Rules about who may open the pages, and the keys of their forms.

use crate::error::PageError;
use axum::http::StatusCode;
use trainyard_core::Digest;
use trainyard_http_server::same_token;

/// Name of the hidden field of forms that proves that a page of this server contained the form.
pub const FORM_KEY: &str = "form_key";

/// Person who opened a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageUser {
    /// Name in journals and notes.
    pub name: String,
    /// Whether the person may cancel runs, change schedules, and write tags and notes.
    pub may_change: bool,
    /// Value of the hidden field of this person's forms.
    pub form_key: String,
}

/// Finds the name and the rights of a token's holder: `(name, may change)`.
pub type TokenFinder = Box<dyn Fn(&str) -> Option<(String, bool)> + Send + Sync>;

/// Rules about who may open the pages.
pub enum PageAccess {
    /// A token is required, which this function knows.
    Token(TokenFinder),
    /// No token is required. Forms need this secret, from which their keys are derived.
    Open {
        /// Random text of this process.
        secret: String,
        /// Whether any user may also make changes.
        may_change: bool,
    },
}

/// Checks the hidden field of a form. Errors: 403.
pub fn check_form(user: &PageUser, key: &str) -> Result<(), PageError> {
    if same_token(&user.form_key, key) {
        return Ok(());
    }
    Err(PageError::new(StatusCode::FORBIDDEN, "the form is not of this session").help("open the page again"))
}

/// Returns the value of the hidden field of forms of the holder of a secret.
pub fn form_key(secret: &str) -> String {
    Digest::of(format!("form key of {secret}").as_bytes()).to_string()
}
