//! A program that extends Trainyard with a custom stage kind, loss, reward, environment and executor.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::process::ExitCode;
use trainyard::prelude::*;

fn main() -> ExitCode {
    let nice = ExecutorKind::new("nice", "attempts of low priority on this machine", nice).on_this_machine();
    let catalogue = Catalogue::builder().simple_stage::<Numbers>().loss::<Plain>().reward::<Brief>();
    trainyard::main(catalogue.questions::<Parity>().executor(nice))
}

/// Options of `numbers`, and its implementation. `extend stages numbers` prints the comments of the fields.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Numbers {
    /// Number of problems.
    count: u64,
}

impl SimpleStage for Numbers {
    const NAME: &'static str = "numbers";
    const SUMMARY: &'static str = "problems that ask whether a number is odd or even";
    const DOC: &'static str = "Numbers from 0 to `count`, in order.";
    fn ports() -> Ports {
        let problems = port("problems", ArtifactKind::Problems, Cardinality::One, "What to practice on.");
        Ports { inputs: Vec::new(), outputs: vec![problems] }
    }
    fn run(self, context: &mut StageContext) -> Result<()> {
        let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
        context.log(format!("niceness {}", stat.split(' ').nth(18).unwrap_or("unknown")));
        let problem = |n: u64| Problem {
            id: format!("number-{n}"),
            messages: vec![Message::new("user", format!("{n}?"))],
            answer: if n.is_multiple_of(2) { "even" } else { "odd" }.into(),
            verifier: r#"{"kind": "text"}"#.into(),
            environment: "parity".into(),
            level: 1,
            ..Problem::default()
        };
        let rows: Vec<Problem> = (0..self.count).map(problem).collect();
        write_problems(&context.output_parquet("problems")?, &rows)
    }
}

#[derive(Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Plain {}

impl PartOptions for Plain {
    const KIND: &'static str = "plain";
    const SUMMARY: &'static str = "the policy gradient without a ratio";
    const DOC: &'static str = "Token loss = −A·logπ (REINFORCE).";
    fn metrics() -> Vec<MetricInfo> {
        vec![MetricInfo::new("tokens", "share", "Share of the tokens that it saw.")]
    }
}

impl RlPart for Plain {}
impl LossTerm for Plain {
    fn value(&self, batch: &LossBatch) -> TermValue {
        let mut term = TermValue { d_logprobs: batch.zeros(), ..TermValue::default() };
        for (i, t) in batch.places() {
            let slope = -batch.weights[i][t] * batch.advantages[i][t];
            term.d_logprobs[i][t] = slope;
            term.loss += slope * batch.logprobs[i][t];
        }
        term.sums = vec![("tokens", batch.places().count() as f64)];
        term
    }
}

#[derive(Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Brief {}

impl PartOptions for Brief {
    const KIND: &'static str = "brief";
    const SUMMARY: &'static str = "more for fewer tokens";
    const DOC: &'static str = "1 / tokens of the episode.";
}

impl Reward for Brief {
    fn score(&self, episode: &Trajectory, _: &Problem, _: &GroupView<'_>) -> Result<Score> {
        Ok(Score::of(1.0 / episode.token_ids.len() as f64))
    }
}

#[derive(Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
struct Parity {}

impl ExtraOptions for Parity {
    const KIND: &'static str = "parity";
    const SUMMARY: &'static str = "odd or even, in one turn";
    const DOC: &'static str = "The whole turn is the answer; the verifier of the problem judges it.";
    fn dialogue() -> DialogueOptions {
        DialogueOptions { tools: vec!["calculator".into()], max_turns: 1, ..DialogueOptions::default() }
    }
}

impl QuestionOptions for Parity {
    fn read_answer(turn: &str) -> Option<String> {
        Some(turn.trim().to_string())
    }
}

/// Creates a local executor that starts its attempts with `nice`.
fn nice(with: &ExecutorContext, options: LocalOptions) -> Result<Arc<dyn Executor>> {
    let launcher = with.launcher.clone().wrapped_in("nice", &["-n", "10"]);
    Ok(Arc::new(LocalExecutor::named("nice", launcher, with.slots.clone(), options)))
}
