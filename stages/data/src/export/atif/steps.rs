//! Converts the messages of a trajectory to steps of ATIF, in which a turn and the results of its calls are one step.

use super::metrics::TurnMetrics;
use crate::export::call_ids::{CallIds, object_arguments};
use crate::export::conversation::ExportMessage;
use crate::export::omissions::ExportOmissions;
use crate::tool_text::RawToolCall;
use trainyard_core::Result;
use trainyard_tables::{OrderedValue, Trajectory, answers_in_prompt};

/// A step whose results may follow.
struct Step {
    source: &'static str,
    message: String,
    reasoning: Option<String>,
    calls: Vec<OrderedValue>,
    /// Ids of `calls`.
    ids: Vec<String>,
    results: Vec<OrderedValue>,
    metrics: Option<OrderedValue>,
    extra: OrderedValue,
    is_sampled: bool,
    is_copied: bool,
}

impl Step {
    fn new(source: &'static str, message: &str) -> Self {
        Self {
            source,
            message: message.to_string(),
            reasoning: None,
            calls: Vec::new(),
            ids: Vec::new(),
            results: Vec::new(),
            metrics: None,
            extra: OrderedValue::Object(Vec::new()),
            is_sampled: false,
            is_copied: false,
        }
    }
    /// Returns the step with its number.
    fn row(self, number: usize) -> OrderedValue {
        let listed = |items: Vec<OrderedValue>| (!items.is_empty()).then_some(OrderedValue::List(items));
        let observation = listed(self.results).map(|results| OrderedValue::object([("results", results)]));
        OrderedValue::object([
            ("step_id", OrderedValue::Int(i64::try_from(number).unwrap_or(i64::MAX))),
            ("source", self.source.into()),
            ("message", self.message.into()),
        ])
        .with("reasoning_content", self.reasoning.map(OrderedValue::from))
        .with("tool_calls", listed(self.calls))
        .with("observation", observation)
        .with("metrics", self.metrics)
        .with("llm_call_count", self.is_sampled.then_some(OrderedValue::Int(1)))
        .with("is_copied_context", self.is_copied.then_some(OrderedValue::Bool(true)))
        .with("extra", (!self.extra.keys().is_empty()).then_some(self.extra))
    }
}

/// Converts the messages; `metrics` are those of the agent's turns after the prompt. Errors: data, if arguments are not
/// JSON.
pub fn steps(
    row: &Trajectory,
    exported: &[ExportMessage<'_>],
    metrics: Vec<Option<TurnMetrics>>,
    omissions: &mut ExportOmissions,
) -> Result<Vec<OrderedValue>> {
    let mut steps: Vec<Step> = Vec::new();
    let mut ids = CallIds::default();
    let mut given = answers_in_prompt(row);
    let (mut turns, mut turn_rewards) = (metrics.into_iter(), row.turn_rewards.iter());
    for one in exported {
        match one.message.role.as_str() {
            "tool" => result(&mut steps, one, &mut ids, omissions),
            "assistant" => {
                let mut step = agent(one, &mut ids, omissions)?;
                step.is_copied = given > 0;
                if given > 0 {
                    given -= 1;
                } else {
                    step.metrics = turns.next().flatten().map(|turn| turn.row);
                    step.is_sampled = step.metrics.is_some() && row.model_digest.is_some();
                    let reward = turn_rewards.next().map(|reward| OrderedValue::Float(*reward));
                    step.extra = step.extra.with("reward", reward);
                }
                steps.push(step);
            }
            "user" => steps.push(spoken("user", one)),
            _ => steps.push(spoken("system", one)),
        }
    }
    Ok(steps.into_iter().enumerate().map(|(i, step)| step.row(i + 1)).collect())
}

/// Returns the step of a user or system message.
fn spoken(source: &'static str, exported: &ExportMessage<'_>) -> Step {
    let role = exported.message.role.as_str();
    let mut step = Step::new(source, &exported.text);
    step.extra = named(exported).with("role", (role != source).then(|| role.into()));
    step
}

fn named(exported: &ExportMessage<'_>) -> OrderedValue {
    OrderedValue::Object(Vec::new()).with("name", exported.message.name.as_deref().map(OrderedValue::from))
}

fn agent(exported: &ExportMessage<'_>, ids: &mut CallIds, omissions: &mut ExportOmissions) -> Result<Step> {
    let mut step = Step::new("agent", &exported.text);
    step.reasoning.clone_from(&exported.message.reasoning_content);
    step.extra = named(exported).with("weight", exported.is_context.then_some(OrderedValue::Int(0)));
    ids.begin_turn();
    for one in &exported.calls {
        let id = ids.call_id(one);
        step.calls.push(call(&id, one, omissions)?);
        step.ids.push(id);
    }
    Ok(step)
}

fn call(id: &str, call: &RawToolCall, omissions: &mut ExportOmissions) -> Result<OrderedValue> {
    Ok(OrderedValue::object([
        ("tool_call_id", id.into()),
        ("function_name", call.name.as_str().into()),
        ("arguments", object_arguments(call, omissions)?),
    ]))
}

/// Adds the result of a call to the step of that call, which is the last one; a result after another message becomes a
/// step of the system.
fn result(steps: &mut Vec<Step>, exported: &ExportMessage<'_>, ids: &mut CallIds, omissions: &mut ExportOmissions) {
    let id = ids.result_id(exported.message);
    if steps.last().is_none_or(|last| last.source != "agent" && last.results.is_empty()) {
        steps.push(Step::new("system", ""));
    }
    let Some(step) = steps.last_mut() else { return };
    let known = id.as_ref().is_some_and(|id| step.ids.contains(id));
    omissions.add("ids of results without their call", usize::from(!known && exported.message.tool_call_id.is_some()));
    let extra = named(exported);
    let row = OrderedValue::Object(Vec::new())
        .with("source_call_id", id.filter(|_| known).map(OrderedValue::from))
        .with("content", Some(exported.text.as_str().into()))
        .with("extra", (!extra.keys().is_empty()).then_some(extra));
    step.results.push(row);
}
