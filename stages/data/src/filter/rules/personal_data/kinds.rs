//! Defines the kinds of personal data, each with a regular expression for candidates and a check of what it found.

use super::checks::{self, Candidate};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// Kind of personal data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PersonalDataKind {
    /// Mail addresses.
    Email,
    /// Phone numbers: international ones with `+`, and those of North America with separators.
    Phone,
    /// IPv4 addresses, without private and reserved ones.
    Ip,
    /// Numbers of credit cards, with the issuer's prefix and length and a valid check digit.
    CreditCard,
    /// Numbers of bank accounts, with the country's length and valid check digits.
    Iban,
    /// `user:password` in a URL.
    UrlCredentials,
    /// Keys of known services by their prefixes: `sk-`, `ghp_`, `AKIA`, `xoxb-`, `hf_`, …
    ApiKey,
}

impl PersonalDataKind {
    /// All kinds.
    pub const ALL: [Self; 7] =
        [Self::Email, Self::Phone, Self::Ip, Self::CreditCard, Self::Iban, Self::UrlCredentials, Self::ApiKey];

    /// Returns the name in options and reasons.
    pub fn name(self) -> &'static str {
        match self {
            Self::Email => "email",
            Self::Phone => "phone",
            Self::Ip => "ip",
            Self::CreditCard => "credit_card",
            Self::Iban => "iban",
            Self::UrlCredentials => "url_credentials",
            Self::ApiKey => "api_key",
        }
    }
    /// Returns the text that replaces the data.
    pub fn mask(self) -> &'static str {
        match self {
            Self::Email => "[EMAIL]",
            Self::Phone => "[PHONE]",
            Self::Ip => "[IP]",
            Self::CreditCard => "[CREDIT_CARD]",
            Self::Iban => "[IBAN]",
            Self::UrlCredentials => "[URL_CREDENTIALS]",
            Self::ApiKey => "[API_KEY]",
        }
    }
    /// Returns the regular expression of candidates. It has only ASCII classes, so that every text is searched by a
    /// finite automaton.
    pub(super) fn pattern(self) -> &'static str {
        match self {
            Self::Email => r"[A-Za-z0-9._%+-]+@[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)*\.[A-Za-z]{2,24}",
            Self::Phone => concat!(
                r"\+[1-9][0-9]{0,2}(?:[ .-]?\(?[0-9]{1,14}\)?){1,6}",
                r"|(?:1[-. ])?(?:\([2-9][0-9]{2}\) ?|[2-9][0-9]{2}[-.])[2-9][0-9]{2}[-.][0-9]{4}",
            ),
            Self::Ip => r"[0-9]{1,3}(?:\.[0-9]{1,3}){3}",
            Self::CreditCard => concat!(
                r"[0-9]{4}(?:(?: [0-9]{4}){3}|(?:-[0-9]{4}){3}| [0-9]{6} [0-9]{4,5}|-[0-9]{6}-[0-9]{4,5})",
                r"|[0-9]{13,19}",
            ),
            Self::Iban => r"[A-Z]{2}[0-9]{2}(?:[A-Z0-9]{11,30}|(?: [A-Z0-9]{4}){2,7}(?: [A-Z0-9]{1,3})?)",
            Self::UrlCredentials => {
                r"[A-Za-z][A-Za-z0-9+.-]{0,15}://[A-Za-z0-9._~%!$&*+,;=-]+:[A-Za-z0-9._~%!$&*+,;=?#^-]+@[A-Za-z0-9\[]"
            }
            Self::ApiKey => concat!(
                r"sk-[A-Za-z0-9_-]{20,}|[sr]k_live_[A-Za-z0-9]{16,}|gh[pousr]_[A-Za-z0-9]{36,}",
                r"|github_pat_[A-Za-z0-9_]{40,}|glpat-[A-Za-z0-9_-]{20,}|A[KS]IA[A-Z0-9]{16}",
                r"|xox[abeprs]-[A-Za-z0-9-]{10,}|hf_[A-Za-z0-9]{30,}|AIza[A-Za-z0-9_-]{35}|npm_[A-Za-z0-9]{36}",
            ),
        }
    }
    /// Whether data may begin inside of a rejected candidate. Such candidates have a bounded length, so that the time
    /// stays in proportion to the text.
    pub(super) fn may_begin_inside(self) -> bool {
        matches!(self, Self::Phone | Self::CreditCard | Self::Iban)
    }
    /// Returns the part of a candidate that is personal data.
    pub(super) fn check(self, candidate: &Candidate<'_>, private_ips: bool) -> Option<Range<usize>> {
        match self {
            Self::Email => checks::email(candidate),
            Self::Phone => checks::phone(candidate),
            Self::Ip => checks::ip(candidate, private_ips),
            Self::CreditCard => checks::credit_card(candidate),
            Self::Iban => checks::iban(candidate),
            Self::UrlCredentials => checks::url_credentials(candidate),
            Self::ApiKey => checks::api_key(candidate),
        }
    }
}
