//! Lists the parts of this crate, one list per family, sorted by kind. A new part is one file in the folder of its
//! family and one line in this file.

use crate::corrections::{self, Correction};
use crate::part::{Advantage, Curriculum, Filter, LossTerm, Modulation, Replay, RlPart, Strategy};
use crate::preference_losses::{self, PreferenceLoss};
use crate::{advantages, compositions, curricula, filters, losses, modulations, replay, strategies};
use serde_json::Value;
use trainyard_api::{AnyFamily, Family, PartKind, PartOptions};

/// Families of RL parts. A program may add custom parts before it passes the families to the stages.
pub struct LearnParts {
    /// Conversions of rewards to a number per token (`advantage`).
    pub advantages: Family<dyn Advantage>,
    /// Named compositions: the options of `rl` that `algorithm: grpo` is replaced by.
    pub algorithms: Family<Value>,
    /// Importance weights of stale or foreign samples (`loss.correction`).
    pub corrections: Family<dyn Correction>,
    /// Orders of problems (`curriculum`).
    pub curricula: Family<dyn Curriculum>,
    /// Selections of rollouts for the update (`filters`).
    pub filters: Family<dyn Filter>,
    /// Terms of the loss (`loss.terms`).
    pub losses: Family<dyn LossTerm>,
    /// Changes of assigned advantages (`advantage.modulations`).
    pub modulations: Family<dyn Modulation>,
    /// Losses on pairs of answers (`loss` of `preference`).
    pub preference_losses: Family<dyn PreferenceLoss>,
    /// Reuses of earlier rollouts (`replay`).
    pub replay: Family<dyn Replay>,
    /// Selections of sequences to sample and to keep (`rollout.strategy`).
    pub strategies: Family<dyn Strategy>,
}

impl LearnParts {
    /// Returns the parts of this crate.
    pub fn standard() -> Self {
        Self {
            advantages: advantages(),
            algorithms: compositions::algorithms(),
            corrections: corrections(),
            curricula: curricula(),
            filters: filters(),
            losses: losses(),
            modulations: modulations(),
            preference_losses: preference_losses(),
            replay: replay(),
            strategies: strategies(),
        }
    }
    /// Returns all families, sorted by name.
    pub fn families(&self) -> [&dyn AnyFamily; 10] {
        [
            &self.advantages,
            &self.algorithms,
            &self.corrections,
            &self.curricula,
            &self.filters,
            &self.losses,
            &self.modulations,
            &self.preference_losses,
            &self.replay,
            &self.strategies,
        ]
    }
}

/// Defines one function per family, which creates the registry line of a part. The options of a part are the part
/// itself.
macro_rules! lines {
    ($($(#[$doc:meta])* $line:ident: $part:ident;)*) => {$(
        $(#[$doc])*
        pub fn $line<P: PartOptions + $part>() -> PartKind<dyn $part> {
            PartKind::with_needs::<P>(|options, ()| Ok(Box::new(options)), |options| RlPart::needs(options).names())
        }
    )*};
}

lines! {
    /// Returns the registry entry of an advantage.
    advantage: Advantage;
    /// Returns the registry entry of a correction.
    correction: Correction;
    /// Returns the registry entry of a curriculum.
    curriculum: Curriculum;
    /// Returns the registry entry of a filter.
    filter: Filter;
    /// Returns the registry entry of a loss term.
    loss: LossTerm;
    /// Returns the registry entry of a modulation.
    modulation: Modulation;
    /// Returns the registry entry of a preference loss.
    preference_loss: PreferenceLoss;
    /// Returns the registry entry of a replay.
    replay_entry: Replay;
    /// Returns the registry entry of a strategy.
    strategy: Strategy;
}

/// Returns the advantages of this crate, sorted by kind.
pub fn advantages() -> Family<dyn Advantage> {
    let members = vec![
        advantage::<advantages::discounted_return::DiscountedReturn>(),
        advantage::<advantages::gae::Gae>(),
        advantage::<advantages::gdpo::Gdpo>(),
        advantage::<advantages::group::GroupAdvantage>(),
        advantage::<advantages::information_gain::InformationGain>(),
        advantage::<advantages::opo::Opo>(),
        advantage::<advantages::stratified::StratifiedAdvantage>(),
    ];
    Family::new("advantages", "advantage", members)
}
/// Returns the corrections of this crate, sorted by kind.
pub fn corrections() -> Family<dyn Correction> {
    let members = vec![
        correction::<corrections::masked::MaskedCorrection>(),
        correction::<corrections::none::NoCorrection>(),
        correction::<corrections::sequence::SequenceCorrection>(),
        correction::<corrections::truncated::TruncatedCorrection>(),
    ];
    Family::new("corrections", "correction", members)
}
/// Returns the curricula of this crate, sorted by kind.
pub fn curricula() -> Family<dyn Curriculum> {
    let members = vec![
        curriculum::<curricula::interaction_stages::InteractionStages>(),
        curriculum::<curricula::learnable::LearnableCurriculum>(),
        curriculum::<curricula::levels::Levels>(),
        curriculum::<curricula::uniform::UniformCurriculum>(),
    ];
    Family::new("curricula", "curriculum", members)
}
/// Returns the filters of this crate, sorted by kind.
pub fn filters() -> Family<dyn Filter> {
    let members = vec![
        filter::<filters::accuracy_band::AccuracyBand>(),
        filter::<filters::incomplete::IncompleteFilter>(),
        filter::<filters::overlong::OverlongFilter>(),
        filter::<filters::prefix_entropy::PrefixEntropy>(),
        filter::<filters::repetition::Repetition>(),
        filter::<filters::reward_spread::RewardSpread>(),
        filter::<filters::void_turn::VoidTurnFilter>(),
        filter::<filters::zero_variance::ZeroVariance>(),
    ];
    Family::new("filters", "filter", members)
}
/// Returns the loss terms of this crate, sorted by kind.
pub fn losses() -> Family<dyn LossTerm> {
    let members = vec![
        loss::<losses::cispo::Cispo>(),
        loss::<losses::clip::Clip>(),
        loss::<losses::clip_balanced::ClipBalanced>(),
        loss::<losses::clip_cov::ClipCov>(),
        loss::<losses::dpo::GroupDpo>(),
        loss::<losses::entropy::Entropy>(),
        loss::<losses::entropy_smoothing::EntropySmoothing>(),
        loss::<losses::geo_mean::GeoMean>(),
        loss::<losses::gspo::Gspo>(),
        loss::<losses::kl::Kl>(),
        loss::<losses::kl_cov::KlCov>(),
        loss::<losses::nft::Nft>(),
        loss::<losses::value::ValueLoss>(),
    ];
    Family::new("losses", "loss term", members)
}
/// Returns the modulations of this crate, sorted by kind.
pub fn modulations() -> Family<dyn Modulation> {
    let members = vec![
        modulation::<modulations::entropy_balanced::EntropyBalancedModulation>(),
        modulation::<modulations::entropy_modulated::EntropyModulation>(),
        modulation::<modulations::shared_prefix::SharedPrefix>(),
        modulation::<modulations::whiten::Whiten>(),
    ];
    Family::new("modulations", "modulation", members)
}
/// Returns the preference losses of this crate, sorted by kind.
pub fn preference_losses() -> Family<dyn PreferenceLoss> {
    let members = vec![
        preference_loss::<preference_losses::dpo::Dpo>(),
        preference_loss::<preference_losses::hinge::Hinge>(),
        preference_loss::<preference_losses::ipo::Ipo>(),
        preference_loss::<preference_losses::orpo::Orpo>(),
        preference_loss::<preference_losses::robust::RobustDpo>(),
        preference_loss::<preference_losses::simpo::Simpo>(),
    ];
    Family::new("preference_losses", "preference loss", members)
}
/// Returns the replays of this crate, sorted by kind.
pub fn replay() -> Family<dyn Replay> {
    Family::new(
        "replay",
        "replay",
        vec![replay_entry::<replay::none::NoReplay>(), replay_entry::<replay::self_imitation::SelfImitation>()],
    )
}
/// Returns the strategies of this crate, sorted by kind.
pub fn strategies() -> Family<dyn Strategy> {
    let members = vec![
        strategy::<strategies::demonstration_prefix::DemonstrationPrefix>(),
        strategy::<strategies::entropy_balanced::EntropyBalancedStrategy>(),
        strategy::<strategies::entropy_branching::EntropyBranching>(),
        strategy::<strategies::independent::IndependentStrategy>(),
        strategy::<strategies::resample_on_correct::ResampleOnCorrect>(),
        strategy::<strategies::rubric_scaffold::RubricScaffold>(),
    ];
    Family::new("strategies", "strategy", members)
}

#[cfg(test)]
#[path = "registry_tests.rs"]
mod tests;
