use super::*;
use crate::testing::{echo_environment, environment, real};
use trainyard_core::ErrorKind;

fn solution(text: &str, correct: bool) -> Solution {
    Solution {
        problem_id: "p".into(),
        question: "q".into(),
        answer: "18".into(),
        solver: "s".into(),
        solution: text.into(),
        correct,
        split: "test".into(),
        parents: vec!["graded.jsonl:3".into()],
    }
}

fn labels(text: &str, correct: bool) -> (Vec<f32>, StepLabelCounts, Trajectory) {
    let rows = [solution(text, correct)];
    let environment = environment(&StepLabelsConfig::default().environment, 1).unwrap();
    let problems = problems(&rows, environment.kind());
    let by_id = problems.iter().map(|p| (p.id.as_str(), p)).collect();
    let (mut trajectories, counts) = label(&rows, &by_id, environment.as_ref(), |_| Ok(())).unwrap();
    let trajectory = trajectories.remove(0);
    (trajectory.step_labels.clone().unwrap(), counts, trajectory)
}

/// Returns the labels with 9 for NaN, so that lists can be compared.
fn shown(labels: &[f32]) -> Vec<f32> {
    labels.iter().map(|l| if l.is_nan() { 9.0 } else { *l }).collect()
}

#[test]
fn right_solutions_have_only_their_outcome() {
    let (found, counts, trajectory) =
        labels("Ducks: 16 - 7 = <<16-7=9>>9.\nShe makes 9 * 2 = $<<9*2=18>>18.\nA: 18", true);
    assert_eq!(shown(&found), [9.0, 9.0, 1.0]);
    assert_eq!(
        (counts.annotations, counts.agreeing, counts.steps, counts.unlabeled, counts.labeled_outcome),
        (2, 2, 3, 2, 1)
    );
    let texts: Vec<&str> =
        trajectory.messages.iter().filter(|m| m.role != "system").map(|m| m.content.as_str()).collect();
    assert_eq!(texts.last(), Some(&"18.\n#### 18"));
    assert_eq!(
        trajectory.messages.iter().filter(|m| m.role == "tool").map(|m| m.content.as_str()).collect::<Vec<_>>(),
        ["9", "18"]
    );
    assert_eq!((trajectory.reward, trajectory.answer.as_deref()), (1.0, Some("18")));
}

#[test]
fn steps_that_state_a_wrong_value_are_labeled_0() {
    let (found, counts, trajectory) = labels("16 - 7 = <<16-7=8>>8.\n8 * 2 = <<8*2=16>>16.\nA: 16", false);
    assert_eq!(shown(&found), [9.0, 0.0, 0.0]);
    assert_eq!(
        (counts.failing, counts.labeled_calculation, counts.labeled_outcome, counts.outcomes_correct),
        (1, 1, 1, 0)
    );
    // The tool returns the true result, regardless of the solution.
    assert!(trajectory.messages.iter().any(|m| m.role == "tool" && m.content == "9"));
}

#[test]
fn calculations_that_cannot_be_executed_label_nothing() {
    let (found, counts, _) = labels("X*.25 = <<X*.25=19.5>>19.5.\nSo 2 + 2 = <<2+2=4>>4.\nA: 4", false);
    assert_eq!(shown(&found), [9.0, 9.0, 0.0]);
    assert_eq!((counts.not_executable, counts.failing, counts.agreeing), (1, 0, 1));
}

#[test]
fn endless_solutions_are_dropped_and_counted() {
    let environment = echo_environment();
    let row = |solver: &str, call: &str| Solution {
        solver: solver.into(),
        ..solution(&format!("So <<{call}=5>>5.\nA: 5"), true)
    };
    let run = |rows: &[Solution]| {
        let problems = problems(rows, environment.kind());
        let by_id = problems.iter().map(|p| (p.id.as_str(), p)).collect();
        label(rows, &by_id, environment.as_ref(), |_| Ok(()))
    };
    let (kept, counts) = run(&[row("a", "5"), row("b", "forever")]).unwrap();
    assert_eq!(kept.iter().map(|t| t.id.as_str()).collect::<Vec<_>>(), ["p-a"]);
    assert_eq!((counts.solutions, counts.annotations, counts.dropped_time_limit), (1, 1, 1));
    assert_eq!(run(&[row("b", "forever")]).unwrap_err().kind, ErrorKind::Data);
    assert_eq!(run(&[row("c", "gone")]).unwrap_err().kind, ErrorKind::Retryable);
}

#[test]
fn real_solutions_are_labeled_by_half() {
    let Some(file) = real("gsm8k/example_model_solutions.jsonl") else { return };
    let reading = crate::import::ImportContext { name: "gsm8k".into(), split: "test".into(), ..Default::default() };
    let rows = crate::import::tests::read_file("gsm8k_solutions", &file, &reading).unwrap().solutions;
    let environment = environment(&StepLabelsConfig::default().environment, 2).unwrap();
    let run =
        |half: Half| {
            let rows: Vec<Solution> = rows.iter().filter(|s| half_of(&s.question) == half).cloned().collect();
            let problems = problems(&rows, environment.kind());
            let by_id = problems.iter().map(|p| (p.id.as_str(), p)).collect();
            let (trajectories, counts) = label(&rows, &by_id, environment.as_ref(), |_| Ok(())).unwrap();
            assert!(trajectories.iter().all(|t| t.step_labels.as_ref().unwrap().len()
                == t.messages.iter().filter(|m| m.role == "assistant").count()));
            (problems.len(), counts)
        };
    let ((n_a, a), (n_b, b)) = (run(Half::A), run(Half::B));
    println!("half a: {n_a} problems, {a:?}\nhalf b: {n_b} problems, {b:?}");
    assert_eq!((n_a + n_b, a.solutions + b.solutions, a.outcomes_correct + b.outcomes_correct), (1_319, 5_276, 2_001));
    assert_eq!(a.executed + b.executed, a.annotations + b.annotations);
    assert!(a.agreeing + b.agreeing > 16_500 && a.failing + b.failing < 100 && a.failing > 0 && b.failing > 0);
    assert_eq!(a.labeled_outcome, a.solutions);
}
