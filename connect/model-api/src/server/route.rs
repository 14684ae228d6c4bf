//! Routes of paths, and the prefix before them.

use crate::asked::Form;

/// Operation of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Route {
    /// An answer.
    Ask(Form),
    /// The number of tokens of an Anthropic request.
    Count,
    /// All models.
    Models,
    /// A model by its name.
    Model(String),
    /// Token ids of a text, as in vLLM.
    Tokenize,
    /// Health check.
    Health,
}

impl Route {
    /// Returns whether the route takes a body by POST; the others are requested by GET.
    pub fn takes_body(&self) -> bool {
        matches!(self, Self::Ask(_) | Self::Count | Self::Tokenize)
    }
    /// Returns the form whose error format applies.
    pub fn form(&self) -> Form {
        match self {
            Self::Ask(form) => *form,
            Self::Count => Form::Messages,
            Self::Models | Self::Model(_) | Self::Tokenize | Self::Health => Form::Chat,
        }
    }
}

/// Returns the route of a path and the base before it, or `None` for an unknown path.
pub fn find(path: &str) -> Option<(String, Route)> {
    let ends: [(&str, Route); 8] = [
        ("/v1/chat/completions", Route::Ask(Form::Chat)),
        ("/v1/completions", Route::Ask(Form::Completions)),
        ("/v1/responses", Route::Ask(Form::Responses)),
        ("/v1/messages", Route::Ask(Form::Messages)),
        ("/v1/messages/count_tokens", Route::Count),
        ("/v1/models", Route::Models),
        ("/tokenize", Route::Tokenize),
        ("/health", Route::Health),
    ];
    let path = path.strip_suffix('/').unwrap_or(path);
    let whole = ends.into_iter().find_map(|(end, route)| Some((path.strip_suffix(end)?.to_string(), route)));
    whole.or_else(|| {
        // Names of models may contain slashes.
        let (base, name) = path.split_once("/v1/models/")?;
        (!name.is_empty()).then(|| (base.to_string(), Route::Model(name.to_string())))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_a_base_and_a_route() {
        let of = |path: &str| find(path).unwrap();
        assert_eq!(of("/v1/chat/completions"), (String::new(), Route::Ask(Form::Chat)));
        assert_eq!(of("/e/7/v1/messages"), ("/e/7".into(), Route::Ask(Form::Messages)));
        assert_eq!(of("/e/7/v1/messages/count_tokens"), ("/e/7".into(), Route::Count));
        assert_eq!(of("/v1/completions/"), (String::new(), Route::Ask(Form::Completions)));
        assert_eq!(of("/v1/models/org/name"), (String::new(), Route::Model("org/name".into())));
        assert_eq!(of("/health").1, Route::Health);
        assert!(find("/v1/embeddings").is_none() && find("/").is_none() && find("/v1/models/x/").is_some());
    }
}
