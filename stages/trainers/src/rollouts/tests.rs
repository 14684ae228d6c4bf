//! Tests rollouts with scripted trainers: a thread or a shell at the other end of the socket.

use super::options::RolloutOptions;
use super::play::{RolloutService, RolloutSettings};
use super::serve::{serve, serve_trainer};
use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use trainyard_api::CancelToken;
use trainyard_core::{Chance, Error, ErrorKind, Result};
use trainyard_envs::ToolHost;
use trainyard_envs::rewards::{RewardContext, RewardList};
use trainyard_lm::template::{BuiltinTemplate, ChatEncoder};
use trainyard_lm::tokenizer::character_tokenizer;
use trainyard_lm::{Decoder, GenerationConfig, ModelConfig, ModelFolder};
use trainyard_process::{OneShotFolder, null_log};
use trainyard_tables::{Message, Problem};
use trainyard_train::rewards::Rewards;

const CALL: &str = "<tool_call>{\"name\": \"calculator\", \"arguments\": {\"expression\": \"1+1\"}}</tool_call>";

fn model() -> ModelFolder {
    let template = BuiltinTemplate::Compact;
    let characters: String = (' '..='~').chain(['\n']).collect();
    let tokenizer = character_tokenizer([characters.as_str()], template.special_tokens()).unwrap();
    let config = ModelConfig {
        max_position_embeddings: 2048,
        ..ModelConfig::llama(tokenizer.vocabulary_size(), 16, 32, 1, 2, 2)
    };
    let weights = Decoder::initialize(&config, &Chance::new(7)).and_then(|d| d.weights()).unwrap();
    let chat = ChatEncoder::new(tokenizer, template.template().unwrap()).unwrap();
    ModelFolder::new(config, weights, chat, GenerationConfig::default()).unwrap()
}

fn service(rollout: &RolloutOptions) -> RolloutService<'_> {
    let parts = trainyard_envs::EnvironmentParts::standard();
    let mut options = json!({"kind": "math-problems", "tools": ["calculator"], "format": "hermes", "max_turns": 3});
    options["describe_tools"] = json!(true);
    let environment = parts.environments.build(&options, &ToolHost::new(1)).unwrap();
    let problem = |n: usize| Problem {
        id: format!("p{n}"),
        messages: vec![Message::new("user", format!("What is {n} + 1?"))],
        answer: (n + 1).to_string(),
        verifier: "{}".into(),
        ..Problem::default()
    };
    let mut list = json!([{"kind": "answer"}, {"kind": "tool_efficiency", "weight": 0.5}]);
    let list = RewardList::read(&parts.rewards, &mut list);
    RolloutService::new(RolloutSettings {
        model: model(),
        environment,
        problems: (0..3).map(problem).collect(),
        rewards: Rewards::new(&list, &RewardContext::detached()).unwrap(),
        rollout,
        chance: Chance::new(1),
        steps: 10,
    })
}

/// The trainer's end: its turn for every `say`, by the text of the context.
struct Trainer {
    lines: BufReader<UnixStream>,
    chat: ChatEncoder,
    stop: u32,
}

impl Trainer {
    fn new(stream: UnixStream) -> Self {
        let model = model();
        Self { lines: BufReader::new(stream), stop: model.stop_tokens()[0], chat: model.chat }
    }
    fn send(&mut self, text: &str) {
        self.lines.get_mut().write_all(format!("{text}\n").as_bytes()).unwrap();
    }
    fn request(&mut self, message: &Value) -> Value {
        self.send(&message.to_string());
        self.receive()
    }
    fn receive(&mut self) -> Value {
        let mut line = String::new();
        self.lines.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or(Value::Null)
    }
    fn text(&self, tokens: &Value) -> String {
        let tokens: Vec<u32> = serde_json::from_value(tokens.clone()).unwrap();
        self.chat.tokenizer().decode(&tokens).unwrap()
    }
    fn tokens(&self, text: &str, max_tokens: u64) -> Vec<u32> {
        let mut tokens = self.chat.tokenizer().encode_plain(text).unwrap();
        tokens.push(self.stop);
        tokens.truncate(max_tokens as usize);
        tokens
    }
    fn play(&mut self, problems: &[&str], respond: impl Fn(usize, &str) -> String) -> Value {
        let mut received = self.request(&json!({"play": {"step": 0, "round": 0, "problems": problems, "members": 2}}));
        while let Some(turns) = received["say"].as_array() {
            let sampled = turns.iter().enumerate().map(|(at, turn)| {
                let text = respond(at, &self.text(&turn["tokens"]));
                self.tokens(&text, turn["most"].as_u64().unwrap())
            });
            let sampled: Vec<Vec<u32>> = sampled.collect();
            received = self.request(&json!({ "said": sampled }));
        }
        received["played"].take()
    }
}

/// Serves a trainer that runs `script`; returns the results of the service and of the trainer.
fn served<T: Send>(script: impl FnOnce(Trainer) -> T + Send) -> (Result<()>, T) {
    let rollout = RolloutOptions { max_episode_tokens: 1024, max_turn_tokens: 200, ..RolloutOptions::default() };
    let mut service = service(&rollout);
    let (stage_end, trainer_end) = UnixStream::pair().unwrap();
    std::thread::scope(|scope| {
        let trainer = scope.spawn(|| script(Trainer::new(trainer_end)));
        let result = serve(&mut service, stage_end, &CancelToken::default());
        (result, trainer.join().unwrap())
    })
}

#[test]
fn episodes_are_scored_and_returned_with_sampled_tokens() {
    let (result, (opened, played, state)) = served(|mut trainer| {
        let opened = trainer.request(&json!({"open": {}}));
        let played = trainer.play(&["p1", "p0"], |at, context| match (at, context.contains("1+1")) {
            _ if context.ends_with("never") => unreachable!(),
            (0, false) if context.contains("What is 1") => CALL.to_string(),
            (_, true) => "It is 2.\n#### 2".to_string(),
            _ => "#### 1".to_string(),
        });
        let text = |key: &str| trainer.text(&played["episodes"][0][key]);
        assert!(text("prompt").contains("What is 1 + 1?") && text("prompt").contains("calculator"));
        assert!(text("completion").starts_with(CALL) && text("completion").contains("#### 2"));
        let state = trainer.request(&json!({"save": {}}));
        (opened, played, state)
    });
    result.unwrap();
    assert_eq!(opened["opened"]["rewards"], json!([["answer", 1.0], ["tool_efficiency", 0.5]]));
    let episodes = played["episodes"].as_array().unwrap();
    assert_eq!(episodes.len(), 4);
    let rewards: Vec<f64> = episodes.iter().map(|one| one["rewards"]["answer"].as_f64().unwrap()).collect();
    assert_eq!(rewards, [1.0, 0.0, 1.0, 1.0]);
    let mask: Vec<u64> = serde_json::from_value(episodes[0]["mask"].clone()).unwrap();
    assert_eq!(mask.len(), episodes[0]["completion"].as_array().unwrap().len());
    let sampled = CALL.chars().count() + 1 + "It is 2.\n#### 2".len() + 1;
    assert_eq!((mask.iter().sum::<u64>(), mask[0], mask.last()), (sampled as u64, 1, Some(&1)));
    assert!(mask.len() > sampled, "the tool's answer is in the completion, and not in the mask");
    assert_eq!((&played["metrics"]["pass_rate"], &played["metrics"]["tool_calls"]), (&json!(0.75), &json!(0.25)));
    assert_eq!(state["state"]["1"]["fewest"], json!({"p1": 1, "p0": 0}));
}

#[test]
fn reward_state_is_restored_from_checkpoint() {
    let rollout = RolloutOptions::default();
    let mut service = service(&rollout);
    let folder = tempfile::tempdir().unwrap();
    assert!(service.resume(folder.path()).is_err(), "the checkpoint has no file of rewards");
    let state = json!({"1": {"fewest": {"p2": 3}}});
    std::fs::write(folder.path().join("trainyard_rewards.json"), state.to_string()).unwrap();
    service.resume(folder.path()).unwrap();
    assert_eq!(service.state(), state);
}

#[test]
fn trainer_faults_are_reported() {
    let play = json!({"play": {"step": 0, "round": 0, "problems": ["p0"], "members": 2}});
    let send_turns = |trainer: &mut Trainer, text: &str| {
        trainer.request(&play);
        trainer.send(text);
    };
    type Acts<'a> = Box<dyn Fn(&mut Trainer) + Send + 'a>;
    let wrong: [(Acts<'_>, &str); 7] = [
        (Box::new(|t| t.send("hello")), "hello"),
        (Box::new(|t| t.send("{\"plays\": {}}")), "plays"),
        (Box::new(|t| t.send("{\"said\": []}")), "without a `say`"),
        (Box::new(|t| t.send(&play.to_string().replace("p0", "p9"))), "unknown problem `p9`"),
        (Box::new(|t| send_turns(t, "{\"said\": [[1]]}")), "2 turns were requested, but 1 were sampled"),
        (Box::new(|t| send_turns(t, "{\"said\": [[1], [99999]]}")), "token 99999 is outside"),
        (Box::new(|t| send_turns(t, "{\"save\": {}}")), "did not respond to `say`"),
    ];
    for (acts, message) in wrong {
        let (result, ()) = served(move |mut trainer| acts(&mut trainer));
        let error = result.unwrap_err();
        assert!(error.to_string().contains(message), "{message}: {error}");
    }
}

#[test]
fn trainer_exit_is_not_service_fault() {
    let play = json!({"play": {"step": 0, "round": 0, "problems": ["p0"], "members": 2}});
    served(|_| ()).0.unwrap();
    served(|mut trainer| trainer.lines.get_mut().write_all(b"{\"pl").unwrap()).0.unwrap();
    served(|mut trainer| drop(trainer.request(&play))).0.unwrap();
}

/// Runs a shell as the trainer until it ends or the service fails.
fn shell(script: &str) -> Result<String> {
    let rollout = RolloutOptions::default();
    let mut service = service(&rollout);
    let start = |input| {
        let command = ["sh", "-c", script].map(str::to_string);
        OneShotFolder::create(&command, &[])?.start_with(input, &[], &[], null_log())
    };
    serve_trainer(&mut service, start, |mut trainer, watch| {
        for _ in 0..3000 {
            let exit = trainer.poll_exit();
            watch()?;
            if let Some(exit) = exit {
                return Ok(exit.stdout);
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        Err(Error::bug("the trainer does not end"))
    })
}

#[test]
fn program_uses_rollouts_over_standard_input() {
    let output = shell("echo '{\"open\": {}}' >&0; read line; echo \"$line\"").unwrap();
    assert!(output.contains("tool_efficiency"), "{output}");
    // A fault ends the stage, though the program would continue.
    let error = shell("echo 'no message' >&0; sleep 60").unwrap_err();
    assert!(error.kind == ErrorKind::Data && error.message.contains("no message"), "{error}");
    // The stage does not wait for a descendant that holds the program's end open.
    assert_eq!(shell("(sleep 60 &) ; echo gone").unwrap(), "gone");
}
