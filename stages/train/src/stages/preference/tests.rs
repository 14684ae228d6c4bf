use super::*;
use crate::testing::{
    assert_declared, context_in, demonstrations, digest_of, half_trained, input_model, input_trajectories, outputs,
    run_stage, tiny_model,
};
use serde_json::json;
use std::path::Path;
use trainyard_core::{Digest, ErrorKind};
use trainyard_tables::Trajectory;

/// Returns demonstrations, each followed by a copy whose final answer is one digit longer.
fn preferences(count: usize) -> Vec<Trajectory> {
    let pair = |(group, chosen): (usize, Trajectory)| {
        let mut rejected = Trajectory { id: format!("{}-wrong", chosen.id), sample: 1, ..chosen.clone() };
        rejected.messages.last_mut().unwrap().content += "0";
        let row = |row: Trajectory, reward: f64| Trajectory { group: group as u32, reward, ..row };
        [row(chosen, 1.0), row(rejected, 0.0)]
    };
    demonstrations(count, 3, 2).into_iter().enumerate().flat_map(pair).collect()
}

fn context(folder: &Path, cpus: usize, cancel_after: Option<usize>) -> StageContext {
    let mut context = context_in(folder, cpus, cancel_after);
    input_model(&mut context, folder, "model", half_trained());
    input_trajectories(&mut context, folder, "preferences", &preferences(48));
    outputs(&mut context, folder, &["model", "report"]);
    context
}

fn options() -> Value {
    json!({
        "loss": {"kind": "dpo", "beta": 0.5}, "steps": 12, "batch_pairs": 8, "micro_batch_tokens": 400,
        "validation_share": 0.2, "validate_every": 4, "checkpoint_every": 5, "optimizer": {"learning_rate": 1e-3},
    })
}

fn with(key: &str, value: Value) -> Value {
    let mut options = options();
    options[key] = value;
    options
}

fn run(options: Value) -> Result<StageContext> {
    let folder = tempfile::tempdir().unwrap().keep();
    let mut context = context(&folder, 2, None);
    run_stage::<Preference>(options, &mut context).map(|()| context)
}

fn digests(context: &StageContext) -> Vec<Digest> {
    ["model", "report"].iter().map(|port| digest_of(context.output(port).unwrap())).collect()
}

#[test]
fn training_raises_chosen_above_rejected_answers() {
    let context = run(options()).unwrap();
    let m = &context.metrics;
    assert!((m["validation_loss_initial"] - 2f64.ln()).abs() < 1e-12, "at the reference every pair has this loss");
    assert!(m["validation_loss"] < 0.5 && m["validation_accuracy"] == 1.0 && m["validation_margin"] > 0.3, "{m:?}");
    assert!((m["margin"] - (m["chosen_reward"] - m["rejected_reward"])).abs() < 1e-9);
    assert!(m["steps"] == 12.0 && m["pairs"] + m["pairs_held_out"] == 48.0);
    assert_eq!(m["shared_turns"], m["pairs"] + m["pairs_held_out"], "the tool call is the same on both sides");
    assert_declared::<Preference>(&options(), &context);
    assert!(context.metadata["model"].contains_key("tokenizer_digest"));
}

#[test]
fn every_loss_learns_the_order() {
    for loss in ["dpo", "hinge", "ipo", "orpo", "robust", "simpo"] {
        let mut options = with("loss", json!(loss));
        (options["steps"], options["sft_weight"]) = (json!(24), json!(0.1));
        let context = run(options.clone()).unwrap();
        let m = &context.metrics;
        assert!(m["validation_loss"] < m["validation_loss_initial"], "{loss}: {m:?}");
        assert!(m["accuracy"] > 0.9 && m["margin"] > 0.0 && m["sft_loss"] > 0.0, "{loss}: {m:?}");
        assert_declared::<Preference>(&options, &context);
    }
}

#[test]
fn a_killed_run_ends_in_the_same_bytes_with_the_same_reference() {
    for (loss, adapter) in [("dpo", Value::Null), ("dpo", json!({"rank": 4, "dropout": 0.1})), ("simpo", Value::Null)] {
        let mut options = with("loss", json!(loss));
        options["adapter"] = adapter;
        options["keep"] = json!("best");
        let whole = tempfile::tempdir().unwrap();
        let mut uninterrupted = context(whole.path(), 1, None);
        run_stage::<Preference>(options.clone(), &mut uninterrupted).unwrap();
        for saves in [1, 2] {
            let killed = tempfile::tempdir().unwrap();
            let mut first = context(killed.path(), 2, Some(saves));
            assert_eq!(run_stage::<Preference>(options.clone(), &mut first).unwrap_err().kind, ErrorKind::Cancelled);
            let mut second = context(killed.path(), 2, None);
            run_stage::<Preference>(options.clone(), &mut second).unwrap();
            assert_eq!(digests(&uninterrupted), digests(&second), "{loss} after {saves}");
            assert_eq!(uninterrupted.metrics, second.metrics);
        }
    }
}

#[test]
fn an_adapter_starts_at_the_reference_and_leaves_the_base_alone() {
    let context = run(with("adapter", json!({"rank": 4}))).unwrap();
    let m = &context.metrics;
    assert!((m["validation_loss_initial"] - 2f64.ln()).abs() < 1e-12, "{m:?}");
    let published = ModelFolder::load(context.output("model").unwrap()).unwrap();
    assert_eq!(published.adapter.as_ref().unwrap().rank, 4);
    let base = |name: &str| Digest::of(&std::fs::read(context.output("model").unwrap().join(name)).unwrap());
    let given = context.input("model").unwrap().folder.join("model.safetensors");
    assert_eq!(base("base/model.safetensors"), Digest::of(&std::fs::read(given).unwrap()));
}

#[test]
fn a_wired_reference_is_read_and_the_model_itself_changes_nothing() {
    let wired = |model: &ModelFolder, options: Value| {
        let folder = tempfile::tempdir().unwrap().keep();
        let mut context = context(&folder, 1, None);
        input_model(&mut context, &folder, "reference", model);
        run_stage::<Preference>(options, &mut context).map(|()| context)
    };
    let plain = run(options()).unwrap();
    assert_eq!(digests(&plain), digests(&wired(half_trained(), options()).unwrap()));
    let other = wired(&tiny_model(32, 2, 7), options()).unwrap();
    assert_ne!(digests(&plain)[0], digests(&other)[0]);
    assert!((other.metrics["validation_loss_initial"] - 2f64.ln()).abs() > 1e-3);
    let unread = wired(half_trained(), with("loss", json!("simpo"))).err().unwrap();
    assert!(unread.message.contains("`simpo` reads no reference"), "{unread}");
}

#[test]
fn micro_batches_change_only_rounding() {
    let (whole, parts) =
        (run(with("micro_batch_tokens", json!(99_999))).unwrap(), run(with("micro_batch_tokens", json!(1))).unwrap());
    for name in ["loss", "margin", "validation_loss", "grad_norm", "chosen_logprob"] {
        let (a, b) = (whole.metrics[name], parts.metrics[name]);
        assert!((a - b).abs() < 1e-3 * (1.0 + a.abs()), "{name}: {a} {b}");
    }
}

#[test]
fn the_best_weights_are_kept_on_request() {
    // Training on these pairs raises the loss on the same pairs with the answers swapped.
    let turned = |keep: &str| {
        let folder = tempfile::tempdir().unwrap().keep();
        let mut context = context(&folder, 2, None);
        let mut rows = preferences(48);
        rows.iter_mut().for_each(|row| row.reward = 1.0 - row.reward);
        input_trajectories(&mut context, &folder, "validation", &rows);
        run_stage::<Preference>(with("keep", json!(keep)), &mut context).unwrap();
        context
    };
    let kept = turned("best");
    assert_eq!(kept.metrics["best_step"], 0.0, "{:?}", kept.metrics);
    assert_eq!(kept.metrics["validation_loss"], kept.metrics["validation_loss_initial"]);
    let input = ModelFolder::load(&kept.input("model").unwrap().folder).unwrap();
    let output = ModelFolder::load(kept.output("model").unwrap()).unwrap();
    let first = |model: &ModelFolder| {
        let (name, weights) = model.weights.first_key_value().unwrap();
        trainyard_lm::generate::WeightSource::values(&model.weights, name)
            .map(|v| (weights.dims().to_vec(), v))
            .unwrap()
    };
    assert_eq!(first(&input), first(&output));
    assert!(turned("last").metrics["validation_loss"] > 0.1 + kept.metrics["validation_loss"]);
}

#[test]
fn invalid_groups_are_rejected_and_incomplete_pairs_counted() {
    let of = |rows: Vec<Trajectory>, options: Value| {
        let folder = tempfile::tempdir().unwrap().keep();
        let mut context = context_in(&folder, 1, None);
        input_model(&mut context, &folder, "model", half_trained());
        input_trajectories(&mut context, &folder, "preferences", &rows);
        outputs(&mut context, &folder, &["model", "report"]);
        run_stage::<Preference>(options, &mut context).map(|()| context)
    };
    let error = of(demonstrations(4, 3, 2), options()).err().unwrap();
    assert!(error.kind == ErrorKind::Data && error.message.contains("group 0 of `preferences` has 4 rows"), "{error}");
    assert!(error.help.unwrap().contains("data/pairs"));
    let mut rows = preferences(48);
    rows.remove(5);
    assert_eq!(of(rows, options()).unwrap().metrics["pairs_incomplete"], 1.0);
    let short = of(preferences(4), with("max_tokens", json!(3))).err().unwrap();
    assert!(
        short.kind == ErrorKind::Data && short.message.contains("of 4 pairs, 4 have more than 3 tokens (the longest "),
        "{short}"
    );
}

#[test]
fn options_are_checked_together() {
    let stage = trainyard_api::erase(Preference::default());
    let at = |options: Value| stage.validate(&options).into_iter().map(|p| p.pointer).collect::<Vec<_>>();
    assert_eq!(at(json!({"loss": {"kind": "dpo", "beta": -1.0}})), ["/loss/beta"]);
    assert_eq!(at(json!({"loss": {"kind": "dpoo"}})), ["/loss/kind"]);
    assert_eq!(
        at(json!({"batch_pairs": 0, "sft_weight": -1.0, "epochs": 0})),
        ["/sft_weight", "/batch_pairs", "/epochs"]
    );
    let unheld = json!({"validation_share": 0.0, "keep": "best", "validate_every": 5});
    let prepared = stage.prepare(&unheld).unwrap();
    let found: Vec<String> = prepared.problems_with(&WiredInputs::default()).into_iter().map(|p| p.pointer).collect();
    assert_eq!(found, ["/validate_every", "/keep"]);
    let complete = stage.complete(&json!({})).unwrap();
    assert_eq!(
        complete["loss"],
        json!({"kind": "dpo", "beta": 0.1, "label_smoothing": 0.0, "reference_free": false,
        "length_normalized": false})
    );
}
