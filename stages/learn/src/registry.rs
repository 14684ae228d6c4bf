//! The parts of this room, one sorted list per family. Adding a part is one file beside its siblings and one line here.

use crate::corrections::{self, Correction};
use crate::part::{Advantage, Curriculum, Filter, LossTerm, Modulation, Part, Replay, Strategy};
use crate::{advantages, compositions, curricula, filters, losses, modulations, replay, strategies};
use serde_json::Value;
use trainyard_api::{AnyFamily, Family, PartKind, PartOptions};

/// All families of RL parts. Programs add parts of their own before they give them to the stages.
pub struct Parts {
    pub advantages: Family<dyn Advantage>,
    /// Named compositions: the options of `rl` that `algorithm: grpo` stands for.
    pub algorithms: Family<Value>,
    pub corrections: Family<dyn Correction>,
    pub curricula: Family<dyn Curriculum>,
    pub filters: Family<dyn Filter>,
    pub losses: Family<dyn LossTerm>,
    pub modulations: Family<dyn Modulation>,
    pub replay: Family<dyn Replay>,
    pub strategies: Family<dyn Strategy>,
}

impl Parts {
    /// Those of this crate.
    pub fn standard() -> Self {
        Self {
            advantages: advantages(),
            algorithms: compositions::algorithms(),
            corrections: corrections(),
            curricula: curricula(),
            filters: filters(),
            losses: losses(),
            modulations: modulations(),
            replay: replay(),
            strategies: strategies(),
        }
    }
    /// Sorted by folder.
    pub fn families(&self) -> [&dyn AnyFamily; 9] {
        [
            &self.advantages,
            &self.algorithms,
            &self.corrections,
            &self.curricula,
            &self.filters,
            &self.losses,
            &self.modulations,
            &self.replay,
            &self.strategies,
        ]
    }
}

/// Each function makes the line of a part: its options are the part itself.
macro_rules! lines {
    ($($(#[$doc:meta])* $line:ident: $part:ident;)*) => {$(
        $(#[$doc])*
        pub fn $line<P: PartOptions + $part>() -> PartKind<dyn $part> {
            PartKind::with_needs::<P>(|options, ()| Ok(Box::new(options)), |options| Part::needs(options).names())
        }
    )*};
}

lines! {
    /// The line of an advantage.
    advantage: Advantage;
    /// The line of a correction.
    correction: Correction;
    /// The line of a curriculum.
    curriculum: Curriculum;
    /// The line of a filter.
    filter: Filter;
    /// The line of a loss term.
    loss: LossTerm;
    /// The line of a modulation.
    modulation: Modulation;
    /// The line of a replay.
    replayed: Replay;
    /// The line of a strategy.
    strategy: Strategy;
}

pub fn advantages() -> Family<dyn Advantage> {
    let members = vec![
        advantage::<advantages::DiscountedReturn>(),
        advantage::<advantages::Gae>(),
        advantage::<advantages::Gdpo>(),
        advantage::<advantages::Group>(),
        advantage::<advantages::InformationGain>(),
        advantage::<advantages::Opo>(),
        advantage::<advantages::Stratified>(),
    ];
    Family::new("advantages", "advantage", members)
}
pub fn corrections() -> Family<dyn Correction> {
    let members = vec![
        correction::<corrections::Masked>(),
        correction::<corrections::None>(),
        correction::<corrections::Sequence>(),
        correction::<corrections::Truncated>(),
    ];
    Family::new("corrections", "correction", members)
}
pub fn curricula() -> Family<dyn Curriculum> {
    let members = vec![
        curriculum::<curricula::InteractionStages>(),
        curriculum::<curricula::Learnable>(),
        curriculum::<curricula::Levels>(),
        curriculum::<curricula::Uniform>(),
    ];
    Family::new("curricula", "curriculum", members)
}
pub fn filters() -> Family<dyn Filter> {
    let members = vec![
        filter::<filters::AccuracyBand>(),
        filter::<filters::Incomplete>(),
        filter::<filters::Overlong>(),
        filter::<filters::PrefixEntropy>(),
        filter::<filters::Repetition>(),
        filter::<filters::RewardSpread>(),
        filter::<filters::VoidTurn>(),
        filter::<filters::ZeroVariance>(),
    ];
    Family::new("filters", "filter", members)
}
pub fn losses() -> Family<dyn LossTerm> {
    let members = vec![
        loss::<losses::Cispo>(),
        loss::<losses::Clip>(),
        loss::<losses::ClipBalanced>(),
        loss::<losses::ClipCov>(),
        loss::<losses::Dpo>(),
        loss::<losses::Entropy>(),
        loss::<losses::EntropySmoothing>(),
        loss::<losses::GeoMean>(),
        loss::<losses::Gspo>(),
        loss::<losses::Kl>(),
        loss::<losses::KlCov>(),
        loss::<losses::Nft>(),
        loss::<losses::Value>(),
    ];
    Family::new("losses", "loss term", members)
}
pub fn modulations() -> Family<dyn Modulation> {
    let members = vec![
        modulation::<modulations::EntropyBalanced>(),
        modulation::<modulations::EntropyModulated>(),
        modulation::<modulations::SharedPrefix>(),
        modulation::<modulations::Whiten>(),
    ];
    Family::new("modulations", "modulation", members)
}
pub fn replay() -> Family<dyn Replay> {
    Family::new("replay", "replay", vec![replayed::<replay::None>(), replayed::<replay::SelfImitation>()])
}
pub fn strategies() -> Family<dyn Strategy> {
    let members = vec![
        strategy::<strategies::DemonstrationPrefix>(),
        strategy::<strategies::EntropyBalanced>(),
        strategy::<strategies::EntropyBranching>(),
        strategy::<strategies::Independent>(),
        strategy::<strategies::ResampleOnCorrect>(),
        strategy::<strategies::RubricScaffold>(),
    ];
    Family::new("strategies", "strategy", members)
}

#[cfg(test)]
#[path = "registry_tests.rs"]
mod tests;
