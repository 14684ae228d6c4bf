//! Holds secrets: values that are never displayed. A file contains only a secret's name; the attempt that needs the
//! value reads it where the attempt runs.

use crate::error::{Error, Result};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// Secret by its name in the site file, as in options: `{secret: NAME}`. No config contains the value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SecretName {
    /// A name under `secrets` of the site file.
    pub secret: String,
}

/// Value without a text form: it prints as `[secret]` and is not serialized.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Wraps a value.
    pub fn new(value: impl Into<String>) -> Self {
        Self(value.into())
    }
    /// Returns the value, for the code that sends it.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[secret]")
    }
}

/// Secrets of an attempt, by name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Secrets(BTreeMap<String, Secret>);

impl Secrets {
    /// Creates secrets from names and values.
    pub fn new(values: impl IntoIterator<Item = (String, String)>) -> Self {
        Self(values.into_iter().map(|(name, value)| (name, Secret::new(value))).collect())
    }
    /// Iterates over names and values.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Secret)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value))
    }
    /// Returns one of the secrets. Errors: invalid, if the attempt does not have it.
    pub fn get(&self, name: &SecretName) -> Result<&Secret> {
        let name = &name.secret;
        self.0.get(name).ok_or_else(|| {
            Error::invalid(format!("the stage was not given the secret `{name}`"))
                .help(format!("add `secrets: {{{name}: env:{name}}}` to the site file"))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_no_text_form() {
        let secrets = Secrets::new([("KEY".to_string(), "hunter2".to_string())]);
        let name = |name: &str| SecretName { secret: name.into() };
        assert_eq!(secrets.get(&name("KEY")).unwrap().reveal(), "hunter2");
        assert!(!format!("{secrets:?}").contains("hunter2"));
        let error = secrets.get(&name("OTHER")).unwrap_err();
        assert!(error.message.contains("`OTHER`") && error.help.unwrap().contains("env:OTHER"));
    }
}
