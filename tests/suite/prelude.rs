//! The prelude is sufficient: a part of every RL family, a reward, a filter rule, a tool, a tool-call format, a
//! verifier, an import format and a synthesis method are written with its names and those of `serde` and `schemars`
//! alone.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::Path;
use trainyard::prelude::*;

/// A part without options.
#[derive(Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Still {}

impl PartOptions for Still {
    const KIND: &'static str = "still";
    const SUMMARY: &'static str = "changes nothing";
    const DOC: &'static str = "For a test.";
    fn metrics() -> Vec<MetricInfo> {
        vec![MetricInfo::new("rollouts", "rollouts", "Rollouts that it saw.").reduced_by(Reduce::Whole).optional()]
    }
    fn check(&self) -> Vec<OptionProblem> {
        Vec::new()
    }
}

impl RlPart for Still {
    fn needs(&self) -> Needs {
        Needs { groups: true, ..Needs::NONE }
    }
    fn save(&self) -> Value {
        json!(null)
    }
    fn load(&mut self, _: Value) -> Result<()> {
        Ok(())
    }
}

impl Advantage for Still {
    fn assign(&mut self, batch: &Batch) -> TokenGrid {
        batch.spread(&batch.rollouts().map(|r: &Rollout| r.trajectory.reward).collect::<Vec<_>>())
    }
    fn returns(&self, _: &Batch, advantages: &TokenGrid) -> Option<TokenGrid> {
        Some(advantages.clone())
    }
}

impl Correction for Still {
    fn weights(&self, proximal: &TokenGrid, _: &TokenGrid, _: &[Vec<bool>]) -> TokenGrid {
        proximal.clone()
    }
}

impl Curriculum for Still {
    fn next(&mut self, _: u64, count: usize, pool: &ProblemPool, rates: &PassRates, _: &Chance) -> Draw {
        let unseen = |(_, problem): &(usize, &PoolProblem)| rates.recent(problem.level, 1).is_none();
        let problems = pool.problems.iter().enumerate().filter(unseen).map(|(i, _)| i).take(count).collect();
        Draw { problems, ..Draw::default() }
    }
}

impl Filter for Still {
    fn judge(&mut self, groups: &[Group]) -> Vec<Vec<RolloutVerdict>> {
        let turns = |turns: &[TurnSummary]| {
            if turns.is_empty() { RolloutVerdict::Drop("empty".into()) } else { RolloutVerdict::Keep }
        };
        groups.iter().map(|group| group.rollouts.iter().map(|r| turns(&r.turns)).collect()).collect()
    }
}

impl LossTerm for Still {
    fn begin(&mut self, _: &Batch, progress: Progress) {
        assert!(progress.share() < 1.0);
    }
    fn value(&self, batch: &LossBatch) -> TermValue {
        let weights = Aggregate::TokenMean.weights(&batch.mask, None);
        TermValue { d_logprobs: weights, ..TermValue::default() }
    }
    fn scope(&self) -> TermScope {
        TermScope::Minibatch
    }
}

impl Modulation for Still {
    fn apply(&mut self, _: &Batch, _: &mut TokenGrid) {}
}

impl PreferenceLoss for Still {
    fn value(&self, pair: &PreferencePair) -> PairTerm {
        let reward = |answer: &PairAnswer| answer.logprob / answer.tokens as f64;
        let (chosen_reward, rejected_reward) = (reward(&pair.chosen), reward(&pair.rejected));
        PairTerm { chosen_reward, rejected_reward, ..PairTerm::default() }
    }
}

impl Replay for Still {
    fn offer(&mut self, _: &Batch, _: &TokenGrid) {}
    fn draw(&mut self, _: u64, _: &Chance) -> Vec<ReplayedRollout> {
        Vec::new()
    }
}

impl Strategy for Still {
    fn start(&mut self, draw: &Draw, _: &ProblemPool, size: u32, _: Progress, _: &Chance) -> Vec<Spawn> {
        let groups = 0..draw.problems.len();
        let prefix: Option<EpisodePrefix> = None;
        let spawn = |group, sample| Spawn { group, sample, prefix: prefix.clone(), ..Spawn::default() };
        groups.flat_map(|group| (0..size).map(move |sample| (group, sample))).map(|(g, s)| spawn(g, s)).collect()
    }
    fn at_turn(&mut self, live: &LiveSequence, group: &GroupBudget, _: &Chance) -> StrategyAction {
        let copies = group.budget - group.started;
        if copies > 0 { StrategyAction::Fork { at: live.first, copies } } else { StrategyAction::Continue }
    }
}

impl Reward for Still {
    fn score(&self, _: &Trajectory, _: &Problem, group: &GroupView<'_>) -> Result<Score> {
        Ok(Score::of(group.correct.len() as f64))
    }
}

impl FilterRule for Still {
    fn kind(&self) -> &'static str {
        Self::KIND
    }
    fn columns(&self) -> RuleColumns {
        RuleColumns::named(&["turns"])
    }
    fn start<'a>(&'a self, _: &'a RuleContext<'a>) -> Result<Box<dyn RulePass + 'a>> {
        Ok(each_row(|_| Ok(RuleVerdict::Keep)))
    }
}

struct Bell;

impl AgentTool for Bell {
    fn name(&self) -> &'static str {
        "bell"
    }
    fn specs(&self) -> Vec<ToolSpec> {
        let parameters = json!({"type": "object", "properties": {}});
        vec![ToolSpec { name: "bell".into(), description: "Rings.".into(), parameters }]
    }
    fn open(&self, _: &Arc<ToolHost>, _: &ToolLimits) -> Result<Box<dyn ToolSession>> {
        Ok(Box::new(Self))
    }
}

impl ToolSession for Bell {
    fn submit(&mut self, _: &Value) -> PendingToolResult {
        PendingToolResult::ready(ToolResult::ok("ding"))
    }
    fn fork(&self) -> Result<Box<dyn ToolSession>> {
        Ok(Box::new(Self))
    }
}

struct Mute;

impl ToolFormat for Mute {
    fn kind(&self) -> &'static str {
        "mute"
    }
    fn parse(&self, text: &str) -> AgentTurn {
        AgentTurn { text: text.into(), ..AgentTurn::default() }
    }
    fn render(&self, call: &ToolCall) -> String {
        call.name.clone()
    }
    fn describe(&self, _: &[ToolSpec]) -> String {
        String::new()
    }
}

struct Always;

impl Verifier for Always {
    fn kind(&self) -> &'static str {
        "always"
    }
    fn summary(&self) -> &'static str {
        "every answer is right"
    }
    fn matches(&self, _: &str, _: &str) -> Result<bool> {
        Ok(true)
    }
}

struct Lines;

impl ImportFormat for Lines {
    fn name(&self) -> &'static str {
        "lines"
    }
    fn summary(&self) -> &'static str {
        "a question per line"
    }
    fn outputs(&self) -> &'static [&'static str] {
        &["problems"]
    }
    fn open<'r>(&'r self, _: &Path, reading: &'r ImportContext) -> Result<RowConverter<'r>> {
        let problem = move |row: &ImportRow| {
            let line = row.columns.get("text").and_then(Value::as_str);
            Ok(Problem {
                id: format!("{}-{}", reading.name, row.place),
                messages: vec![Message::new("user", line.ok_or_else(|| Error::data("not a line of text"))?)],
                environment: reading.environment_or("math-problems"),
                ..Problem::default()
            })
        };
        Ok(Box::new(move |row| problem(row).map(ImportedRows::from)))
    }
}

struct Given;

impl SynthesisMethod for Given {
    fn name(&self) -> &'static str {
        "given"
    }
    fn summary(&self) -> &'static str {
        "passes problems on"
    }
    fn environment(&self) -> Value {
        json!("word-problems")
    }
    fn check(&self, _: &SynthesisOptions, _: Option<&dyn Environment>, _: &Environments) -> Vec<OptionProblem> {
        Vec::new()
    }
    fn make(
        &self,
        _: &SynthesisOptions,
        problems: Vec<Problem>,
        world: &SynthesisContext<'_>,
    ) -> Result<SynthesisOutput> {
        (world.progress)(1, 1)?;
        Ok(SynthesisOutput { problems, demonstrations: Vec::new(), report: StageReport::new("Given problems") })
    }
}

#[test]
fn everything_can_be_written_with_the_prelude_alone_and_added() {
    let parts = Catalogue::builder()
        .advantage::<Still>()
        .correction::<Still>()
        .curriculum::<Still>()
        .filter::<Still>()
        .loss::<Still>()
        .modulation::<Still>()
        .preference_loss::<Still>()
        .replay::<Still>()
        .reward::<Still>()
        .rule::<Still>()
        .strategy::<Still>();
    let catalogue = parts
        .tool("rings", "For a test.", || Box::new(Bell))
        .format("mute", "no calls", "For a test.", |_| Ok(Box::new(Mute)))
        .verifier(&Always)
        .import_format(&Lines)
        .synthesis_method(&Given)
        .build()
        .unwrap();
    let families = [
        "advantages",
        "corrections",
        "curricula",
        "filters",
        "losses",
        "modulations",
        "preference_losses",
        "replay",
        "rewards",
        "rules",
        "strategies",
    ];
    let names = families.iter().map(|family| format!("{family}/still"));
    let named = ["tools/bell", "formats/mute", "verifiers/always", "import/lines", "synthesize/given"];
    for name in names.chain(named.map(String::from)) {
        assert!(catalogue.find(&name).is_ok(), "{name}");
    }
}
