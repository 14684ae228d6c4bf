//! Provides helpers for this crate's tests: a stage context over a temporary folder, tiny models, tiny problems.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use tempfile::TempDir;
use trainyard_api::{CancelToken, CheckpointStore, InputArtifact, SilentReporter, StageContext};
use trainyard_core::{ArtifactKind, Chance, Digest, Result};
use trainyard_lm::template::{BuiltinTemplate, ChatEncoder, ChatTemplate};
use trainyard_lm::tokenizer::character_tokenizer;
use trainyard_lm::{Decoder, GenerationConfig, ModelConfig, ModelFolder};
use trainyard_tables::{Message, Problem, Trajectory, write_problems, write_trajectories};

/// Checkpoints in a folder. After `cancel_after` saves the attempt is cancelled, as if it were killed.
pub struct Checkpoints {
    folder: PathBuf,
    steps: Mutex<Vec<u64>>,
    cancel_after: Option<(usize, CancelToken)>,
}

impl CheckpointStore for Checkpoints {
    fn latest(&self) -> Result<Option<(u64, PathBuf)>> {
        Ok(self.steps.lock().unwrap().last().map(|s| (*s, self.folder.join(s.to_string()))))
    }
    fn save(&self, step: u64, folder: &Path) -> Result<()> {
        let target = self.folder.join(step.to_string());
        std::fs::create_dir_all(&target).unwrap();
        for file in std::fs::read_dir(folder).unwrap() {
            let file = file.unwrap();
            std::fs::copy(file.path(), target.join(file.file_name())).unwrap();
        }
        let mut steps = self.steps.lock().unwrap();
        steps.push(step);
        if let Some((n, token)) = &self.cancel_after
            && steps.len() == *n
        {
            token.cancel();
        }
        Ok(())
    }
}

/// Creates a context without inputs.
pub fn context() -> (StageContext, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    (context_in(folder.path(), 1, None), folder)
}

/// Creates a context whose checkpoints persist in `folder` across attempts.
pub fn context_in(folder: &Path, cpus: usize, cancel_after: Option<usize>) -> StageContext {
    let checkpoints = folder.join("checkpoints");
    std::fs::create_dir_all(&checkpoints).unwrap();
    let mut steps: Vec<u64> = std::fs::read_dir(&checkpoints)
        .unwrap()
        .map(|e| e.unwrap().file_name().to_str().unwrap().parse().unwrap())
        .collect();
    steps.sort_unstable();
    let cancel = CancelToken::default();
    let scratch = folder.join("scratch");
    std::fs::create_dir_all(&scratch).unwrap();
    let checkpoints = Checkpoints {
        folder: checkpoints,
        steps: Mutex::new(steps),
        cancel_after: cancel_after.map(|n| (n, cancel.clone())),
    };
    StageContext { cpus, cancel, ..StageContext::new(scratch, Arc::new(SilentReporter), Arc::new(checkpoints)) }
}

/// Adds empty output folders.
pub fn outputs(context: &mut StageContext, folder: &Path, ports: &[&str]) {
    for port in ports {
        let path = folder.join("out").join(port);
        if path.exists() {
            std::fs::remove_dir_all(&path).unwrap();
        }
        std::fs::create_dir_all(&path).unwrap();
        context.output_folders.insert((*port).to_string(), path);
    }
}

/// Adds an artifact to an input port; `fill` writes its files.
pub fn input(context: &mut StageContext, folder: &Path, port: &str, kind: ArtifactKind, fill: impl FnOnce(&Path)) {
    let list = context.inputs.entry(port.to_string()).or_default();
    let path = folder.join("in").join(format!("{port}-{}", list.len()));
    std::fs::create_dir_all(&path).unwrap();
    fill(&path);
    let digest = digest_of(&path);
    list.push(InputArtifact { kind, stage_digest: digest.clone(), digest, folder: path, metadata: BTreeMap::new() });
}
/// Adds a model to an input port.
pub fn input_model(context: &mut StageContext, folder: &Path, port: &str, model: &ModelFolder) {
    input(context, folder, port, ArtifactKind::Model, |path| model.save(path).unwrap());
}
/// Adds problems to an input port.
pub fn input_problems(context: &mut StageContext, folder: &Path, port: &str, rows: &[Problem]) {
    input(context, folder, port, ArtifactKind::Problems, |path| {
        write_problems(&path.join("data.parquet"), rows).unwrap();
    });
}
/// Adds trajectories to an input port.
pub fn input_trajectories(context: &mut StageContext, folder: &Path, port: &str, rows: &[Trajectory]) {
    input(context, folder, port, ArtifactKind::Trajectories, |path| {
        write_trajectories(&path.join("data.parquet"), rows).unwrap();
    });
}

/// Returns one digest over the names and bytes of all files in a folder, recursively.
pub fn digest_of(folder: &Path) -> Digest {
    let mut digests = Vec::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(next) = folders.pop() {
        for entry in std::fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let name = path.strip_prefix(folder).unwrap().to_str().unwrap().to_string();
                digests.push((name, Digest::of(&std::fs::read(path).unwrap())));
            }
        }
    }
    digests.sort();
    Digest::of_json(&digests).unwrap()
}

/// Returns a random decoder with character tokens and the compact template.
pub fn tiny_model(hidden: usize, layers: usize, seed: u64) -> ModelFolder {
    let template = BuiltinTemplate::Compact;
    let tokenizer = character_tokenizer(["0123456789"], template.special_tokens()).unwrap();
    let config = ModelConfig {
        max_position_embeddings: 256,
        ..ModelConfig::llama(tokenizer.vocabulary_size(), hidden, 2 * hidden, layers, 2, 2)
    };
    let weights = Decoder::initialize(&config, &Chance::new(seed)).unwrap().weights().unwrap();
    let chat = ChatEncoder::new(tokenizer, template.template().unwrap()).unwrap();
    let generation = GenerationConfig { eos_token_id: vec![chat.end_token()], ..GenerationConfig::default() };
    ModelFolder::new(config, weights, chat, generation).unwrap()
}

/// Returns problems `a+b?` with answer a+b, operands below `bound`; level 1.
pub fn sums(count: usize, bound: u64, seed: u64) -> Vec<Problem> {
    let chance = Chance::new(seed);
    let problem = |i: usize| {
        let mut d = chance.at("sum", &[i as u64]);
        let (a, b) = (d.below(bound), d.below(bound));
        Problem {
            id: format!("sum-{i}"),
            messages: vec![Message::new("user", format!("{a}+{b}?"))],
            answer: (a + b).to_string(),
            verifier: "{}".into(),
            environment: "word-problems".into(),
            level: 1,
            source: "test".into(),
            split: "rl".into(),
            canonical: format!("{a}+{b}"),
            reference: None,
            meta: None,
            parents: Vec::new(),
        }
    };
    (0..count).map(problem).collect()
}

/// Returns a demonstration that sends the sum to the calculator and repeats its result as the answer.
pub fn demonstration(problem: &Problem, prompt: &[Message]) -> Trajectory {
    let expression = problem.canonical.clone();
    let turn = |role: &str, content: String| Message::new(role, content);
    let messages: Vec<Message> = prompt
        .iter()
        .cloned()
        .chain([
            turn("assistant", format!("<tool_call>{expression}</tool_call>")),
            turn("tool", problem.answer.clone()),
            turn("assistant", problem.answer.clone()),
        ])
        .collect();
    Trajectory {
        id: format!("demo-{}", problem.id),
        problem_id: problem.id.clone(),
        messages,
        turns: 2,
        tool_calls: 1,
        level: 1,
        ..Trajectory::default()
    }
}

/// Returns the options of the test environment: word problems with an in-process calculator.
pub fn environment_options() -> serde_json::Value {
    serde_json::json!({ "kind": "word-problems", "tools": ["calculator"], "max_turns": 3 })
}
/// Builds the test environment with a new tool host.
pub fn environment() -> Box<dyn trainyard_envs::Environment> {
    trainyard_envs::environments::family().build(&environment_options(), &trainyard_envs::ToolHost::new(1)).unwrap()
}

/// Runs a stage as an attempt does: completes the config, prepares it again and runs it.
pub fn run_stage<S: trainyard_api::Stage + Default>(
    options: serde_json::Value,
    context: &mut StageContext,
) -> Result<()> {
    let stage = trainyard_api::erase(S::default());
    let config = stage.complete(&options)?;
    assert_eq!(stage.validate(&config), []);
    stage.run(&config, context)
}

/// Asserts that every metric in the manifest is declared, and that every non-optional metric is present.
pub fn assert_declared<S: trainyard_api::Stage + Default>(options: &serde_json::Value, context: &StageContext) {
    let stage = trainyard_api::erase(S::default());
    let config = stage.complete(options).unwrap();
    let declared = stage.prepare(&config).unwrap().declared_metrics(&context.producers());
    let any = S::default().metrics();
    for name in context.metrics.keys() {
        assert!(declared.metric(name).is_some(), "metric `{name}` is not declared for these options");
        assert!(any.open || any.metric(name).is_some(), "metric `{name}` is not declared for the kind");
    }
    for metric in declared.metrics.iter().filter(|m| !m.optional) {
        let reported = context.metrics.keys().any(|name| metric.covers(name));
        assert!(reported, "metric `{}` is declared, but not reported", metric.name);
    }
    for row in &context.comparisons {
        assert!(declared.comparison(&row.metric).is_some(), "comparison `{}` is not declared", row.metric);
    }
    for row in &declared.comparisons {
        assert!(context.comparisons.iter().any(|c| c.metric == row.name), "comparison `{}` is not reported", row.name);
    }
}

/// Returns demonstrations of sums with operands below `bound`.
pub fn demonstrations(count: usize, bound: u64, seed: u64) -> Vec<Trajectory> {
    let environment = environment();
    sums(count, bound, seed).iter().map(|p| demonstration(p, &environment.prompt(p).unwrap())).collect()
}

/// Returns a tiny model that sums some small numbers with the calculator and is trained once per test process. The
/// model earns some rewards and can still improve.
pub fn half_trained() -> &'static ModelFolder {
    static MODEL: std::sync::OnceLock<ModelFolder> = std::sync::OnceLock::new();
    MODEL.get_or_init(|| {
        let folder = tempfile::tempdir().unwrap();
        let mut context = context_in(folder.path(), 2, None);
        input_model(&mut context, folder.path(), "model", &tiny_model(32, 2, 1));
        input_trajectories(&mut context, folder.path(), "trajectories", &demonstrations(256, 3, 2));
        outputs(&mut context, folder.path(), &["model", "report"]);
        let options = serde_json::json!({
            "steps": 100, "batch_tokens": 1024, "validation_share": 0.0, "checkpoint_every": 0,
            "optimizer": {"learning_rate": 5e-3},
        });
        run_stage::<crate::stages::sft::Sft>(options, &mut context).unwrap();
        ModelFolder::load(context.output("model").unwrap()).unwrap()
    })
}

/// Returns the half-trained model with the compact template, changed so that earlier calls lose their closing tag.
pub fn rewriting() -> ModelFolder {
    templated(
        "{% for m in messages %}<|{{ m.role }}|>{% if loop.last or m.role != 'assistant' %}{{ m.content }}\
        {% else %}{{ m.content.replace('</tool_call>', '') }}{% endif %}<|end|>{% endfor %}\
        {% if add_generation_prompt %}<|assistant|>{% endif %}",
    )
}

/// Returns the half-trained model with a template that leaves out the results of tools.
pub fn without_results() -> ModelFolder {
    templated(
        "{% for m in messages if m.role != 'tool' %}<|{{ m.role }}|>{{ m.content }}<|end|>{% endfor %}\
        {% if add_generation_prompt %}<|assistant|>{% endif %}",
    )
}

/// Returns the half-trained model with another template.
pub fn templated(source: &str) -> ModelFolder {
    let model = half_trained();
    let chat = ChatEncoder::new(model.chat.tokenizer().clone(), ChatTemplate::new(source).unwrap()).unwrap();
    ModelFolder { chat: chat.with_stop_tokens(model.stop_tokens()), ..model.clone() }
}
