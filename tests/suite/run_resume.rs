//! Resume points of `run:` stages: a command that is lost continues from its last checkpoint.

use crate::kit::{Sandbox, wait_for};
use crate::processes::{kill, matching};

/// Trains four steps, with a checkpoint after each, from the last one on. The script `after_step` follows each step.
const TRAIN: &str = r#"
step=0
if [ -n "${TRAINYARD_RESUME-}" ]; then
  step=$(cat "$TRAINYARD_RESUME/deep/step")
  echo "resumes after $step: $(cd "$TRAINYARD_RESUME"; find . -type f | sort | xargs)" >> @log
  echo 99 > "$TRAINYARD_RESUME/deep/step"
else
  echo begins >> @log
fi
while [ "$step" -lt 4 ]; do
  step=$((step + 1))
  echo "step $step" >> @log
  mkdir -p "c/$step/deep"
  echo "$step" > "c/$step/deep/step"
  echo w > "c/$step/weights"
  echo "{\"checkpoint\": \"$PWD/c/$step\", \"step\": $step}" >> "$TRAINYARD_METRICS"
  . @after_step
done
echo '{"name": "steps", "value": 4}' >> "$TRAINYARD_METRICS"
echo "$step" > "$out/steps"
"#;

/// Kills the attempt once its checkpoint is stored, except after the last step.
const KILL: &str = r#"
if [ "$step" -lt 4 ]; then
  while ! ls @.trainyard/checkpoints/*/*/*$step-*.json > /dev/null 2>&1; do sleep 0.1; done
  sleep 0.5
  kill -9 $PPID
  exec sleep 60
fi
"#;

/// Creates a sandbox with a workflow of the stage `train`.
fn training(after_step: &str) -> Sandbox {
    let s = Sandbox::new();
    s.write_placed("train.sh", TRAIN);
    s.write_placed("after_step", after_step);
    s.write_placed(
        "w.yaml",
        "version: 1\nname: w\nstages:\n  train:\n    run: out=${{ outputs.o }}; . @train.sh\n    \
         outputs: {o: files}\n    retry: {attempts: 2, backoff: 1s..1s}\n",
    );
    s
}

fn resumes(step: u32) -> String {
    format!("resumes after {step}: ./deep/step ./weights")
}

/// Each attempt gets one step further, so that three attempts are lost although two may be.
#[test]
fn a_killed_attempt_continues_from_its_checkpoint_and_counts_anew() {
    let s = training(KILL);
    s.run(&["run", "w.yaml"]).code(0);
    let expected = [
        vec!["begins".to_string(), "step 1".into()],
        vec![resumes(1), "step 2".into()],
        vec![resumes(2), "step 3".into()],
        vec![resumes(3), "step 4".into()],
    ];
    assert_eq!(s.log(), expected.concat());
    s.run(&["logs", "latest", "train"]).code(0).prints("resuming after step 3");
    assert_eq!(s.metrics("train")["steps"], 4.0);
}

#[test]
fn a_command_whose_engine_was_killed_continues_from_its_checkpoint() {
    let s = training("if [ \"$step\" = 2 ]; then while [ ! -e @go ]; do sleep 0.05; done; fi");
    let mut engine = s.spawn(&["run", "w.yaml"]);
    let stored = || s.files(".trainyard/checkpoints").iter().any(|file| file.ends_with("2-1.json"));
    wait_for("the checkpoint", 60, stored);
    kill(&mut engine);
    let script = s.path("train.sh").display().to_string();
    wait_for("the end of the command", 20, || matching(&script).is_empty());
    s.write("go", "");
    s.run(&["run", "w.yaml"]).code(0).says("resum");
    assert_eq!(s.log(), ["begins", "step 1", "step 2", &resumes(2), "step 3", "step 4"]);
}

#[test]
fn a_first_attempt_has_no_resume_point() {
    let s = Sandbox::new();
    s.write_placed(
        "w.yaml",
        "version: 1\nname: w\nstages:\n  one:\n    run: 'echo \"[${TRAINYARD_RESUME-unset}]\" >> @log'\n",
    );
    let ended = s.command(&["run", "w.yaml"]).env("TRAINYARD_RESUME", "/of/another/command").status().unwrap();
    assert!(ended.success());
    assert_eq!(s.log(), ["[unset]"]);
}

/// The command would wait for longer than the test may take.
#[test]
fn a_line_that_cannot_be_used_ends_the_command() {
    for (line, message) in [
        (r#"{"checkpoint": "gone", "step": 5}"#, "the checkpoint of step 5 is not a folder"),
        (r#"{"checkpoint": "file", "step": 5}"#, "the checkpoint of step 5 is not a folder"),
        (r#"{"checkpoint": "c", "step": 5.5}"#, "`step` is 5.5, which is no whole number"),
        (r#"{"checkpoint": "c"}"#, "the line of a checkpoint has no `step`"),
        (r#"{"checkpoint": 7, "step": 5}"#, "`checkpoint` is 7, which is not the path of a folder"),
    ] {
        let s = Sandbox::new();
        s.write(
            "w.yaml",
            format!(
                "version: 1\nname: w\nstages:\n  one:\n    run: |\n      mkdir c; touch file\n      \
                 echo '{{\"name\": \"loss\", \"value\": 0.5}}' >> \"$TRAINYARD_METRICS\"\n      \
                 echo '{line}' >> \"$TRAINYARD_METRICS\"\n      exec sleep 300\n"
            ),
        );
        let ended = s.run(&["run", "w.yaml"]).code(1);
        ended.says("$TRAINYARD_METRICS line 2").says(message).says("write lines like");
    }
}

/// The last line has no end, and its checkpoint is announced at the end of the command only.
#[test]
fn metrics_are_read_among_checkpoints() {
    let s = Sandbox::new();
    s.write(
        "w.yaml",
        "version: 1\nname: w\nstages:\n  one:\n    run: |\n      mkdir a b\n      \
         echo '{\"checkpoint\": \"a\", \"step\": 1}' >> \"$TRAINYARD_METRICS\"\n      \
         echo '{\"name\": \"loss\", \"value\": 0.5}' >> \"$TRAINYARD_METRICS\"\n      \
         printf '{\"checkpoint\": \"b\", \"step\": 2}' >> \"$TRAINYARD_METRICS\"\n",
    );
    s.run(&["run", "w.yaml"]).code(0);
    assert_eq!(s.metrics("one")["loss"], 0.5);
    let stored = s.files(".trainyard/checkpoints");
    assert!(stored.iter().any(|file| file.ends_with("2-1.json")), "{stored:?}");
}

#[test]
fn a_companion_has_no_resume_points() {
    let s = Sandbox::new();
    s.write("trainyard.yaml", "version: 1\npools:\n- {name: here, cpus: 2}\n");
    s.write(
        "w.yaml",
        "version: 1\nname: w\nstages:\n  train:\n    run: |\n      mkdir c\n      \
         echo '{\"checkpoint\": \"c\", \"step\": 5}' >> \"$TRAINYARD_METRICS\"\n      sleep 3\n  \
         server:\n    beside: train\n    run: |\n      \
         echo '{\"checkpoint\": \"nowhere\", \"step\": 6}' >> \"$TRAINYARD_METRICS\"\n      exec sleep 300\n",
    );
    s.run(&["run", "w.yaml"]).code(0);
    let stored = s.files(".trainyard/checkpoints");
    assert!(stored.len() == 1 && stored[0].ends_with("5-1.json"), "{stored:?}");
}

/// Saves a checkpoint on SIGTERM.
const SAVES_LATE: &str = r#"
if [ -n "${TRAINYARD_RESUME-}" ]; then
  cat "$TRAINYARD_RESUME/step" >> @log
  exit 0
fi
save() {
  mkdir c
  echo 7 > c/step
  echo '{"checkpoint": "c", "step": 7}' >> "$TRAINYARD_METRICS"
  exit 1
}
trap save TERM
sleep 60 &
wait
"#;

#[test]
fn a_checkpoint_that_is_saved_on_the_request_to_stop_counts() {
    let s = Sandbox::new();
    s.write_placed("late.sh", SAVES_LATE);
    s.write_placed(
        "w.yaml",
        "version: 1\nname: w\nstages:\n  one:\n    run: . @late.sh\n    timeout: 4s\n    \
         retry: {attempts: 2, backoff: 1s..1s}\n",
    );
    s.run(&["run", "w.yaml"]).code(0);
    assert_eq!(s.log(), ["7"]);
}

#[test]
fn resume_points_outlast_the_stage_until_they_are_discarded() {
    let s = training("");
    s.run(&["run", "w.yaml"]).code(0);
    s.run(&["run", "w.yaml", "--rerun", "train"]).code(0);
    assert_eq!(s.log(), ["begins", "step 1", "step 2", "step 3", "step 4", &resumes(4)]);
    s.run(&["runs", "afresh", "latest", "train"]).code(0);
    s.run(&["run", "w.yaml", "--rerun", "train"]).code(0);
    assert_eq!(s.logged("begins"), 2);
}
