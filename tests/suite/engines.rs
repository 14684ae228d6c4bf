//! Third-party trainers as stages: a custom one, killed and resumed, its failures, and TRL itself if
//! `TRAINYARD_TEST_TRL` names a Python that has it.

use crate::kit::Sandbox;
use crate::python_programs::{python_sandbox, python_with};

const OWN: &str = r#"
version: 1
name: own
stages:
  data:
    uses: data/synthesize
    with:
      method: procedural
      seed: 1
      mistakes: 0.5
      environment: {kind: word-problems, format: hermes}
      splits: {demonstrations: {levels: {1: 24}}}
  base:
    uses: model/init
    with:
      {problems: ["${{ stages.data.problems }}"], corpus: ["${{ stages.data.demonstrations }}"], template: chatml,
          hidden_size: 32, layers: 2, heads: 2, intermediate_size: 64, seed: 1}
  trained:
    uses: engine/command
    with:
      model: ${{ stages.base.model }}
      trajectories: ["${{ stages.data.demonstrations }}"]
      command: [python3, trainer.py]
      options: {steps: 4}
      seed: 7
  evaluate:
    uses: evaluate
    with:
      models: ["${{ stages.trained.model }}"]
      names: [trained]
      problems: ${{ stages.data.problems }}
      problems_limit: 4
      environment: {kind: word-problems, format: hermes}
      samples: 0
      sampling: {max_turn_tokens: 4, max_episode_tokens: 200}
"#;

/// Adds the result of its "training" to the first bytes of a tensor, and exits once in the middle.
const TRAINER: &str = r#"
import json, os, pathlib, shutil, sys

job = json.load(open(os.environ["TRAINYARD_JOB"]))
rows = [json.loads(line) for line in open(job["data"]["trajectories"])]
assert rows and rows[0]["messages"] and job["seed"] == 7 and job["job_format"] == 1
tell = lambda **event: open(job["events"], "a").write(json.dumps(event) + "\n")
done = int((pathlib.Path(job["resume"]) / "deep" / "steps").read_text()) if job["resume"] else 0
print("begins after step", done)
steps = job["options"]["steps"]
for step in range(done + 1, steps + 1):
    tell(step=step, steps=steps, metrics={"loss": 4.0 / step})
    if step == 2 and not done:
        folder = pathlib.Path(job["scratch"]) / "checkpoint-2"
        (folder / "deep").mkdir(parents=True)
        (folder / "deep" / "steps").write_text("2")
        tell(step=2, checkpoint=str(folder))
        sys.exit("out of luck")
weights = bytearray((pathlib.Path(job["model"]) / "model.safetensors").read_bytes())
weights[-4:] = bytes(4)
(pathlib.Path(job["output"]) / "model.safetensors").write_bytes(weights)
"#;

/// Creates a sandbox with a workflow and its trainer; without Python it reports a skip and returns `None`.
#[track_caller]
fn own(workflow: &str) -> Option<Sandbox> {
    let s = python_sandbox()?;
    s.write("own.yaml", workflow);
    s.write("trainer.py", TRAINER);
    Some(s)
}

#[test]
fn a_trainer_of_ones_own_is_followed_resumed_and_its_weights_are_a_model() {
    let Some(s) = own(OWN) else { return };
    s.run(&["run", "own.yaml"]).code(1).says("the trainer exited with status 1").says("out of luck");
    s.run(&["run", "own.yaml"]).code(0).says("trained: done").says("loss 1  rows 24  steps 4");
    s.run(&["logs", "latest", "trained"]).code(0).prints("begins after step 2");
    let shown = s.run(&["artifacts", "show", "latest/trained/report", "--format", "json"]).code(0).json().to_string();
    assert!(shown.contains("report"), "{shown}");
    // The same file again is a hit; another option trains again.
    s.run(&["run", "own.yaml"]).code(0).says("trained: hit");
}

#[test]
fn a_trainer_that_was_lost_after_its_last_step_ends_with_its_steps_and_curves() {
    let Some(s) = own(&OWN.replace("steps: 4", "steps: 2")) else { return };
    s.run(&["run", "own.yaml"]).code(1).says("out of luck");
    s.run(&["run", "own.yaml"]).code(0).says("trained: done").says("loss 2  rows 24  steps 2");
}

#[test]
fn what_a_trainer_does_wrong_is_named() {
    let Some(s) = own(OWN) else { return };
    let good = TRAINER.replace("sys.exit(\"out of luck\")", "pass");
    for (trainer, said) in [
        (good.replace("weights[-4:] = bytes(4)", "pass"), "the trainer left the weights unchanged"),
        (good.replace("(pathlib.Path(job[\"output\"])", "(pathlib.Path(job[\"scratch\"])"), "output of the trainer"),
        (good.replace("weights[-4:] = bytes(4)", "weights = weights[:-8]"), "output of the trainer"),
        (good.replace("\"loss\": 4.0 / step", "\"loss\": None"), "loss is NaN at step 1"),
        (good.replace("tell(step=step,", "tell(stepp=step,"), "line 1 of the trainer's events is not a valid event"),
        (good.replace("tell(step=step,", "tell(step=5 - step,"), "go back from step 4 to step 3"),
        (good.replace("checkpoint=str(folder)", "checkpoint=\"nowhere\""), "checkpoint of step 2 is not a folder"),
        ("pass".to_string(), "without reporting an optimizer step"),
    ] {
        s.write("trainer.py", &trainer);
        s.run(&["run", "own.yaml", "--until", "trained"]).code(1).says(said);
    }
    s.write("trainer.py", good);
    s.write("wrong.yaml", OWN.replace("seed: 7", "columns: chatty"));
    s.run(&["check", "wrong.yaml"]).code(2).says("unknown export format `chatty`").says("openai");
    s.write("wrong.yaml", OWN.replace("[python3, trainer.py]", "[]"));
    s.run(&["check", "wrong.yaml"]).code(2).says("the command is empty");
}

const TRL: &str = r#"
  pairs_of:
    uses: rl
    with:
      model: ${{ stages.base.model }}
      problems: ${{ stages.data.problems }}
      environment: {kind: word-problems, format: hermes}
      rewards: [{kind: length, max_tokens: 40, buffer_tokens: 40}]
      filters: []
      steps: 1
      problems_per_step: 8
      rollout: {group_size: 4, max_turn_tokens: 40}
  pairs:
    uses: data/pairs
    with: {trajectories: ["${{ stages.pairs_of.trajectories }}"], min_gap: 0.05, per_problem: 2}
  tokenized:
    uses: data/tokenize
    with: {model: "${{ stages.base.model }}", trajectories: ["${{ stages.data.demonstrations }}"]}
  by_text:
    uses: engine/trl
    with:
      model: ${{ stages.base.model }}
      trajectories: ["${{ stages.data.demonstrations }}"]
      python: PYTHON
      steps: 4
      batch_rows: 4
      micro_batch_rows: 2
      save_every: 2
      config: {weight_decay: 0.01}
  by_tokens:
    uses: engine/trl
    with:
      model: ${{ stages.base.model }}
      tokenized: ["${{ stages.tokenized.tokenized }}"]
      python: PYTHON
      steps: 2
      save_every: 0
  preferred:
    uses: engine/trl
    with:
      model: ${{ stages.by_text.model }}
      preferences: ["${{ stages.pairs.preferences }}"]
      method: dpo
      python: PYTHON
      steps: 2
      batch_rows: 2
      micro_batch_rows: 2
      save_every: 0
  practiced:
    uses: engine/trl
    with:
      model: ${{ stages.by_text.model }}
      problems: ["${{ stages.data.problems }}"]
      method: grpo
      environment: {kind: word-problems, format: hermes}
      rewards: [{kind: answer}, {kind: length, max_tokens: 40, buffer_tokens: 40, weight: 0.5}]
      rollout: {group_size: 4, max_turn_tokens: 24, max_episode_tokens: 400}
      python: PYTHON
      steps: 2
      batch_rows: 8
      micro_batch_rows: 4
      learning_rate: 1e-3
      save_every: 1
"#;

/// Returns a workflow that trains by the TRL of a Python.
fn trl(python: &str) -> String {
    let own = OWN.find("  trained:").unwrap();
    let text = format!("{}{}", &OWN[..own], TRL.replace("PYTHON", python));
    text.replace("splits: {", "splits: {rl: {levels: {1: 12}}, ")
}

#[test]
fn trl_trains_on_our_rows() {
    let Some(python) = python_with("TRL", "TRAINYARD_TEST_TRL") else { return };
    let s = Sandbox::new();
    s.write("trl.yaml", trl(&python));
    let ran = s.run(&["run", "trl.yaml"]).code(0);
    for stage in ["by_text", "by_tokens", "preferred", "practiced"] {
        assert!(ran.stderr.contains(&format!("{stage}: done")), "{}", ran.stderr);
    }
    s.run(&["logs", "latest", "by_text"]).code(0).prints("trl 1.");
    let curves = s.run(&["runs", "show", "latest", "--curves", "practiced"]).code(0);
    for curve in ["pass_rate", "reward", "turns", "rewards/answer/mean", "rewards/length/mean"] {
        assert!(curves.stdout.contains(curve), "{curve}: {}", curves.stdout);
    }
    s.write("old.yaml", s.read("trl.yaml").replace("      steps: 4\n", "      steps: 4\n      version: '0.9'\n"));
    s.run(&["run", "old.yaml", "--until", "by_text"]).code(1).says("the stage asks for 0.9");
    s.write("odd.yaml", s.read("trl.yaml").replace("weight_decay", "weight_decoy"));
    s.run(&["run", "odd.yaml", "--until", "by_text"]).code(1).says("weight_decoy");
}

#[test]
fn options_of_trl_are_checked_before_the_run() {
    let s = Sandbox::new();
    let text = trl("python3");
    s.write("trl.yaml", &text);
    s.run(&["check", "trl.yaml"]).code(0);
    for (from, to, said) in [
        ("micro_batch_rows: 2", "micro_batch_rows: 3", "3 rows do not divide `batch_rows` (4)"),
        ("{weight_decay: 0.01}", "{max_steps: 3}", "`max_steps` is set by the stage"),
        ("      method: dpo\n", "", "`sft` does not read `preferences`"),
        ("      steps: 4\n", "      steps: 4\n      method: dpo\n", "`dpo` has no rows to learn from"),
        ("      steps: 4\n", "      steps: 4\n      version: newest\n", "is not a version"),
        ("group_size: 4, max_turn_tokens: 24", "group_size: 3", "groups of 3 episodes do not divide `batch_rows` (8)"),
        ("{kind: answer}, {kind: length", "{kind: answers}, {kind: length", "answers"),
        (
            "method: grpo\n      environment: {kind: word-problems, format: hermes}",
            "method: grpo\n      environment: {kind: countdown}",
            "are made for `word-problems`",
        ),
        ("      method: grpo\n", "", "`sft` runs no episodes and does not read `environment`"),
        ("      save_every: 1\n", "      save_every: 1\n      config: {use_vllm: true}\n", "`use_vllm` is set by"),
    ] {
        assert!(text.contains(from), "{from}");
        s.write("wrong.yaml", text.replacen(from, to, 1));
        s.run(&["check", "wrong.yaml"]).code(2).says(said);
    }
}
