//! Connects to containers of Azure Blob Storage (`az://`). Environment variables name the account.

use super::Scheme;
use super::client::{RETRIES, environment, install_tls, limits, options, retry};
use object_store::ObjectStore;
use object_store::azure::MicrosoftAzureBuilder;
use std::sync::Arc;
use trainyard_core::{Error, Result};

pub(crate) const SCHEME: Scheme = Scheme {
    name: "az",
    aliases: &["abfs", "abfss", "adl", "azure", "wasb", "wasbs"],
    place: "container",
    cloud: "Azure",
    sign_in: "set AZURE_STORAGE_ACCOUNT_KEY, AZURE_STORAGE_SAS_TOKEN, or AZURE_CLIENT_ID, AZURE_CLIENT_SECRET and \
              AZURE_TENANT_ID, or run where a managed identity gives access",
    credentials: &[
        "AZURE_CLIENT_SECRET",
        "AZURE_FABRIC_SESSION_TOKEN",
        "AZURE_FEDERATED_TOKEN_FILE",
        "AZURE_STORAGE_ACCESS_KEY",
        "AZURE_STORAGE_ACCOUNT_KEY",
        "AZURE_STORAGE_CLIENT_SECRET",
        "AZURE_STORAGE_CONNECTION_STRING",
        "AZURE_STORAGE_ENCRYPTION_KEY",
        "AZURE_STORAGE_KEY",
        "AZURE_STORAGE_MASTER_KEY",
        "AZURE_STORAGE_SAS_KEY",
        "AZURE_STORAGE_SAS_TOKEN",
        "AZURE_STORAGE_TOKEN",
        "IDENTITY_HEADER",
    ],
    connect,
};

/// Names that other programs use for the variables of `object_store`.
const OTHER_NAMES: [(&str, &str); 3] = [
    ("AZURE_STORAGE_ACCOUNT", "AZURE_STORAGE_ACCOUNT_NAME"),
    ("AZURE_STORAGE_KEY", "AZURE_STORAGE_ACCOUNT_KEY"),
    ("IDENTITY_ENDPOINT", "AZURE_IDENTITY_ENDPOINT"),
];

/// Connects to a container. The account, its credentials, `AZURE_STORAGE_ENDPOINT`, `AZURE_ALLOW_HTTP` and
/// `AZURE_STORAGE_USE_EMULATOR` come from the environment.
fn connect(container: &str) -> Result<Arc<dyn ObjectStore>> {
    let client = builder(container, RETRIES, environment()).build().map_err(|e| {
        Error::invalid(format!("cannot connect to the container az://{container}"))
            .help(
                "check AZURE_STORAGE_ACCOUNT_NAME, the credentials (AZURE_STORAGE_ACCOUNT_KEY, \
                 AZURE_STORAGE_SAS_TOKEN, or AZURE_CLIENT_ID with AZURE_CLIENT_SECRET and AZURE_TENANT_ID), \
                 AZURE_STORAGE_ENDPOINT and AZURE_ALLOW_HTTP in the environment",
            )
            .caused_by(&e)
    })?;
    Ok(Arc::new(client))
}

fn builder(
    container: &str,
    max_retries: usize,
    environment: impl Iterator<Item = (String, String)>,
) -> MicrosoftAzureBuilder {
    install_tls();
    let ours = |name: String| {
        let other = OTHER_NAMES.iter().find(|(other, _)| *other == name);
        other.map_or(name, |(_, ours)| ours.to_string())
    };
    let environment = environment.map(|(name, value)| (ours(name), value));
    // Our limits first, so that `AZURE_TIMEOUT` and similar variables override them.
    let builder = MicrosoftAzureBuilder::new().with_client_options(limits());
    let builder = options(environment, "AZURE_").fold(builder, |b, (key, value)| b.with_config(key, value));
    builder.with_container_name(container).with_retry(retry(max_retries))
}

#[cfg(test)]
mod tests {
    use super::*;
    use object_store::ClientConfigKey;
    use object_store::azure::AzureConfigKey;

    fn with(environment: &[(&str, &str)]) -> MicrosoftAzureBuilder {
        let owned: Vec<_> = environment.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
        builder("container", 0, owned.into_iter())
    }

    #[test]
    fn environment_sets_the_account_and_overrides_limits() {
        let built = with(&[("AZURE_STORAGE_ACCOUNT", "here"), ("AZURE_STORAGE_KEY", "a2V5"), ("AZURE_TIMEOUT", "10m")]);
        let value = |key: AzureConfigKey| built.get_config_value(&key);
        assert_eq!(value(AzureConfigKey::AccountName).as_deref(), Some("here"));
        assert_eq!(value(AzureConfigKey::AccessKey).as_deref(), Some("a2V5"));
        assert_eq!(value(AzureConfigKey::ContainerName).as_deref(), Some("container"));
        assert!(value(AzureConfigKey::Client(ClientConfigKey::Timeout)).is_some());
        let value = |key| with(&[]).get_config_value(&AzureConfigKey::Client(key));
        assert!(value(ClientConfigKey::Timeout).is_none() && value(ClientConfigKey::ReadTimeout).is_some());
    }

    #[test]
    fn without_an_account_there_is_no_connection() {
        let error = with(&[]).build().unwrap_err();
        assert!(error.to_string().contains("Account must be specified"), "{error}");
    }
}
