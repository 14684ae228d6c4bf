use super::*;
use crate::testing::{
    context_in, digest_of, environment_options, half_trained, input, input_model, input_problems, input_trajectories,
    outputs, run_stage, sums, templated, without_results,
};
use serde_json::json;
use std::path::Path;
use std::sync::{Arc, Mutex};
use trainyard_api::Reporter;
use trainyard_core::ErrorKind;
use trainyard_core::attempt::AttemptMessage;
use trainyard_tables::Message;

const PORTS: [&str; 3] = ["model", "trajectories", "report"];

fn options() -> Value {
    json!({
        "environment": environment_options(),
        "sampling": {"max_turn_tokens": 12, "max_episode_tokens": 96},
        "steps": "turns",
        "rollouts": 2,
        "continuations": 3,
        "epochs": 12,
        "batch_tokens": 512,
        "optimizer": {"learning_rate": 5e-3},
    })
}

fn context(folder: &Path) -> StageContext {
    let mut context = context_in(folder, 2, None);
    input_model(&mut context, folder, "model", half_trained());
    outputs(&mut context, folder, &PORTS);
    context
}

/// Returns a labeled trajectory of one turn, without tokens.
fn row(problem: &str, label: f32) -> Trajectory {
    Trajectory {
        id: format!("{problem}/0"),
        problem_id: problem.into(),
        messages: vec![Message::new("user", problem), Message::new("assistant", "7")],
        step_labels: Some(vec![label]),
        ..Trajectory::default()
    }
}

#[test]
fn labels_come_from_continuations_and_the_head_learns_them() {
    let folder = tempfile::tempdir().unwrap();
    let mut first = context(folder.path());
    input_problems(&mut first, folder.path(), "problems", &sums(30, 3, 31));
    run_stage::<Prm>(options(), &mut first).unwrap();
    let m = first.metrics.clone();
    assert!(m["training_auc"] > 0.6, "{m:?}");
    assert!((0.0..=1.0).contains(&m["ece"]) && m["prefixes"] > 0.0 && m["held_out_steps"] > 0.0);
    let rows = read_trajectories(&first.output_parquet("trajectories").unwrap()).unwrap();
    assert_eq!(rows.len(), 60);
    for row in &rows {
        let labels = row.step_labels.as_ref().unwrap();
        assert_eq!(labels.len(), row.step_scores.as_ref().unwrap().len());
        assert_eq!(f64::from(*labels.last().unwrap()), row.reward);
        assert!(
            labels.iter().all(|l| (0.0..=1.0).contains(l) && (l * 3.0).fract().min(1.0 - (l * 3.0).fract()) < 1e-5
                || *l == row.reward as f32)
        );
    }
    let model = ModelFolder::load(first.output("model").unwrap()).unwrap();
    assert_eq!((model.config.num_labels, model.generator(1).unwrap().score_labels()), (Some(1), 1));
    assert_eq!(first.metadata["model"]["steps"], json!("turns"));

    // The labels are stored before training begins; a second attempt starts from them and ends in the same bytes.
    let digests: Vec<_> = PORTS.iter().map(|p| digest_of(first.output(p).unwrap())).collect();
    let mut second = context(folder.path());
    input_problems(&mut second, folder.path(), "problems", &sums(30, 3, 31));
    run_stage::<Prm>(options(), &mut second).unwrap();
    assert_eq!(digests, PORTS.iter().map(|p| digest_of(second.output(p).unwrap())).collect::<Vec<_>>());

    // Given labels, and only the head is trained: the stage's own output is a valid input.
    let given = tempfile::tempdir().unwrap();
    let mut third = context(given.path());
    input_trajectories(&mut third, given.path(), "trajectories", &rows);
    let mut head_only = options();
    head_only["train"] = json!("head");
    run_stage::<Prm>(head_only, &mut third).unwrap();
    let head = ModelFolder::load(third.output("model").unwrap()).unwrap();
    for (name, weight) in &half_trained().weights {
        let same = head.weights[name].flatten_all().unwrap().to_vec1::<f32>().unwrap()
            == weight.flatten_all().unwrap().to_vec1::<f32>().unwrap();
        assert!(same, "`{name}` is frozen");
    }
}

#[test]
fn a_template_without_tool_results_is_rejected_before_the_first_rollout() {
    let folder = tempfile::tempdir().unwrap();
    let mut context = context_in(folder.path(), 1, None);
    input_model(&mut context, folder.path(), "model", &without_results());
    // Without problems, no rollout would report the template.
    input_problems(&mut context, folder.path(), "problems", &[]);
    outputs(&mut context, folder.path(), &PORTS);
    let error = run_stage::<Prm>(options(), &mut context).unwrap_err();
    assert!(error.message.contains("cannot show tool results"), "{error}");
}

#[test]
fn quality_is_measured_on_the_evaluation_rows_alone() {
    let train: Vec<Trajectory> = (0..12).map(|i| row(&format!("{i}+1"), (i % 2) as f32)).collect();
    let measured = [row("20+1", 1.0), row("21+1", 0.0), row("22+1", 1.0)];
    // A row without labels is left out and counted.
    let silent = Trajectory { step_labels: None, ..row("30+1", 0.0) };
    let run = |evaluation: &[Trajectory]| {
        let folder = tempfile::tempdir().unwrap();
        let mut c = context(folder.path());
        input_trajectories(&mut c, folder.path(), "trajectories", &train);
        input_trajectories(&mut c, folder.path(), "evaluation", evaluation);
        run_stage::<Prm>(options(), &mut c).map(|()| (c.metrics.clone(), outputs_of(&c)))
    };
    let (metrics, rows) = run(&[measured.to_vec(), vec![silent]].concat()).unwrap();
    assert_eq!(metrics["rows_left_out"], 1.0);
    assert_eq!((metrics["held_out_steps"], metrics["steps_labeled"]), (3.0, 15.0));
    assert_eq!(metrics["label_mean"], 0.5, "the training rows alone");
    assert_eq!(rows.len(), 12, "nothing of `evaluation` is handed on");
    assert_eq!(metrics["rows_too_long"], 0.0);
    let endless = Trajectory {
        id: "endless".into(),
        messages: vec![Message::new("user", "1+".repeat(2_000)), Message::new("assistant", "7")],
        ..row("31+1", 0.0)
    };
    let (metrics, _) = run(&[measured.to_vec(), vec![endless]].concat()).unwrap();
    assert_eq!((metrics["rows_too_long"], metrics["rows_left_out"], metrics["held_out_steps"]), (1.0, 1.0, 3.0));
    let e = run(&[measured[0].clone(), train[3].clone()]).unwrap_err();
    assert!(e.kind == ErrorKind::Data && e.message.contains("3+1"), "{}", e.message);
}

fn outputs_of(context: &StageContext) -> Vec<Trajectory> {
    read_trajectories(&context.output_parquet("trajectories").unwrap()).unwrap()
}

/// Returns rollouts whose outcome depends only on their text: problem by problem, one correct and one incorrect.
fn contrasts(problems: usize) -> Vec<Trajectory> {
    let model = half_trained();
    let one = |problem: usize, right: bool| {
        let question = format!("{}+{}", problem % 7 + 1, problem % 5 + 1);
        let answer = problem % 7 + problem % 5 + 2 + usize::from(!right);
        let messages = vec![
            Message::new("user", &question),
            Message::new("assistant", if right { format!("={answer}") } else { format!("{answer}") }),
        ];
        let encoded = TokenizedConversation::encode(&model.chat, &messages, None).unwrap();
        Trajectory {
            id: format!("{problem}/{right}"),
            problem_id: format!("contrast-{problem}"),
            prompt_tokens: encoded.prompt_tokens as u32,
            token_ids: encoded.token_ids,
            loss_mask: encoded.loss_mask,
            turn: encoded.turn,
            messages,
            rewards: [("answer".to_string(), f64::from(u8::from(right)))].into(),
            tokenizer_digest: model.chat.tokenizer().digest().to_string(),
            template_digest: model.chat.template().digest().to_string(),
            ..Trajectory::default()
        }
    };
    (0..problems).flat_map(|p| [one(p, true), one(p, false)]).collect()
}

/// Recorder of every reported loss on labels, in curves and in progress.
#[derive(Default)]
struct Losses(Mutex<Vec<f64>>);

impl Reporter for Losses {
    fn report(&self, message: AttemptMessage) {
        match message {
            AttemptMessage::Metric { name, value, .. }
            | AttemptMessage::Progress { metric: Some((name, value)), .. }
                if name == "loss" =>
            {
                self.0.lock().unwrap().push(value);
            }
            _ => {}
        }
    }
}

#[test]
fn contrasted_rollouts_teach_what_labels_lack() {
    let folder = tempfile::tempdir().unwrap();
    // Labels that are independent of the answer.
    let labels: Vec<Trajectory> = (0..12)
        .map(|i| Trajectory {
            problem_id: format!("label-{i}"),
            messages: vec![Message::new("user", "1+1"), Message::new("assistant", "2")],
            step_labels: Some(vec![0.5]),
            ..Trajectory::default()
        })
        .collect();
    let run = |weight: f64| {
        let mut c = context(folder.path());
        input_trajectories(&mut c, folder.path(), "trajectories", &labels);
        input_trajectories(&mut c, folder.path(), "contrast", &contrasts(40));
        let mut options = options();
        options["ranking_weight"] = json!(weight);
        let reported = Arc::new(Losses::default());
        c.reporter = reported.clone();
        run_stage::<Prm>(options, &mut c).unwrap();
        // No loss on labels of ½ is less than ln 2. A batch of only contrasted rollouts reports no loss on labels
        // instead of 0.
        let reported = reported.0.lock().unwrap();
        let least = reported.iter().copied().fold(c.metrics["loss"], f64::min);
        assert!(!reported.is_empty() && least > std::f64::consts::LN_2 - 1e-6, "{reported:?}");
        c.metrics.clone()
    };
    let (with, without) = (run(1.0), run(0.0));
    assert_eq!((with["ranking_pairs"], with["training_ranking_pairs"]), (8.0, 32.0), "held out by problem");
    assert!(with["ranking"] == 1.0 && with["ranking_alike"] == 1.0, "{with:?}");
    assert!(without["ranking"] < 1.0, "{without:?}");
}

#[test]
fn exactly_one_source_of_labels() {
    let folder = tempfile::tempdir().unwrap();
    let mut none = context(folder.path());
    assert!(run_stage::<Prm>(options(), &mut none).unwrap_err().message.contains("none is given"));
    let mut both = context(folder.path());
    input_problems(&mut both, folder.path(), "problems", &sums(2, 3, 1));
    input(&mut both, folder.path(), "trajectories", ArtifactKind::Trajectories, |_| {});
    let e = run_stage::<Prm>(options(), &mut both).unwrap_err();
    assert!(e.kind == ErrorKind::Invalid && e.message.contains("both are given"));
}

#[test]
fn a_killed_training_ends_in_the_same_bytes_whether_labels_are_sampled_or_given() {
    let labeled = tempfile::tempdir().unwrap();
    let mut options = options();
    options["checkpoint_every"] = json!(3);
    let run = |folder: &Path, cancel_after: Option<usize>, given: Option<&[Trajectory]>| {
        let mut context = context_in(folder, 2, cancel_after);
        input_model(&mut context, folder, "model", half_trained());
        match given {
            Some(rows) => input_trajectories(&mut context, folder, "trajectories", rows),
            None => input_problems(&mut context, folder, "problems", &sums(30, 3, 31)),
        }
        outputs(&mut context, folder, &PORTS);
        run_stage::<Prm>(options.clone(), &mut context).map(|()| context)
    };
    let digests = |context: &StageContext| PORTS.map(|p| digest_of(context.output(p).unwrap()));
    let sampled = run(labeled.path(), None, None).unwrap();
    let rows = read_trajectories(&sampled.output_parquet("trajectories").unwrap()).unwrap();
    for given in [None, Some(rows.as_slice())] {
        let (whole, killed) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let straight = run(whole.path(), None, given).unwrap();
        assert_eq!(run(killed.path(), Some(2), given).err().unwrap().kind, ErrorKind::Cancelled);
        let resumed = run(killed.path(), None, given).unwrap();
        assert_eq!(digests(&straight), digests(&resumed));
        assert_eq!(straight.metrics, resumed.metrics);
    }
}

#[test]
fn a_resumed_attempt_encodes_rows_without_tokens_with_the_tools_of_the_environment() {
    // The names alone, which are short.
    let template = "{% for t in tools or [] %}{{ t.function.name }}{% endfor %}{% for m in messages %}<|{{ m.role }}|>\
        {{ m.content }}{% for c in m.tool_calls or [] %}<tool_call>{{ c.function | tojson }}</tool_call>{% endfor %}\
        <|end|>{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}";
    let measured = [row("20+1", 1.0), row("21+1", 0.0), row("22+1", 1.0)];
    let mut options = options();
    options["checkpoint_every"] = json!(3);
    let run = |folder: &Path, cancel_after: Option<usize>| {
        let mut context = context_in(folder, 2, cancel_after);
        input_model(&mut context, folder, "model", &templated(template));
        input_problems(&mut context, folder, "problems", &sums(10, 3, 31));
        input_trajectories(&mut context, folder, "evaluation", &measured);
        outputs(&mut context, folder, &PORTS);
        run_stage::<Prm>(options.clone(), &mut context).map(|()| context)
    };
    let (whole, killed) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let straight = run(whole.path(), None).unwrap();
    assert_eq!(run(killed.path(), Some(2)).err().unwrap().kind, ErrorKind::Cancelled);
    let resumed = run(killed.path(), None).unwrap();
    assert_eq!(straight.metrics, resumed.metrics);
    assert_eq!(digest_of(straight.output("report").unwrap()), digest_of(resumed.output("report").unwrap()));
}
