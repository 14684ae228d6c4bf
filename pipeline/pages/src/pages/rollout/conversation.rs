//! Messages of a rollout, page by page.

use super::matches;
use super::message::{self, TurnFacts};
use super::page::RowPage;
use super::paging::{self, Paging};
use crate::links::query;
use crate::text::{MAX_CHARS, count};
use maud::{Markup, html};
use trainyard_tables::Message;
use trainyard_views::rollouts::{RolloutDetail, message_page};

/// Shows the messages from number `from` on.
pub fn section(page: &RowPage, found: &RolloutDetail, from: usize) -> Markup {
    let messages = &found.rollout.messages;
    let shown = message_page(messages, from, MAX_CHARS);
    let turns = turns(messages, found.prompt_answers);
    let paging = Paging {
        many: "Messages",
        one: "Message",
        anchor: "conversation",
        previous: shown.previous,
        next: shown.next,
        last: shown.last,
        count: messages.len(),
    };
    let row = page.place.row(&page.request.links, page.row);
    let address = |from: usize| format!("{row}{}", query(&[("from", &from.to_string())]));
    html! {
        h2 #conversation { "Conversation" }
        @if messages.is_empty() { p .empty { "The rollout has no messages." } }
        @if shown.range.len() < messages.len() {
            p {
                "Messages " (count(shown.range.start as u64)) " to "
                (count(shown.range.end.saturating_sub(1) as u64)) " of " (count(messages.len() as u64))
            }
            (matches::form(None))
            (paging::form(&paging, &[]))
        }
        (paging::links(&paging, address))
        @for (number, one) in messages.iter().enumerate().skip(shown.range.start).take(shown.range.len()) {
            @let turn = turns[number];
            @let has_failed = turn.and_then(|turn| u16::try_from(turn).ok())
                .is_some_and(|turn| found.failed_turns.contains(&turn));
            @let facts = TurnFacts { turn, has_failed, labels: found.step_labels.get(&number).map(Vec::as_slice) };
            (message::show(page, (number, one), &facts, shown.calls))
        }
        (paging::links(&paging, address))
    }
}

/// Returns the turn of each message: the assistant's messages after those of the prompt, from 0.
fn turns(messages: &[Message], prompt_answers: usize) -> Vec<Option<usize>> {
    let mut answers = 0;
    let turn = |message: &Message| {
        let is_answer = message.role == "assistant";
        answers += usize::from(is_answer);
        if is_answer { (answers - 1).checked_sub(prompt_answers) } else { None }
    };
    messages.iter().map(turn).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_begin_after_the_prompt() {
        let messages =
            ["user", "assistant", "user", "assistant", "tool", "assistant"].map(|role| Message::new(role, ""));
        assert_eq!(turns(&messages, 1), [None, None, None, Some(0), None, Some(1)]);
        assert_eq!(turns(&messages, 0)[1], Some(0));
    }
}
