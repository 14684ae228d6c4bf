//! Reads the values of an attempt's secrets on the machine of the attempt, from the providers of the site file.

use super::redaction;
use std::collections::BTreeMap;
use trainyard_core::{Error, Result, Secrets};
use trainyard_runtime::slots::host;

/// Reads secrets, given their providers by name, and redacts their values in all messages from now on. Errors: invalid
/// (an unknown provider, or a variable that is not set).
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
