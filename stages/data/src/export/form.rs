//! Defines the forms in which trainers use exported rows, and chooses the form of an export.

use trainyard_core::{ArtifactKind, Error, Result};

/// Use of the rows in a trainer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ExportForm {
    /// Conversations to imitate, as text.
    Sft,
    /// Conversations as token ids, with the loss mask.
    Tokens,
    /// A chosen and a rejected answer to one prompt.
    Preference,
    /// Prompts for rollouts, with the data for the reward.
    Prompts,
    /// Answers in steps, each labeled as correct or incorrect.
    Steps,
}

impl ExportForm {
    pub const ALL: [Self; 5] = [Self::Sft, Self::Tokens, Self::Preference, Self::Prompts, Self::Steps];

    /// Returns the name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Sft => "sft",
            Self::Tokens => "tokens",
            Self::Preference => "preference",
            Self::Prompts => "prompts",
            Self::Steps => "steps",
        }
    }
    /// Returns the forms that an artifact may have, the usual one first. `pairs`: its rows alternate between chosen and
    /// rejected; `packs`: it is a table of token packs.
    pub fn of(kind: ArtifactKind, pairs: bool, packs: bool) -> &'static [Self] {
        match kind {
            ArtifactKind::Problems => &[Self::Prompts],
            ArtifactKind::Trajectories if pairs => &[Self::Preference],
            ArtifactKind::Trajectories => &[Self::Sft, Self::Tokens, Self::Steps],
            ArtifactKind::Table if packs => &[Self::Tokens],
            _ => &[],
        }
    }
    /// Returns the form to write: the requested one, or the usual one that the format supports. `offers`: the forms of
    /// the format. Errors: invalid, listing the alternatives.
    pub fn choose(
        requested: Option<Self>,
        has: &[Self],
        offers: &[Self],
        kind: ArtifactKind,
        format: &str,
    ) -> Result<Self> {
        let common: Vec<&str> = has.iter().filter(|form| offers.contains(form)).map(|form| form.name()).collect();
        let chosen = match requested {
            Some(form) => Some(form).filter(|form| common.contains(&form.name())),
            None => has.iter().copied().find(|form| offers.contains(form)),
        };
        chosen.ok_or_else(|| {
            let as_form = requested.map(|form| format!(" in the form `{}`", form.name())).unwrap_or_default();
            let error = Error::invalid(format!("these {} cannot be written as `{format}`{as_form}", plural(kind)));
            let names = |forms: &[Self]| forms.iter().map(|form| form.name()).collect::<Vec<_>>().join(", ");
            error.help(match (common.is_empty(), has.is_empty()) {
                (false, _) => format!("`{format}` can write them with `--form {}`", common.join("` or `--form ")),
                (true, false) => format!("they can be {}; `{format}` writes {}", names(has), names(offers)),
                (true, true) => {
                    format!("they can be written as they are, with `--as jsonl`; `{format}` writes {}", names(offers))
                }
            })
        })
    }
}

fn plural(kind: ArtifactKind) -> &'static str {
    match kind {
        ArtifactKind::Problems => "problems",
        ArtifactKind::Trajectories => "trajectories",
        ArtifactKind::Model => "files of a model",
        ArtifactKind::Report => "files of a report",
        ArtifactKind::Table => "rows of a table",
        ArtifactKind::Files => "files",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unsupported_form_lists_alternatives() {
        let has = ExportForm::of(ArtifactKind::Trajectories, false, false);
        let choose = |requested, offers: &[ExportForm]| {
            ExportForm::choose(requested, has, offers, ArtifactKind::Trajectories, "x")
        };
        assert_eq!(choose(None, &[ExportForm::Prompts, ExportForm::Steps]).unwrap(), ExportForm::Steps);
        assert_eq!(choose(Some(ExportForm::Tokens), &ExportForm::ALL).unwrap(), ExportForm::Tokens);
        let error = choose(Some(ExportForm::Prompts), &ExportForm::ALL).unwrap_err();
        assert!(error.message.contains("these trajectories cannot be written as `x` in the form `prompts`"));
        assert!(error.help.unwrap().contains("`--form sft` or `--form tokens`"));
        let error = choose(None, &[ExportForm::Prompts]).unwrap_err();
        assert_eq!(error.help.unwrap(), "they can be sft, tokens, steps; `x` writes prompts");
        let none = ExportForm::choose(None, &[], &[ExportForm::Sft], ArtifactKind::Table, "x").unwrap_err();
        assert!(none.help.unwrap().contains("--as jsonl"));
    }
}
