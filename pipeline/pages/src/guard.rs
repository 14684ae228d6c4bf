//! Admits requests: the host, a token or the cookie that stands for it, and the origin of forms.
//!
//! A person opens the printed address, which contains the token. The response sets the cookie and leads to the same
//! address without the token, so that no copied address and no `Referer` contains it.

use crate::access::{PageAccess, PageUser, form_key};
use crate::error::PageError;
use crate::state::PageState;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use std::sync::Arc;

/// Name of the parameter that contains the token in the printed address.
const TOKEN: &str = "token";

/// Passes a request to its page with the [`PageUser`] as an extension, or rejects it.
pub async fn guard(State(app): State<Arc<PageState>>, mut request: Request, next: Next) -> Response {
    if request.uri().path().starts_with("/assets/") {
        return next.run(request).await;
    }
    match admit(&app, &request) {
        Ok(Admission::User(user)) => {
            request.extensions_mut().insert(user);
            next.run(request).await
        }
        Ok(Admission::Login { cookie, address }) => login(&cookie, &address),
        Err(error) => error.into_response(),
    }
}

enum Admission {
    User(PageUser),
    /// The address contains a valid token.
    Login {
        cookie: String,
        address: String,
    },
}

fn admit(app: &PageState, request: &Request) -> Result<Admission, PageError> {
    let headers = request.headers();
    let host =
        text(headers, header::HOST).or_else(|| request.uri().authority().map(axum::http::uri::Authority::as_str));
    let host = host.unwrap_or_default();
    if !app.address.permits_host(host) {
        let message = format!("this server is not known as {host:?}");
        return Err(
            PageError::new(StatusCode::FORBIDDEN, message).help("start it with `--public-url` and this address")
        );
    }
    if !request.method().is_safe() {
        check_origin(app, headers, host)?;
    }
    let (name, may_change, secret) = match &app.access {
        PageAccess::Open { secret, may_change } => ("local".to_string(), *may_change, secret.as_str()),
        PageAccess::Token(find) => {
            if let Some(token) = token_of(request.uri()).filter(|_| request.method() == Method::GET) {
                find(&token).ok_or_else(unauthorized)?;
                let address = without_token(request.uri());
                return Ok(Admission::Login { cookie: cookie(app, &token), address });
            }
            let name = cookie_name(app);
            let token = cookie_of(headers, &name).or_else(|| bearer(headers)).ok_or_else(unauthorized)?;
            let (holder, may_change) = find(token).ok_or_else(unauthorized)?;
            (holder, may_change, token)
        }
    };
    if !request.method().is_safe() && !may_change {
        let message = format!("{name} has only read access");
        return Err(PageError::new(StatusCode::FORBIDDEN, message).help("open the pages with a token of an operator"));
    }
    Ok(Admission::User(PageUser { name, may_change, form_key: form_key(secret) }))
}

/// Refuses forms of other sites. Browsers send `Origin` with every form.
fn check_origin(app: &PageState, headers: &HeaderMap, host: &str) -> Result<(), PageError> {
    let is_permitted = match text(headers, header::ORIGIN) {
        Some(origin) => app.address.permits_origin(origin, host),
        None => text(headers, header::HeaderName::from_static("sec-fetch-site")) == Some("same-origin"),
    };
    if is_permitted {
        return Ok(());
    }
    let help = "behind a proxy, start the server with `--public-url` and the address that the browser shows";
    Err(PageError::new(StatusCode::FORBIDDEN, "the form comes from another site").help(help))
}

fn unauthorized() -> PageError {
    let help = "open the address that `trainyard run` or `trainyard serve` printed; it contains the token";
    PageError::new(StatusCode::UNAUTHORIZED, "these pages need a token").help(help)
}

/// Servers on one machine share the cookies of its name, so the cookie's name has the port.
fn cookie_name(app: &PageState) -> String {
    format!("trainyard_{}", app.address.port())
}

fn cookie(app: &PageState, token: &str) -> String {
    let secure = if app.address.url().starts_with("https://") { "; Secure" } else { "" };
    format!("{}={token}; Path=/; HttpOnly; SameSite=Strict{secure}", cookie_name(app))
}

fn cookie_of<'r>(headers: &'r HeaderMap, name: &str) -> Option<&'r str> {
    let all = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut pairs = all.flat_map(|value| value.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.find(|(key, _)| *key == name).map(|(_, value)| value)
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    text(headers, header::AUTHORIZATION).and_then(|value| value.strip_prefix("Bearer ")).map(str::trim)
}

/// Returns the token in an address. Tokens have letters, digits, `-` and `_` only; a cookie may contain no others.
fn token_of(uri: &Uri) -> Option<String> {
    let pairs = uri.query()?.split('&').filter_map(|pair| pair.split_once('='));
    let token = pairs.into_iter().find(|(name, _)| *name == TOKEN)?.1;
    Some(token.chars().filter(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.')).collect())
}

/// Returns the last segment of an address and its other parameters: an address relative to the request's.
fn without_token(uri: &Uri) -> String {
    let last = uri.path().rsplit('/').next().unwrap_or_default();
    let others: Vec<&str> = uri.query().unwrap_or_default().split('&').collect();
    let others: Vec<&str> = others.into_iter().filter(|pair| !pair.starts_with("token=") && !pair.is_empty()).collect();
    let query = if others.is_empty() { String::new() } else { format!("?{}", others.join("&")) };
    format!("./{last}{query}")
}

fn login(cookie: &str, address: &str) -> Response {
    let mut response = StatusCode::SEE_OTHER.into_response();
    let headers = response.headers_mut();
    if let (Ok(cookie), Ok(address)) = (HeaderValue::from_str(cookie), HeaderValue::from_str(address)) {
        headers.insert(header::SET_COOKIE, cookie);
        headers.insert(header::LOCATION, address);
    }
    response
}

fn text(headers: &HeaderMap, name: header::HeaderName) -> Option<&str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}
