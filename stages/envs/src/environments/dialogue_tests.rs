use super::*;
use crate::environments::Latency;
use serde_json::Value;
use trainyard_core::clock::ManualClock;

fn spec(name: &str) -> ToolSpec {
    let parameters = json!({"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]});
    ToolSpec { name: name.to_string(), description: String::new(), parameters }
}

fn dialogue(tools: &[&str], environment_tools: &[ToolSpec]) -> Arc<Dialogue> {
    let tools = tools.iter().map(|name| (*name).into()).collect();
    let options = DialogueOptions { tools, format: "hermes".to_string(), max_turns: 4, ..DialogueOptions::default() };
    assert_eq!(options.check(environment_tools, &Toolbox::standard()), []);
    Dialogue::with_tools(options, &EnvironmentSetup::standard(1), environment_tools, |text| Some(text.to_string()))
        .unwrap()
}

fn call(name: &str, text: &str) -> String {
    format!(
        "<tool_call>{{\"name\": \"{name}\", \"arguments\": {{\"text\": \"{text}\", \"expression\": \
         \"{text}\"}}}}</tool_call>"
    )
}

fn take(dialogue: &Dialogue, episode: &mut dyn Episode, text: &str) -> EpisodeStep {
    episode.step(&dialogue.format().parse(text)).unwrap()
}

fn observed(step: &EpisodeStep) -> Vec<String> {
    let EpisodeStep::Observe(observation) = step else { panic!("{step:?}") };
    observation.messages.iter().map(|m| format!("{}: {}", m.role, m.content)).collect()
}

/// State that remembers its calls, ends on the call `end`, and replies to words with a question until they are `bye`.
#[derive(Clone, Default)]
struct Notes(Vec<String>);

impl EpisodeState for Notes {
    fn submit(&mut self, call: &ToolCall) -> PendingToolResult {
        self.0.push(format!("{} {}", call.name, call.arguments["text"].as_str().unwrap()));
        PendingToolResult::ready(ToolResult::ok(self.0.join(", ")))
    }
    fn after_calls(&mut self, results: &[ToolResult]) -> AfterTurn {
        if self.0.last().is_some_and(|note| note.ends_with(" end")) {
            return AfterTurn::End(Some(self.0.len().to_string()));
        }
        AfterTurn::Continue(if results.len() > 1 { vec![Message::new("user", "one at a time")] } else { Vec::new() })
    }
    fn after_text(&mut self, text: &str) -> Option<AfterTurn> {
        match text {
            "bye" => None,
            "stop" => Some(AfterTurn::End(None)),
            _ => Some(AfterTurn::Continue(vec![Message::new("user", "what?")])),
        }
    }
    fn fork(&self) -> Result<Box<dyn EpisodeState>> {
        Ok(Box::new(self.clone()))
    }
}

#[test]
fn environment_tools_share_state_and_work_beside_registry_tools() {
    let environment_tools = [spec("add"), spec("put")];
    let dialogue = dialogue(&["calculator"], &environment_tools);
    assert_eq!(dialogue.specs().iter().map(|s| s.name.clone()).collect::<Vec<_>>(), ["calculator", "add", "put"]);
    let mut episode = dialogue.start_in(Box::new(Notes::default()), 0).unwrap();
    assert_eq!(observed(&take(&dialogue, &mut *episode, &call("add", "a"))), ["tool: add a"]);
    let three = [call("put", "b"), call("calculator", "1+1"), call("abacus", "1")].concat();
    let unknown = "tool: error: no tool `abacus`; use one of: calculator, add, put";
    let expected = ["tool: add a, put b", "tool: 2", unknown, "user: one at a time"];
    assert_eq!(observed(&take(&dialogue, &mut *episode, &three)), expected);
    let mut fork = episode.fork().unwrap();
    assert_eq!(observed(&take(&dialogue, &mut *fork, &call("add", "c"))), ["tool: add a, put b, add c"]);
    let done = Outcome { answer: Some("3".to_string()), turns: 3, tool_calls: 5, tool_errors: 1, ..Outcome::default() };
    assert_eq!(take(&dialogue, &mut *episode, &call("put", "end")), EpisodeStep::Done(done));
    assert!(episode.step(&AgentTurn::default()).is_err());
}

#[test]
fn replies_to_words_stop_at_the_last_turn() {
    let environment_tools = [spec("add")];
    let dialogue = dialogue(&[], &environment_tools);
    let start = || dialogue.start_in(Box::new(Notes::default()), 0).unwrap();
    let mut episode = start();
    for _ in 0..3 {
        assert_eq!(observed(&take(&dialogue, &mut *episode, "hm")), ["user: what?"]);
    }
    let turns = Outcome { stop: StopReason::Turns, turns: 4, ..Outcome::default() };
    assert_eq!(take(&dialogue, &mut *episode, "hm"), EpisodeStep::Done(turns));
    let answer = Outcome { answer: Some("bye".to_string()), turns: 1, ..Outcome::default() };
    assert_eq!(take(&dialogue, &mut *start(), "bye"), EpisodeStep::Done(answer));
    let end = Outcome { stop: StopReason::End, turns: 1, ..Outcome::default() };
    assert_eq!(take(&dialogue, &mut *start(), "stop"), EpisodeStep::Done(end));
}

/// Tool session whose results are the number of its calls.
struct Counter(u32);

impl ToolSession for Counter {
    fn submit(&mut self, _arguments: &Value) -> PendingToolResult {
        self.0 += 1;
        PendingToolResult::ready(ToolResult::ok(self.0.to_string()))
    }
    fn fork(&self) -> Result<Box<dyn ToolSession>> {
        Ok(Box::new(Self(self.0)))
    }
}

#[test]
fn sessions_of_environment_tools_are_independent() {
    let environment_tools = [spec("one"), spec("two")];
    let dialogue = dialogue(&[], &environment_tools);
    let mut episode = dialogue.start_with(vec![Box::new(Counter(0)), Box::new(Counter(10))], 0).unwrap();
    let both = [call("one", "x"), call("two", "x"), call("one", "x")].concat();
    assert_eq!(observed(&take(&dialogue, &mut *episode, &both)), ["tool: 1", "tool: 11", "tool: 2"]);
    let mut fork = episode.fork().unwrap();
    assert_eq!(observed(&take(&dialogue, &mut *fork, &call("two", "x"))), ["tool: 12"]);
    assert_eq!(observed(&take(&dialogue, &mut *episode, &call("two", "x"))), ["tool: 12"]);
}

/// Tool session that gives every call this result.
struct FixedResult(ToolResult);

impl ToolSession for FixedResult {
    fn submit(&mut self, _arguments: &Value) -> PendingToolResult {
        PendingToolResult::ready(self.0.clone())
    }
    fn fork(&self) -> Result<Box<dyn ToolSession>> {
        Ok(Box::new(Self(self.0.clone())))
    }
}

#[test]
fn late_and_lost_calls_are_distinguished() {
    let dialogue = dialogue(&[], &[spec("one"), spec("two")]);
    let (fine, late, lost) = (ToolResult::ok("1"), ToolResult::timed_out("late"), ToolResult::infrastructure("lost"));
    for (first, second, timed_out) in [(&fine, &late, true), (&fine, &lost, false), (&lost, &late, false)] {
        let mut episode = dialogue
            .start_with(vec![Box::new(FixedResult(first.clone())), Box::new(FixedResult(second.clone()))], 0)
            .unwrap();
        let step = take(&dialogue, &mut *episode, &[call("one", "x"), call("two", "x")].concat());
        let EpisodeStep::Done(end) = &step else { panic!("{step:?}") };
        assert_eq!(
            (end.stop, end.status, end.timed_out),
            (StopReason::Error, EpisodeStatus::Infrastructure, timed_out)
        );
        assert_eq!((end.turns, end.tool_calls), (1, 2));
    }
}

#[test]
fn missing_states_and_sessions_are_bugs() {
    let environment_tools = [spec("one")];
    let dialogue = dialogue(&[], &environment_tools);
    assert!(dialogue.start(0).is_err() && dialogue.start_with(Vec::new(), 0).is_err());
    assert_eq!(dialogue.call("x").unwrap().arguments, json!({"text": "x"}));
    let nothing = DialogueOptions { tools: Vec::new(), ..DialogueOptions::default() };
    assert_eq!(nothing.check(&[spec("one"), spec("two")], &Toolbox::standard())[0].pointer, "/format");
}

/// Returns a calculator whose results are held back for 5 to 10 ms by the returned clock.
fn slow_calculator() -> (Arc<Dialogue>, Arc<ManualClock>) {
    let latency = Latency { least_millis: 5, most_millis: 10 };
    let mut slow = dialogue(&["calculator"], &[]);
    let clock = Arc::new(ManualClock::default());
    let inner = Arc::get_mut(&mut slow).unwrap();
    inner.options.latency = Some(latency);
    inner.clock = clock.clone();
    (slow, clock)
}

#[test]
fn latency_delays_results_without_changing_them() {
    let at_once = dialogue(&["calculator"], &[]);
    let (slow, clock) = slow_calculator();
    let text = [call("calculator", "1+1"), call("abacus", "1")].concat();
    let turn = slow.format().parse(&text);
    let expected = take(&at_once, &mut *at_once.start(7).unwrap(), &text);
    assert_eq!(observed(&expected)[0], "tool: 2");
    let mut episode = slow.start(7).unwrap();
    assert_eq!(episode.step(&turn).unwrap(), EpisodeStep::Pending);
    assert!(episode.step(&turn).is_err() && episode.fork().is_err());
    clock.advance(Duration::from_millis(4));
    assert_eq!(episode.poll(Duration::ZERO), Ok(None));
    clock.advance(Duration::from_millis(6));
    assert_eq!(episode.poll(Duration::ZERO), Ok(Some(expected.clone())));
    assert_eq!(episode.poll(Duration::ZERO), Ok(None), "an observation is returned once");
    let fork = episode.fork().unwrap();
    for mut next in [episode, fork] {
        // The clock does not move, so the episode waits for the whole remaining time.
        assert_eq!(next.step(&turn).unwrap(), EpisodeStep::Pending);
        assert_eq!(next.poll(Duration::from_millis(1)), Ok(None));
        assert_eq!(next.poll(Duration::from_millis(10)), Ok(Some(expected.clone())));
        assert!(
            matches!(next.step(&slow.format().parse("2")).unwrap(), EpisodeStep::Done(_)),
            "an answer is not delayed"
        );
    }
}

#[test]
fn latency_depends_on_the_seed() {
    let (slow, clock) = slow_calculator();
    let turn = slow.format().parse(&call("calculator", "1+1"));
    let mut episodes: Vec<Box<dyn Episode>> = (0..40).map(|seed| slow.start(seed).unwrap()).collect();
    for episode in &mut episodes {
        assert_eq!(episode.step(&turn).unwrap(), EpisodeStep::Pending);
    }
    clock.advance(Duration::from_millis(7));
    let seen = episodes.iter_mut().filter_map(|e| e.poll(Duration::ZERO).unwrap()).count();
    assert!((1..40).contains(&seen), "{seen} of 40");
    let late = slow.options().latency.unwrap();
    assert_eq!(seen, (0..40).filter(|seed| late.of_turn(*seed, 1) <= Duration::from_millis(7)).count());
}

#[test]
fn latency_is_an_option() {
    let options =
        DialogueOptions { latency: Some(Latency { least_millis: 2, most_millis: 1 }), ..DialogueOptions::default() };
    assert_eq!(options.check(&[], &Toolbox::standard())[0].pointer, "/latency/least_millis");
    let json = serde_json::to_value(DialogueOptions::default()).unwrap();
    assert!(json.get("latency").is_none(), "left out when unset, so older digests stay");
}

#[test]
fn without_tools_every_turn_is_an_answer() {
    let options = DialogueOptions { tools: Vec::new(), describe_tools: true, ..DialogueOptions::default() };
    assert_eq!(options.check(&[], &Toolbox::standard()), []);
    let dialogue = Dialogue::new(options, &EnvironmentSetup::standard(1), |text| Some(text.to_string())).unwrap();
    let text = call("calculator", "6*7");
    let mut episode = dialogue.start(0).unwrap();
    let answer = Outcome { stop: StopReason::Answer, answer: Some(text.clone()), turns: 1, ..Outcome::default() };
    assert_eq!(take(&dialogue, &mut *episode, &text), EpisodeStep::Done(answer));
    let problem = Problem { messages: vec![Message::new("user", "6*7?")], ..Problem::default() };
    assert_eq!(dialogue.prompt(&problem), problem.messages);
}

#[test]
fn answers_are_checked_as_the_option_extract_says() {
    use crate::verifiers::Extraction;
    let problem = Problem { answer: "0".into(), ..Problem::default() };
    let check = |extract, answer: &str| {
        let options = DialogueOptions { tools: Vec::new(), extract, ..DialogueOptions::default() };
        let dialogue = Dialogue::new(options, &EnvironmentSetup::standard(1), |text| Some(text.to_string())).unwrap();
        dialogue.check_answer(&problem, answer).unwrap()
    };
    let bergen = check(Extraction::Auto, "It is 0 degrees in Bergen.");
    assert_eq!((bergen.extracted.as_deref(), bergen.correct), (Some("0"), true));
    assert_eq!((bergen.expected.as_str(), bergen.verifier.as_str()), ("0", "numeric"));
    assert!(check(Extraction::None, "It is 0 degrees in Bergen.").unreadable.is_some());
    assert!(check(Extraction::LastNumber, "At 12 it is 0 degrees.").correct);
}
