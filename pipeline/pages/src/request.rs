//! Context of a request: links and sender.

use crate::access::PageUser;
use crate::error::PageError;
use crate::links::Links;
use axum::extract::FromRequestParts;
use axum::http::StatusCode;
use axum::http::request::Parts;

/// Links as seen from the page, and the person who opened it.
#[derive(Debug, Clone)]
pub struct PageRequest {
    /// Addresses of other pages.
    pub links: Links,
    /// Person who opened the page.
    pub user: PageUser,
}

impl<S: Sync> FromRequestParts<S> for PageRequest {
    type Rejection = PageError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, PageError> {
        let user = parts.extensions.get::<PageUser>().cloned();
        let user =
            user.ok_or_else(|| PageError::new(StatusCode::INTERNAL_SERVER_ERROR, "the request has no sender"))?;
        let links = parts.extensions.get::<Links>().cloned();
        Ok(Self { links: links.unwrap_or_else(|| Links::of_request(parts.uri.path(), &parts.extensions)), user })
    }
}

/// Returns a parameter unless it is empty: forms send their empty fields.
pub fn given(parameter: Option<String>) -> Option<String> {
    parameter.map(|text| text.trim().to_string()).filter(|text| !text.is_empty())
}
