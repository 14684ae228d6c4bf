//! All parts of this build, one list per kind of part. Adding a part is one file beside its siblings and one line here.
//!
//! Why so: options arrive as maps with a `kind`; the list finds the part, checks the rest ([`trainyard_api::parts`]), and unknown
//! kinds are answered with the valid names. Refuses: parts whose options are another type than the part itself.

use crate::corrections::{self, Correction};
use crate::part::{Advantage, Curriculum, Filter, LossTerm, Modulation, Replay, Strategy};
use crate::{advantages, curricula, filters, losses, modulations, replay, strategies};
use trainyard_api::parts::{self, Build, part, read};

/// All parts of one trait.
pub type Kinds<T> = parts::Kinds<Build<T>>;

macro_rules! kinds {
    ($what:literal, dyn $part:ident: $($options:ty),* $(,)?) => {
        parts::Kinds {
            what: $what,
            list: vec![$(part::<$options, Build<dyn $part>>(|options| Ok(Box::new(read::<$options>(options)?)))),*],
        }
    };
}

pub fn advantages() -> Kinds<dyn Advantage> {
    kinds!("advantage", dyn Advantage:
        advantages::DiscountedReturn,
        advantages::Gae,
        advantages::Gdpo,
        advantages::Group,
        advantages::InformationGain,
        advantages::Opo,
        advantages::Stratified,
    )
}
pub fn modulations() -> Kinds<dyn Modulation> {
    kinds!("modulation", dyn Modulation:
        modulations::EntropyBalanced,
        modulations::EntropyModulated,
        modulations::SharedPrefix,
        modulations::Whiten,
    )
}
pub fn loss_terms() -> Kinds<dyn LossTerm> {
    kinds!("loss term", dyn LossTerm:
        losses::Cispo,
        losses::Clip,
        losses::ClipBalanced,
        losses::ClipCov,
        losses::Dpo,
        losses::Entropy,
        losses::EntropySmoothing,
        losses::GeoMean,
        losses::Gspo,
        losses::Kl,
        losses::KlCov,
        losses::Nft,
        losses::Value,
    )
}
pub fn filters() -> Kinds<dyn Filter> {
    kinds!("filter", dyn Filter:
        filters::AccuracyBand,
        filters::Incomplete,
        filters::Overlong,
        filters::PrefixEntropy,
        filters::Repetition,
        filters::RewardSpread,
        filters::VoidTurn,
        filters::ZeroVariance,
    )
}
pub fn curricula() -> Kinds<dyn Curriculum> {
    kinds!("curriculum", dyn Curriculum:
        curricula::InteractionStages,
        curricula::Learnable,
        curricula::Levels,
        curricula::Uniform,
    )
}
pub fn strategies() -> Kinds<dyn Strategy> {
    kinds!("strategy", dyn Strategy:
        strategies::DemonstrationPrefix,
        strategies::EntropyBalanced,
        strategies::EntropyBranching,
        strategies::Independent,
        strategies::ResampleOnCorrect,
        strategies::RubricScaffold,
    )
}
pub fn corrections() -> Kinds<dyn Correction> {
    kinds!("correction", dyn Correction: corrections::Masked, corrections::None, corrections::Sequence, corrections::Truncated)
}
pub fn replays() -> Kinds<dyn Replay> {
    kinds!("replay", dyn Replay: replay::None, replay::SelfImitation)
}

#[cfg(test)]
#[path = "registry_tests.rs"]
mod tests;
