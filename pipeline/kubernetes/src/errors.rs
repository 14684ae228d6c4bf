//! Maps errors of the API server, and of the connection to it, to errors for the caller.

use kube::client::AuthError;
use kube::core::Status;
use std::error::Error as StdError;
use trainyard_core::Error;

/// Request to the API server.
#[derive(Debug, Clone, Copy)]
pub(crate) struct KubeRequest<'a> {
    /// Verb as written in RBAC roles: `create`.
    pub verb: &'static str,
    /// Resource as written in RBAC roles: `jobs`.
    pub resource: &'static str,
    pub namespace: &'a str,
}

/// Returns the error of a failed request: retryable if the same request may succeed later, invalid if the server would
/// refuse it again.
pub(crate) fn refusal(request: KubeRequest<'_>, error: &kube::Error) -> Error {
    let KubeRequest { verb, resource, namespace } = request;
    let place = format!("Kubernetes: cannot {verb} {resource} in namespace `{namespace}`");
    match error {
        kube::Error::Api(status) => response_error(request, status).at(place),
        kube::Error::Auth(error) => credentials(error).at(place),
        kube::Error::SerdeError(_) | kube::Error::FromUtf8(_) => {
            Error::retryable(format!("{place}: the response is not from a Kubernetes API server"))
                .help("check the cluster's address in the kubeconfig, and any proxy in between")
        }
        _ if chain(error).any(|text| text.contains("invalid peer certificate")) => {
            Error::invalid(format!("{place}: the certificate of the API server is not trusted"))
                .help("check `certificate-authority` of the cluster in the kubeconfig")
                .caused_by(error)
        }
        _ => Error::retryable(format!("{place}: the API server cannot be reached"))
            .help("check the cluster's address in the kubeconfig")
            .caused_by(error),
    }
}

/// Returns whether an object with the requested name already exists. The code alone is ambiguous, because a quota that
/// changed at the same time has the same code.
pub(crate) fn exists(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.is_already_exists())
}

/// Returns whether no object with the requested name exists. A missing namespace does not count.
pub(crate) fn is_absent(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.is_not_found() && !is_namespace(status))
}

fn is_namespace(status: &Status) -> bool {
    status.details.as_ref().is_some_and(|details| details.kind == "namespaces")
}

fn response_error(request: KubeRequest<'_>, status: &Status) -> Error {
    let message = status.message.as_str();
    match status.code {
        401 => Error::invalid(format!("the API server rejected the credentials (401): {message}"))
            .help("check the credentials of the context in the kubeconfig"),
        403 if message.contains("exceeded quota") => Error::retryable(message),
        403 => {
            let KubeRequest { verb, resource, namespace } = request;
            let help =
                format!("allow this account to {verb} {resource} in `{namespace}`; docs/clusters.md has the Role");
            Error::invalid(message).help(help)
        }
        404 if is_namespace(status) => {
            Error::invalid(message).help("create it, or change the pool's option `namespace`")
        }
        422 => Error::invalid(fields(status)).help("change the pool's options"),
        // Code 409 is a race inside the server; an object that already exists is not an error.
        408 | 409 | 429 | 500.. => Error::retryable(format!("{message} ({})", status.code)),
        code => Error::invalid(format!("{message} ({code})")),
    }
}

/// Lists the rejected fields, separated by `;`.
fn fields(status: &Status) -> String {
    let causes = status.details.iter().flat_map(|details| &details.causes);
    let fields: Vec<String> =
        causes.filter(|c| !c.field.is_empty()).map(|c| format!("`{}`: {}", c.field, c.message)).collect();
    if fields.is_empty() { status.message.clone() } else { fields.join("; ") }
}

/// Maps errors of the credential plugin. Only its stderr is reported, because its stdout may contain a token.
fn credentials(error: &AuthError) -> Error {
    match error {
        AuthError::AuthExecRun { cmd, out } => {
            let stderr = String::from_utf8_lossy(&out.stderr);
            let reason = stderr.lines().map(str::trim).rfind(|line| !line.is_empty()).unwrap_or("no output on stderr");
            Error::retryable(format!("the credential plugin `{cmd}` ended with {}: {reason}", out.status))
        }
        AuthError::AuthExecStart(e) => Error::invalid("cannot start the credential plugin of the kubeconfig")
            .help("install it, or choose another context")
            .caused_by(e),
        AuthError::AuthExecParse(_) | AuthError::ParseTokenKey(_) | AuthError::ExecPluginFailed => {
            Error::invalid("the kubeconfig's credential plugin returned no valid credential")
                .help("update the plugin, or choose another context")
        }
        other => Error::invalid("cannot use the credentials of the kubeconfig").caused_by(other),
    }
}

fn chain(error: &(dyn StdError + 'static)) -> impl Iterator<Item = String> {
    std::iter::successors(Some(error), |e| (*e).source()).map(ToString::to_string)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};
    use trainyard_core::ErrorKind;

    const CREATE: KubeRequest<'_> = KubeRequest { verb: "create", resource: "jobs", namespace: "ml" };

    fn api(status: Value) -> kube::Error {
        kube::Error::Api(Box::new(serde_json::from_value(status).unwrap()))
    }

    #[track_caller]
    fn expect(status: Value, kind: ErrorKind, words: &str) {
        let error = refusal(CREATE, &api(status));
        assert_eq!(error.kind, kind, "{error}");
        assert!(error.to_string().contains(words), "{error}");
    }

    #[test]
    fn refusals_are_invalid_with_help() {
        let words = "jobs.batch is forbidden: User \"ann\" cannot create resource \"jobs\"";
        let help = "allow this account to create jobs in `ml`";
        expect(json!({"code": 403, "reason": "Forbidden", "message": words}), ErrorKind::Invalid, help);
        expect(json!({"code": 401, "reason": "Unauthorized", "message": "Unauthorized"}), ErrorKind::Invalid, "401");
        let details = json!({"kind": "namespaces", "name": "ml"});
        let not_found = json!({"code": 404, "reason": "NotFound", "message": "namespaces \"ml\" not found",
            "details": details});
        assert!(!is_absent(&api(not_found.clone())), "a missing namespace is not a missing job");
        expect(not_found, ErrorKind::Invalid, "`namespace`");
    }

    #[test]
    fn invalid_object_error_lists_fields() {
        let causes = json!([{"reason": "FieldValueRequired", "message": "Required value",
            "field": "spec.template.spec.containers[0].image"}]);
        let status = json!({"code": 422, "reason": "Invalid", "message": "Job.batch \"j\" is invalid: …",
            "details": {"causes": causes}});
        expect(status, ErrorKind::Invalid, "`spec.template.spec.containers[0].image`: Required value");
    }

    #[test]
    fn overload_and_quota_errors_are_retryable() {
        for code in [429, 500, 503, 504] {
            expect(json!({"code": code, "message": "try later"}), ErrorKind::Retryable, "try later");
        }
        let quota = "jobs.batch \"j\" is forbidden: exceeded quota: team, requested: count/jobs.batch=1";
        expect(json!({"code": 403, "reason": "Forbidden", "message": quota}), ErrorKind::Retryable, "exceeded quota");
        let race = json!({"code": 409, "reason": "Conflict", "message": "resourcequotas \"team\" was modified"});
        assert!(!exists(&api(race.clone())));
        expect(race, ErrorKind::Retryable, "was modified");
        assert!(exists(&api(json!({"code": 409, "reason": "AlreadyExists", "message": "exists"}))));
    }

    #[test]
    fn webhook_denial_is_invalid() {
        let words = "admission webhook \"policy\" denied the request: no";
        expect(json!({"code": 400, "reason": "BadRequest", "message": words}), ErrorKind::Invalid, "denied");
    }
}
