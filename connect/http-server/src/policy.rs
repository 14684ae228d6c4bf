//! Defines the settings in which servers differ: credentials and advice to users.

/// Credentials of a server, and its advice to users.
#[derive(Debug, Clone, Copy)]
pub struct RequestPolicy {
    /// Whether requests must have a credential. Otherwise the server listens on loopback only, and a request must name
    /// this machine in `Host` and must not come from a page of another origin.
    pub protected: bool,
    /// Noun for the credential in errors, such as `token`.
    pub credential: &'static str,
    /// Whether the credential may be in `x-api-key`, where clients of Anthropic send it, instead of `Authorization`.
    pub x_api_key: bool,
    /// Whether the host of an absolute request target (`GET http://localhost/ HTTP/1.1`) replaces a missing `Host`.
    pub target_host: bool,
    /// Advice for an unprotected address that others can reach.
    pub help_unprotected: &'static str,
    /// Advice for an address that cannot be bound.
    pub help_unbound: &'static str,
}
