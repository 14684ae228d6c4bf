//! Maps names used by other tools to the names used here.
//!
//! Users of GitHub Actions, Airflow, Argo or dstack write `depends_on` and `command`, and users of TRL or verl write
//! `num_generations` and `beta`. The nearest name by spelling does not help them, so these tables are searched first.

use crate::diagnostic::{nearest, suggest};

/// Position of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyContext {
    /// At the top of a workflow file.
    File,
    /// In a stage.
    Stage,
    /// Under `retry`.
    Retry,
    /// Under `resources`.
    Resources,
    /// Anywhere else; spelling alone decides.
    Other,
}

/// Words and their help.
type KeyAliases = &'static [(&'static [&'static str], &'static str)];

const FILE: KeyAliases = &[
    (
        &["jobs", "steps", "tasks", "templates", "nodes", "pipeline", "dag"],
        "write `stages:`, a map from names to stages",
    ),
    (&["on", "trigger", "triggers", "cron", "schedule_interval"], "write `schedule: {cron: \"0 2 * * *\"}`"),
    (&["inputs", "arguments", "parameters", "vars", "variables"], "write `params:`, as in `params: {steps: 100}`"),
    (&["default_args", "global"], "write `defaults:`"),
    (
        &["env", "environment", "resources", "retry", "secrets", "timeout"],
        "settings of all stages belong under `defaults`",
    ),
    (&["id", "dag_id", "title"], "write `name:`"),
    (&["apiversion"], "write `version: 1`"),
];

const STAGE: KeyAliases = &[
    (
        &["after", "depends", "depends_on", "dependson", "dependencies", "requires", "upstream"],
        "write `needs: [stage]`; a stage that reads another's output needs no `needs`",
    ),
    (
        &["args", "bash", "bash_command", "cmd", "command", "commands", "entrypoint", "script", "shell"],
        "write `run: [program, argument]` or `run: shell script`",
    ),
    (&["python"], "write `run: [python, script.py]` and `files: [script.py]`"),
    (&["max_retries", "retries", "retry_policy", "retrystrategy"], "write `retry: {attempts: 3}`"),
    (&["retry_delay", "backoff"], "write `retry: {backoff: 10s..5m}`"),
    (&["condition", "if", "trigger_rule"], "write `when: ${{ … }}`"),
    (&["strategy", "parallel"], "write `matrix: {name: [values]}`"),
    (&["expand", "foreach", "items", "loop", "with_items", "withitems", "withparam"], "write `for_each: [values]`"),
    (
        &["environment", "env_vars", "envs", "variables"],
        "write `env:`; the environment of an `rl` stage belongs under `with`",
    ),
    (
        &["activedeadlineseconds", "execution_timeout", "max_duration", "timeout_minutes", "timeout_seconds"],
        "write `timeout: 30m`",
    ),
    (&["accelerators", "cpu", "cpus", "gpu", "gpus", "memory"], "write `resources: {cpus: 4, gpus: 1, memory: 16GiB}`"),
    (
        &["pool", "queue", "runs_on", "nodeselector"],
        "write `resources: {tags: [name]}` with a tag of the pool in trainyard.yaml",
    ),
    (&["container", "docker", "image"], "stages run on the machine itself; there are no container images"),
    (&["arguments", "config", "inputs", "options", "parameters", "params"], "write `with:`"),
    (
        &["action", "kind", "operator", "stage", "task", "template", "type"],
        "write `uses: kind`; `trainyard stages` lists the kinds",
    ),
    (&["artifacts", "produces"], "write `outputs: {name: {kind: files}}`; only stages with `run` declare outputs"),
    (&["cache_key", "salt"], "write `cache: {salt: text}`"),
    (&["assert", "asserts", "metrics", "thresholds"], "write `checks: [{metric: name, min: 0.5}]`"),
    (&["services", "sidecar", "sidecars", "together", "with_stage"], "write `beside: stage` in the stage that serves"),
    (&["name", "title"], "the key above is the stage's name; write `description` for a text"),
];

const RETRY: KeyAliases = &[
    (&["count", "limit", "max_attempts", "retries", "times"], "write `attempts: 3`, the first one included"),
    (&["delay", "interval", "retry_delay", "wait"], "write `backoff: 10s..5m`"),
];

const RESOURCES: KeyAliases = &[
    (&["cpu", "cores"], "write `cpus: 4`"),
    (&["gpu", "accelerators"], "write `gpus: 1`"),
    (&["gpu_mem", "vram"], "write `gpu_memory: 40GiB`"),
    (&["mem", "ram"], "write `memory: 16GiB`"),
    (&["labels", "pool", "queue"], "write `tags: [name]`"),
    (&["num_nodes", "hosts", "nnodes", "replicas"], "write `nodes: 4`, for commands (`run`)"),
    (&["patience", "timeout", "wait_timeout"], "write `wait: 30m`"),
];

/// Words of other tools, the path of our option, and a value where one is required.
type OptionAliases = &'static [(&'static [&'static str], &'static str, &'static str)];

/// Options of TRL's preference trainers. They apply to `preference` alone, recognized by its option `batch_pairs`.
pub const PREFERENCE: OptionAliases = &[
    (&["beta", "loss_type"], "loss", "{kind: dpo, beta: 0.1}"),
    (&["label_smoothing"], "loss", "{kind: dpo, label_smoothing: 0.1}"),
    (&["reference_free"], "loss", "{kind: dpo, reference_free: true}"),
    (&["simpo_gamma"], "loss", "{kind: simpo, margin: 1.0}"),
    (&["cpo_alpha", "rpo_alpha"], "sft_weight", ""),
    (&["ref_model", "ref_model_name_or_path", "model_ref"], "reference", ""),
    (&["per_device_train_batch_size", "train_batch_size", "batch_size", "batch_tokens"], "batch_pairs", ""),
    (&["max_completion_length", "max_prompt_length"], "max_tokens", ""),
    (&["num_train_epochs", "num_epochs"], "epochs", ""),
    (&["data", "dataset", "dataset_name", "pairs", "train_dataset", "trajectories"], "preferences", ""),
];
const PREFERENCE_MARK: &str = "batch_pairs";

/// Options of TRL, verl and OpenRLHF.
pub const OPTIONS: OptionAliases = &[
    (
        &["num_generations", "num_samples", "n_samples_per_prompt", "rollouts_per_prompt", "samples_per_prompt"],
        "rollout.group_size",
        "",
    ),
    (&["max_completion_length", "max_response_length", "response_length"], "rollout.max_episode_tokens", ""),
    (&["max_new_tokens", "max_tokens_per_turn"], "rollout.max_turn_tokens", ""),
    (&["max_new_tokens", "max_tokens_per_turn"], "sampling.max_turn_tokens", ""),
    (&["max_completion_length", "max_response_length", "response_length"], "sampling.max_episode_tokens", ""),
    (&["temperature"], "rollout.temperature", ""),
    (&["temperature"], "sampling.temperature", ""),
    (&["top_p"], "rollout.top_p", ""),
    (&["top_p"], "sampling.top_p", ""),
    (&["top_k"], "rollout.top_k", ""),
    (&["top_k"], "sampling.top_k", ""),
    (&["max_seq_len", "max_seq_length", "max_length", "cutoff_len"], "max_tokens", ""),
    (&["lr", "learning_rate"], "optimizer.learning_rate", ""),
    (&["weight_decay"], "optimizer.weight_decay", ""),
    (&["clip_grad", "grad_clip", "gradient_clipping", "max_grad_norm"], "optimizer.clip_norm", ""),
    (&["lr_warmup_steps_ratio", "warmup_ratio", "warmup_steps"], "optimizer.warmup_share", ""),
    (&["lr_scheduler", "lr_scheduler_type", "scheduler", "warmup_style"], "optimizer.decay", ""),
    (&["min_lr_ratio"], "optimizer.final_share", ""),
    (&["max_steps", "num_steps", "total_steps", "total_training_steps"], "steps", ""),
    (&["num_train_epochs", "num_epochs", "total_epochs"], "steps", ""),
    (&["num_iterations", "ppo_epochs"], "epochs", ""),
    (&["per_device_train_batch_size", "train_batch_size", "batch_size", "rollout_batch_size"], "problems_per_step", ""),
    (&["per_device_train_batch_size", "train_batch_size", "batch_size"], "batch_tokens", ""),
    (&["mini_batch_size", "num_mini_batches", "ppo_mini_batch_size"], "minibatches", ""),
    (
        &["gradient_accumulation_steps", "micro_batch_size", "ppo_micro_batch_size", "ppo_micro_batch_size_per_gpu"],
        "micro_batch_tokens",
        "",
    ),
    (
        &["beta", "init_kl_coef", "kl_coef", "kl_coeff", "kl_loss_coef", "kl_penalty", "use_kl_loss"],
        "loss.terms",
        "[{kind: clip}, {kind: kl, weight: 0.01}]",
    ),
    (
        &[
            "clip_eps",
            "clip_range",
            "clip_ratio",
            "clip_ratio_high",
            "clip_ratio_low",
            "cliprange",
            "epsilon",
            "epsilon_high",
        ],
        "loss.terms",
        "[{kind: clip, clip_low: 0.2, clip_high: 0.28}]",
    ),
    (&["entropy_coef", "entropy_coeff"], "loss.terms", "[{kind: clip}, {kind: entropy, weight: 0.01}]"),
    (&["loss_agg_mode", "loss_type"], "loss.aggregate", ""),
    (&["adv_estimator", "advantage_estimator"], "algorithm", ""),
    (&["scale_rewards", "norm_adv_by_std_in_grpo"], "advantage.scale", ""),
    (
        &["reward", "reward_fn", "reward_func", "reward_funcs", "reward_function", "reward_functions", "reward_model"],
        "rewards",
        "[{kind: answer}]",
    ),
    (&["dynamic_sampling", "filter_groups"], "filters", "[{kind: zero_variance}]"),
    (&["max_assistant_turns", "max_turns"], "environment.max_turns", ""),
    (&["tools"], "environment.tools", "[python]"),
    (&["data", "dataset", "dataset_name", "prompts", "train_dataset", "train_files"], "problems", ""),
    (&["data", "dataset", "dataset_name", "train_dataset", "train_files"], "trajectories", ""),
    (&["eval_dataset", "val_files", "validation_dataset"], "validation", ""),
    (&["base_model", "model_name", "model_name_or_path", "model_path", "pretrain"], "model", ""),
    (&["eval_every", "eval_steps", "test_freq"], "validate_every", ""),
    (&["save_every", "save_freq", "save_steps"], "checkpoint_every", ""),
    (&["early_stopping_patience"], "patience", ""),
    (&["random_seed", "data_seed"], "seed", ""),
];

/// Preference losses that users look for among the stage kinds.
const PREFERENCE_LOSSES: [&str; 4] = ["dpo", "ipo", "orpo", "simpo"];
/// Algorithms that users look for among the stage kinds.
const ALGORITHMS: [&str; 9] = ["dapo", "dr_grpo", "grpo", "gspo", "nft", "ppo", "reinforce", "rloo", "cispo"];
/// Words for running a command.
const COMMANDS: [&str; 7] = ["bash", "command", "exec", "python", "run", "script", "shell"];

/// Returns a word in lower case with `_`, the form in all tables.
fn plain(word: &str) -> String {
    word.to_lowercase().replace('-', "_")
}

/// Returns help for a key that is unknown at its position.
pub fn key(place: KeyContext, word: &str, valid: &[&str]) -> Option<String> {
    let table = match place {
        KeyContext::File => FILE,
        KeyContext::Stage => STAGE,
        KeyContext::Retry => RETRY,
        KeyContext::Resources => RESOURCES,
        KeyContext::Other => &[],
    };
    let word_here = plain(word);
    let found = table.iter().find(|(words, _)| words.contains(&word_here.as_str()));
    found.map(|(_, help)| (*help).to_string()).or_else(|| suggest(word, valid.iter().copied()))
}

/// Returns help for an unknown option, where `valid` are the options at its position.
pub fn option(word: &str, valid: &[&str]) -> Option<String> {
    if !word.is_empty() && word.bytes().all(|b| b.is_ascii_digit()) {
        return Some("decimals take a point, as in `0.01`".into());
    }
    let last = plain(word.rsplit('.').next().unwrap_or(word));
    let first = if valid.contains(&PREFERENCE_MARK) { PREFERENCE } else { &[] };
    let rows = first.iter().chain(OPTIONS).filter(|(words, ..)| words.contains(&last.as_str()));
    rows.filter_map(|(_, path, value)| translate(path, value, valid))
        .next()
        .or_else(|| suggest(word, valid.iter().copied()))
}

/// Returns the part of a path that starts at a valid name, as it is written.
fn translate(path: &str, value: &str, valid: &[&str]) -> Option<String> {
    let parts: Vec<&str> = path.split('.').collect();
    let start = parts.iter().rposition(|part| valid.contains(part))?;
    let rest = &parts[start..];
    if rest.len() == 1 && value.is_empty() {
        return Some(format!("did you mean `{}`?", rest[0]));
    }
    let inner = if value.is_empty() { "…" } else { value };
    let written = rest.iter().rev().fold(inner.to_string(), |inside, part| match inside.as_str() {
        text if text == inner => format!("{part}: {text}"),
        text => format!("{part}: {{{text}}}"),
    });
    Some(format!("write `{written}`"))
}

/// Returns the stage kind that an unknown name most likely means, if one is clear.
pub fn meant_kind<'a>(word: &str, valid: &[&'a str]) -> Option<&'a str> {
    let name = plain(word.rsplit('/').next().unwrap_or(word));
    let trains = |names: &[&str], kind: &'static str| names.contains(&name.as_str()).then_some(kind);
    match trains(&ALGORITHMS, "rl").or_else(|| trains(&PREFERENCE_LOSSES, "preference")) {
        Some(kind) => valid.iter().copied().find(|valid| *valid == kind),
        None if COMMANDS.contains(&name.as_str()) => None,
        None => nearest(word, valid.iter().copied()),
    }
}

/// Returns help for an unknown stage kind.
pub fn kind(word: &str, valid: &[&str]) -> Option<String> {
    let name = plain(word.rsplit('/').next().unwrap_or(word));
    if ALGORITHMS.contains(&name.as_str()) {
        return Some(format!("write `uses: rl` with `algorithm: {name}`"));
    }
    if PREFERENCE_LOSSES.contains(&name.as_str()) {
        return Some(format!("write `uses: preference` with `loss: {name}`"));
    }
    if COMMANDS.contains(&name.as_str()) {
        return Some("a command is a stage with `run: [program, argument]` and without `uses`".into());
    }
    suggest(word, valid.iter().copied())
}

#[cfg(test)]
mod tests;
