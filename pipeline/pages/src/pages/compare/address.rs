//! Parameters of the address of a comparison.

use crate::links::{Links, query};
use crate::request::given;
use maud::{Markup, html};
use serde::Deserialize;
use trainyard_views::comparison::Flip;

/// Values of `flip`, with the words that name them.
pub const FLIPS: [(&str, Flip, &str); 5] = [
    ("right-wrong", Flip::RightThenWrong, "A right, B wrong"),
    ("wrong-right", Flip::WrongThenRight, "A wrong, B right"),
    ("both-right", Flip::BothRight, "Both right"),
    ("both-wrong", Flip::BothWrong, "Both wrong"),
    ("not-compared", Flip::NotCompared, "Not answered by both, or not judged"),
];

/// Parameters of the address.
#[derive(Debug, Clone, Default, Deserialize)]
pub struct Comparing {
    /// First model.
    pub a: Option<String>,
    /// Second model.
    pub b: Option<String>,
    /// Another artifact whose models are compared too.
    pub with: Option<String>,
    /// Problem whose rollouts are shown.
    pub problem: Option<String>,
    /// Whether all models are shown on a problem, not only A and B.
    pub all: Option<String>,
    /// Change of the verdict.
    pub flip: Option<String>,
    /// Level of the problems.
    pub level: Option<String>,
    /// Text in the problems.
    pub text: Option<String>,
    /// Number of the compared samples.
    pub sample: Option<String>,
    /// Index of the first problem.
    pub from: Option<usize>,
}

/// Data that the parts of the page share.
pub struct Shown<'a> {
    /// Addresses of other pages.
    pub links: &'a Links,
    /// Digest of the stage of the artifact.
    pub digest: &'a str,
    /// Output of that stage.
    pub output: &'a str,
    /// Parameters of the address.
    pub query: &'a Comparing,
    /// Name of the first model.
    pub a: &'a str,
    /// Name of the second model.
    pub b: &'a str,
}

impl Shown<'_> {
    /// Returns the address of this page with these parameters, and those that name what is compared.
    pub fn address(&self, parameters: &[(&str, &str)]) -> String {
        let with = self.query.with.as_deref().map(|with| ("with", with));
        let sample = self.query.sample.as_deref().map(|sample| ("sample", sample));
        let kept = [("a", self.a), ("b", self.b)].into_iter().chain(with).chain(sample);
        let all: Vec<(&str, &str)> = kept.chain(parameters.iter().copied()).collect();
        let path = self.links.to(&["artifacts", self.digest, self.output, "compare"]);
        format!("{path}{}", query(&all))
    }
}

/// Removes empty parameters, which forms send.
pub fn cleaned(query: Comparing) -> Comparing {
    let Comparing { a, b, with, problem, all, flip, level, text, sample, from } = query;
    Comparing {
        a: given(a),
        b: given(b),
        with: given(with),
        problem: given(problem),
        all: given(all),
        flip: given(flip),
        level: given(level),
        text: given(text),
        sample: given(sample),
        from,
    }
}

/// Returns the form that adds the models of another artifact.
pub fn other_artifact(shown: &Shown<'_>) -> Markup {
    let path = shown.links.to(&["artifacts", shown.digest, shown.output, "compare"]);
    html! {
        form .filters method="get" action=(path) {
            label {
                "Other artifact"
                input type="text" name="with" required placeholder="latest/evaluate/results" size="32"
                    value=[shown.query.with.as_deref()];
            }
            button type="submit" { "Compare with it" }
        }
    }
}
