//! Reads the values of an attempt's secrets on the machine of the attempt, from the providers of the site file, and
//! withholds all others.

use super::redaction;
use std::collections::BTreeMap;
use trainyard_core::{Error, Result, Secrets};
use trainyard_runtime::slots::host;

/// Reads secrets, given their providers by name, and redacts their values in all messages from now on. Errors: invalid
/// (an unknown provider, or a variable that is not set).
pub fn read(providers: &BTreeMap<String, String>) -> Result<Secrets> {
    let one = |(name, provider): (&String, &String)| {
        let variable = variable(provider).ok_or_else(|| {
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

/// Redacts the values of secrets that an attempt does not have, in all messages from now on.
pub fn mask(withheld: &BTreeMap<String, String>) {
    for (name, provider) in withheld {
        if let Some(value) = variable(provider).and_then(|variable| std::env::var(variable).ok()) {
            redaction::keep(name, &value);
        }
    }
}

/// Returns the variables of secrets that a command must not inherit: those of `withheld`, unless the same variable is
/// the source of a secret that it has.
pub fn hidden_variables<'a>(
    withheld: &'a BTreeMap<String, String>,
    given: &'a BTreeMap<String, String>,
) -> impl Iterator<Item = &'a str> {
    let is_given = move |provider: &String| given.values().any(|other| other == provider);
    withheld.values().filter(move |provider| !is_given(provider)).filter_map(|provider| variable(provider))
}

fn variable(provider: &str) -> Option<&str> {
    provider.strip_prefix("env:")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_of_secrets_that_were_not_requested_are_hidden() {
        let map = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
            pairs.iter().map(|(name, provider)| (name.to_string(), provider.to_string())).collect()
        };
        let withheld = map(&[("HF_TOKEN", "env:HF_TOKEN"), ("KEY", "env:SHARED"), ("OTHER", "vault:x")]);
        let hidden = |given: &[(&str, &str)]| -> Vec<String> {
            hidden_variables(&withheld, &map(given)).map(String::from).collect()
        };
        assert_eq!(hidden(&[]), ["HF_TOKEN", "SHARED"]);
        assert_eq!(hidden(&[("TOKEN", "env:SHARED")]), ["HF_TOKEN"]);
    }
}
