//! Forms that change something: their key, their fields, and the errors of their requests.

use crate::access::{FORM_KEY, PageUser, check_form};
use crate::error::PageError;
use axum::Form;
use axum::extract::{FromRequest, Request};
use axum::http::StatusCode;
use maud::{Markup, html};
use trainyard_core::{Error, ErrorKind};

/// Fields of a form, after the rights of its sender and its key were checked.
#[derive(Debug)]
pub struct FormFields(Vec<(String, String)>);

impl FormFields {
    /// Returns the trimmed text of a field; `None` if it is missing or empty.
    pub fn text(&self, name: &str) -> Option<&str> {
        let (_, text) = self.0.iter().find(|(known, _)| known == name)?;
        Some(text.trim()).filter(|text| !text.is_empty())
    }
    /// Returns all fields, in the order of the form.
    pub fn all(&self) -> &[(String, String)] {
        &self.0
    }
}

impl<S: Send + Sync> FromRequest<S> for FormFields {
    type Rejection = PageError;

    async fn from_request(request: Request, state: &S) -> Result<Self, PageError> {
        let user = request.extensions().get::<PageUser>().cloned();
        let user =
            user.ok_or_else(|| PageError::new(StatusCode::INTERNAL_SERVER_ERROR, "the request has no sender"))?;
        if !user.may_change {
            let message = format!("{} has only read access", user.name);
            return Err(
                PageError::new(StatusCode::FORBIDDEN, message).help("open the pages with a token of an operator")
            );
        }
        let form = Form::<Vec<(String, String)>>::from_request(request, state).await;
        let Form(fields) = form.map_err(|rejection| {
            PageError::new(rejection.status(), rejection.body_text()).help("send the form of the page again")
        })?;
        let fields = Self(fields);
        check_form(&user, fields.text(FORM_KEY).unwrap_or_default())?;
        Ok(fields)
    }
}

/// Returns the hidden field that every form of this person needs.
pub fn key(user: &PageUser) -> Markup {
    html! { input type="hidden" name=(FORM_KEY) value=(user.form_key); }
}

/// Returns a form with one button and no other field.
pub fn button(user: &PageUser, action: &str, label: &str, question: Option<&str>) -> Markup {
    html! {
        form .action method="post" action=(action) data-confirm=[question] {
            (key(user))
            button type="submit" { (label) }
        }
    }
}

/// Converts the error of the request of a form: invalid values are a mistake of its sender.
pub fn refused(error: Error) -> PageError {
    let is_invalid = error.kind == ErrorKind::Invalid;
    let mut error = PageError::from(error);
    if is_invalid {
        error.status = StatusCode::BAD_REQUEST;
    }
    error
}

/// Returns the name under which a change of this person is recorded.
pub fn actor(user: &PageUser) -> String {
    format!("pages:{}", user.name)
}
