//! Finds the route of a path, and the base path before it.

use crate::request::ApiKind;

/// Operation of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ModelApiRoute {
    /// A response of a model.
    Ask(ApiKind),
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

impl ModelApiRoute {
    /// Returns whether the route takes a body by POST; other routes use GET.
    pub fn takes_body(&self) -> bool {
        matches!(self, Self::Ask(_) | Self::Count | Self::Tokenize)
    }
    /// Returns the API whose error format applies.
    pub fn api(&self) -> ApiKind {
        match self {
            Self::Ask(form) => *form,
            Self::Count => ApiKind::Messages,
            Self::Models | Self::Model(_) | Self::Tokenize | Self::Health => ApiKind::Chat,
        }
    }
}

/// Returns the route of a path and the base before it, or `None` for an unknown path.
pub fn find(path: &str) -> Option<(String, ModelApiRoute)> {
    let ends: [(&str, ModelApiRoute); 8] = [
        ("/v1/chat/completions", ModelApiRoute::Ask(ApiKind::Chat)),
        ("/v1/completions", ModelApiRoute::Ask(ApiKind::Completions)),
        ("/v1/responses", ModelApiRoute::Ask(ApiKind::Responses)),
        ("/v1/messages", ModelApiRoute::Ask(ApiKind::Messages)),
        ("/v1/messages/count_tokens", ModelApiRoute::Count),
        ("/v1/models", ModelApiRoute::Models),
        ("/tokenize", ModelApiRoute::Tokenize),
        ("/health", ModelApiRoute::Health),
    ];
    let path = path.strip_suffix('/').unwrap_or(path);
    let exact = ends.into_iter().find_map(|(end, route)| Some((path.strip_suffix(end)?.to_string(), route)));
    exact.or_else(|| {
        // Names of models may contain slashes.
        let (base, name) = path.split_once("/v1/models/")?;
        (!name.is_empty()).then(|| (base.to_string(), ModelApiRoute::Model(name.to_string())))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_is_split_into_base_and_route() {
        let of = |path: &str| find(path).unwrap();
        assert_eq!(of("/v1/chat/completions"), (String::new(), ModelApiRoute::Ask(ApiKind::Chat)));
        assert_eq!(of("/e/7/v1/messages"), ("/e/7".into(), ModelApiRoute::Ask(ApiKind::Messages)));
        assert_eq!(of("/e/7/v1/messages/count_tokens"), ("/e/7".into(), ModelApiRoute::Count));
        assert_eq!(of("/v1/completions/"), (String::new(), ModelApiRoute::Ask(ApiKind::Completions)));
        assert_eq!(of("/v1/models/org/name"), (String::new(), ModelApiRoute::Model("org/name".into())));
        assert_eq!(of("/health").1, ModelApiRoute::Health);
        assert!(find("/v1/embeddings").is_none() && find("/").is_none() && find("/v1/models/x/").is_some());
    }
}
