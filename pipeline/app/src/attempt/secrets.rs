//! Values of an attempt's secrets, from the providers of the site file, read where the attempt runs.

use super::redaction;
use std::collections::BTreeMap;
use trainyard_core::{Error, Result, Secrets};
use trainyard_runtime::slots::host;

/// Reads secrets by name and provider. From then on messages of the attempt are redacted.
pub fn read(providers: &BTreeMap<String, String>) -> Result<Secrets> {
    let one = |(name, provider): (&String, &String)| {
        let variable = provider.strip_prefix("env:").ok_or_else(|| {
            Error::invalid(format!("secret `{name}`: no provider `{provider}`")).help("use `env:VARIABLE`")
        })?;
        let value = std::env::var(variable).map_err(|_| {
            Error::invalid(format!("secret `{name}`: the variable {variable} is not set on {}", host()))
                .help("secrets are read where the attempt runs: set it there")
        })?;
        redaction::keep(name, &value);
        Ok((name.clone(), value))
    };
    providers.iter().map(one).collect::<Result<Vec<_>>>().map(Secrets::new)
}
