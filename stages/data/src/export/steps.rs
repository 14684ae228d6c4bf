//! Converts labeled steps to text. A step is the agent's text of one turn, after the tool results before that turn.

use super::omissions::ExportOmissions;
use trainyard_tables::Trajectory;

/// An answer in labeled steps.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Steps {
    pub prompt: String,
    /// Text of each step.
    pub completions: Vec<String>,
    /// Whether each step is correct.
    pub labels: Vec<bool>,
}

/// Returns the steps of a trajectory whose steps are turns. Returns `None` if no step has a label, or if a turn
/// contains several steps, which only a tokenizer can separate. A step without a label is joined with the next labeled
/// step; the steps after the last label are left out. Rounds labels, and counts all omissions.
pub fn labeled_steps(row: &Trajectory, omissions: &mut ExportOmissions) -> Option<Steps> {
    let labels = row.step_labels.as_deref()?;
    let first = row.messages.iter().position(|m| m.role == "assistant")?;
    let (prompt, answer) = row.messages.split_at(first);
    let turns = answer.iter().filter(|m| m.role == "assistant").count();
    if labels.len() != turns {
        return None;
    }
    let mut steps = Steps { prompt: joined(prompt.iter().map(|m| m.content.as_str())), ..Steps::default() };
    let mut text: Vec<&str> = Vec::new();
    let mut labels = labels.iter();
    for message in answer {
        text.push(&message.content);
        let label = if message.role == "assistant" { labels.next().copied().unwrap_or(f32::NAN) } else { f32::NAN };
        if message.role == "assistant" && label.is_nan() {
            omissions.add("borders of steps without a label (their text is in the next step)", 1);
        }
        if label.is_nan() {
            continue;
        }
        omissions.add(
            "labels between 0 and 1 (rounded to wrong below ½ and right from there on)",
            usize::from(label != 0.0 && label != 1.0),
        );
        steps.completions.push(joined(text.drain(..)));
        steps.labels.push(label >= 0.5);
    }
    omissions.add("rows whose last steps have no label (those steps)", usize::from(!text.is_empty()));
    (!steps.labels.is_empty()).then_some(steps)
}

fn joined<'t>(texts: impl Iterator<Item = &'t str>) -> String {
    texts.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use trainyard_tables::Message;

    #[test]
    fn steps_without_a_label_belong_to_the_next_one() {
        let messages = [
            ("user", "q"),
            ("assistant", "a"),
            ("tool", "7"),
            ("assistant", "b"),
            ("assistant", "c"),
            ("assistant", "d"),
        ];
        let messages = messages.map(|(role, content)| Message::new(role, content)).to_vec();
        let labels = vec![f32::NAN, 0.25, 1.0, f32::NAN];
        let row = Trajectory { messages, step_labels: Some(labels), ..Trajectory::default() };
        let mut omissions = ExportOmissions::default();
        let steps = labeled_steps(&row, &mut omissions).unwrap();
        assert_eq!((steps.prompt.as_str(), &steps.labels[..]), ("q", &[false, true][..]));
        assert_eq!(steps.completions, ["a\n7\nb", "c"]);
        assert_eq!(omissions.counts().map(|(_, n)| n).collect::<Vec<_>>(), [2, 1, 1]);
        assert_eq!(labeled_steps(&Trajectory { step_labels: None, ..row.clone() }, &mut omissions), None);
        assert_eq!(
            labeled_steps(&Trajectory { step_labels: Some(vec![1.0]), ..row }, &mut omissions),
            None,
            "steps within turns"
        );
    }
}
