//! Style, scripts and icon of the pages, inside of the program.

use crate::error::PageError;
use axum::extract::Path;
use axum::http::header;
use axum::response::{IntoResponse, Response};

/// Files by name, with their types.
pub const ALL: [(&str, &str, &str); 7] = [
    ("style.css", "text/css; charset=utf-8", include_str!("style.css")),
    ("theme.js", "text/javascript; charset=utf-8", include_str!("theme.js")),
    ("script.js", "text/javascript; charset=utf-8", include_str!("script.js")),
    ("live.js", "text/javascript; charset=utf-8", include_str!("live.js")),
    ("site.js", "text/javascript; charset=utf-8", include_str!("site.js")),
    ("icon.svg", "image/svg+xml", include_str!("icon.svg")),
    ("rollout.js", "text/javascript; charset=utf-8", include_str!("rollout.js")),
];

/// Sends an asset. Browsers request it again after a minute, since a newer program may have another.
pub async fn serve(Path(name): Path<String>) -> Response {
    let Some((_, kind, text)) = ALL.iter().find(|(known, ..)| *known == name) else {
        return PageError::not_found("there is no such file").into_response();
    };
    ([(header::CONTENT_TYPE, *kind), (header::CACHE_CONTROL, "max-age=60")], *text).into_response()
}
