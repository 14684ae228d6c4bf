//! Builds a catalogue from the parts of this workspace and those that a program adds.

use super::Catalogue;
use crate::tracking::{self, Tracker, TrackerContext, Trackers};
use std::sync::Arc;
use trainyard_api::{DynStage, Family, PartKind, PartOptions, SimpleStage, SimpleStageKind, Stage, Stages, erase};
use trainyard_core::{Error, Result};
use trainyard_data::export::{ExportFormat, registry as export};
use trainyard_data::filter::{FilterRule, rules::registry as rules};
use trainyard_data::import::{ImportFormat, registry as import};
use trainyard_data::step_scorers::{StepScorer, registry as step_scorers};
use trainyard_data::synthesize::{SynthesisMethod, registry as synthesize};
use trainyard_envs::environments::{
    self, EnvironmentOptions, EnvironmentSetup, Environments, QuestionEnvironment, QuestionOptions, WithDialogue,
};
use trainyard_envs::{
    AgentTool, Environment, Reward, ToolFormat, ToolSpec, Toolbox, Verifier, rewards, verifiers::registry as verifiers,
};
use trainyard_harness::Harness;
use trainyard_learn::corrections::Correction;
use trainyard_learn::{
    Advantage, Curriculum, Filter, LossTerm, Modulation, PreferenceLoss, Replay, Strategy, registry as learn,
};
use trainyard_lm::backend::registry as backends;
use trainyard_runtime::executors::{self, ExecutorKind};

type MakeStage = Box<dyn FnOnce(&trainyard_train::TrainParts) -> Box<dyn DynStage>>;

/// Adds an environment after all tools, formats and verifiers are known, since its options may name them.
type AddEnvironment = Box<dyn FnOnce(&mut Environments, &Arc<Toolbox>) -> Result<()>>;

/// Constructor of an environment with options `O`.
pub type MakeEnvironment<O> = fn(O, &EnvironmentSetup) -> Result<Box<dyn Environment>>;

/// Collects stage kinds, parts and executors. [`CatalogueBuilder::build`] returns the catalogue, or the first error.
pub struct CatalogueBuilder {
    learn: trainyard_learn::LearnParts,
    toolbox: Toolbox,
    environments: Vec<AddEnvironment>,
    rewards: Family<dyn Reward>,
    export: Family<&'static dyn ExportFormat>,
    import: Family<&'static dyn ImportFormat>,
    rules: Family<dyn FilterRule>,
    step_scorers: Family<dyn StepScorer>,
    synthesize: Family<&'static dyn SynthesisMethod>,
    stages: Vec<MakeStage>,
    executors: Vec<ExecutorKind>,
    trackers: Trackers,
    first_error: Option<Error>,
}

/// Defines methods that each add a part `P`, whose options are `P` itself.
macro_rules! adds {
    ($($(#[$doc:meta])* $add:ident: $part:ident, $line:path, $($family:ident).+;)*) => {$(
        $(#[$doc])*
        #[must_use]
        pub fn $add<P: PartOptions + $part>(mut self) -> Self {
            let added = self.$($family).+.add($line());
            self.note(added)
        }
    )*};
}

impl Catalogue {
    /// Creates a builder with all parts of this workspace.
    pub fn builder() -> CatalogueBuilder {
        CatalogueBuilder {
            learn: trainyard_learn::LearnParts::standard(),
            toolbox: Toolbox::standard(),
            environments: Vec::new(),
            rewards: rewards::family(),
            export: export::family(),
            import: import::family(),
            rules: rules::family(),
            step_scorers: step_scorers::family(),
            synthesize: synthesize::family(),
            stages: Vec::new(),
            executors: executors_of_this_build(),
            trackers: tracking::family(),
            first_error: None,
        }
    }
}

/// Returns the executors of the runtime and of the enabled features, sorted by name.
fn executors_of_this_build() -> Vec<ExecutorKind> {
    let mut kinds = executors::kinds();
    kinds.extend(Vec::from([
        #[cfg(feature = "kubernetes")]
        trainyard_kubernetes::kind(),
    ]));
    kinds.sort_by_key(|kind| kind.name);
    kinds
}

impl CatalogueBuilder {
    /// Adds a stage kind.
    #[must_use]
    pub fn stage(self, stage: impl Stage) -> Self {
        self.stage_with(move |_| stage)
    }
    /// Adds a stage kind whose options type implements the stage.
    #[must_use]
    pub fn simple_stage<S: SimpleStage>(self) -> Self {
        self.stage(SimpleStageKind::<S>::default())
    }
    /// Adds a stage kind that uses parts. `make` gets those of this workspace and all that this builder adds, even
    /// later.
    #[must_use]
    pub fn stage_with<S: Stage>(mut self, make: impl FnOnce(&trainyard_train::TrainParts) -> S + 'static) -> Self {
        self.stages.push(Box::new(move |parts: &trainyard_train::TrainParts| erase(make(parts))));
        self
    }
    /// Adds an environment with options `O`, which `build` constructs.
    #[must_use]
    pub fn environment<O: EnvironmentOptions>(mut self, build: MakeEnvironment<O>) -> Self {
        self.environments.push(Box::new(move |family, toolbox| family.add(environments::line(toolbox, build))));
        self
    }
    /// Adds an environment whose problems are questions without tools.
    #[must_use]
    pub fn questions<O: QuestionOptions>(self) -> Self {
        self.environment(|options: WithDialogue<O>, setup| Ok(Box::new(QuestionEnvironment::new(options, setup)?)))
    }
    /// Adds a tool that environments may name among their `tools`. `make` is called once now, for the tool's name.
    #[must_use]
    pub fn tool(
        mut self,
        summary: &'static str,
        doc: &'static str,
        make: impl Fn() -> Box<dyn AgentTool> + Send + Sync + 'static,
    ) -> Self {
        let part = PartKind::plain(make().name(), summary, doc, move |()| Ok(make()));
        let added = self.toolbox.tools.add(part);
        self.note(added)
    }
    /// Adds a tool-call format. `make` gets the tools that calls may name, and may reject them.
    #[must_use]
    pub fn format(
        mut self,
        kind: &'static str,
        summary: &'static str,
        doc: &'static str,
        make: impl Fn(&[ToolSpec]) -> Result<Box<dyn ToolFormat>> + Send + Sync + 'static,
    ) -> Self {
        let added = self.toolbox.formats.add(PartKind::plain(kind, summary, doc, make));
        self.note(added)
    }
    /// Adds a verifier that problems may name.
    #[must_use]
    pub fn verifier(mut self, verifier: &'static dyn Verifier) -> Self {
        let added = self.toolbox.verifiers.add(verifiers::line(verifier));
        self.note(added)
    }
    /// Adds a file format of `data/import`.
    #[must_use]
    pub fn import_format(mut self, format: &'static dyn ImportFormat) -> Self {
        let added = self.import.add(import::line(format));
        self.note(added)
    }
    /// Adds a format of `artifacts export --as`.
    #[must_use]
    pub fn export_format(mut self, format: &'static dyn ExportFormat) -> Self {
        let added = self.export.add(export::line(format));
        self.note(added)
    }
    /// Adds a method of `data/synthesize`.
    #[must_use]
    pub fn synthesis_method(mut self, method: &'static dyn SynthesisMethod) -> Self {
        let added = self.synthesize.add(synthesize::line(method));
        self.note(added)
    }
    /// Adds a named composition: options of `rl` that `algorithm: <kind>` expands to.
    #[must_use]
    pub fn algorithm(
        mut self,
        kind: &'static str,
        summary: &'static str,
        doc: &'static str,
        options: fn() -> serde_json::Value,
    ) -> Self {
        let part = PartKind::plain(kind, summary, doc, move |()| Ok(Box::new(options())));
        let added = self.learn.algorithms.add(part);
        self.note(added)
    }
    /// Adds an executor that pools of the site file may name.
    #[must_use]
    pub fn executor(mut self, kind: ExecutorKind) -> Self {
        let taken = self.executors.iter().any(|other| other.name == kind.name);
        let name = kind.name;
        self.executors.push(kind);
        self.executors.sort_by_key(|kind| kind.name);
        let duplicate = || {
            Error::invalid(format!("two executors are called `{name}`"))
                .help("choose another name for the added executor")
        };
        self.note(if taken { Err(duplicate()) } else { Ok(()) })
    }

    /// Adds a tracker that site files may name under `tracking`.
    #[must_use]
    pub fn tracker<P: PartOptions>(mut self, build: fn(P, &TrackerContext) -> Result<Box<dyn Tracker>>) -> Self {
        let added = self.trackers.add(PartKind::new(build));
        self.note(added)
    }

    adds! {
        /// Adds an advantage.
        advantage: Advantage, learn::advantage::<P>, learn.advantages;
        /// Adds a correction.
        correction: Correction, learn::correction::<P>, learn.corrections;
        /// Adds a curriculum.
        curriculum: Curriculum, learn::curriculum::<P>, learn.curricula;
        /// Adds a filter of rollouts.
        filter: Filter, learn::filter::<P>, learn.filters;
        /// Adds a loss term.
        loss: LossTerm, learn::loss::<P>, learn.losses;
        /// Adds a modulation of advantages.
        modulation: Modulation, learn::modulation::<P>, learn.modulations;
        /// Adds a preference loss.
        preference_loss: PreferenceLoss, learn::preference_loss::<P>, learn.preference_losses;
        /// Adds a replay.
        replay: Replay, learn::replay_entry::<P>, learn.replay;
        /// Adds a reward.
        reward: Reward, rewards::registry::reward::<P>, rewards;
        /// Adds a rule of `data/filter`.
        rule: FilterRule, rules::rule::<P>, rules;
        /// Adds a scorer of steps for `data/step_labels`.
        step_scorer: StepScorer, step_scorers::scorer::<P>, step_scorers;
        /// Adds a rollout strategy.
        strategy: Strategy, learn::strategy::<P>, learn.strategies;
    }

    /// Builds the catalogue. Errors: the first error of an added part or executor, such as two parts of one family with
    /// the same name (invalid).
    pub fn build(self) -> Result<Catalogue> {
        if let Some(error) = self.first_error {
            return Err(error);
        }
        let toolbox = Arc::new(self.toolbox);
        let mut environments = environments::family_with(&toolbox);
        environments.add(environments::line(&toolbox, |o, setup| Ok(Box::new(Harness::new(o, setup)?))))?;
        for add in self.environments {
            add(&mut environments, &toolbox)?;
        }
        let envs = Arc::new(trainyard_envs::EnvironmentParts { environments, rewards: self.rewards, toolbox });
        let parts = trainyard_train::TrainParts {
            learn: Arc::new(self.learn),
            envs: envs.clone(),
            backends: Arc::new(backends::family()),
        };
        let Self { export, import, rules, step_scorers, synthesize, .. } = self;
        let data = Arc::new(trainyard_data::DataParts {
            envs,
            export,
            import: Arc::new(import),
            open_tokens: Some(crate::token_counter::open),
            rules: Arc::new(rules),
            step_scorers: Arc::new(step_scorers),
            synthesize: Arc::new(synthesize),
        });
        let stage_groups = [
            trainyard_data::registry::stages(&data),
            trainyard_trainers::stages(&data),
            trainyard_lm::registry::stages(),
            trainyard_train::registry::stages(&parts),
        ];
        let mut stages = Stages::new(stage_groups.into_iter().flatten())?;
        for make in self.stages {
            stages.add(make(&parts))?;
        }
        Ok(Catalogue { stages, parts, data, executors: self.executors, trackers: self.trackers })
    }

    /// Records the first error, which [`CatalogueBuilder::build`] returns.
    fn note(mut self, added: Result<()>) -> Self {
        if let Err(error) = added {
            self.first_error.get_or_insert(error);
        }
        self
    }
}
