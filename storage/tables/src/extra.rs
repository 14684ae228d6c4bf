//! Tracks the additional columns: those that a file has only if one of its rows uses them.
//!
//! Conversations of other programs have fields that Trainyard's do not need. A table whose rows do not use these fields
//! has the same columns, bytes and digest as in versions before them.

use crate::problem::Message;
use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, RecordBatch};

/// Set of used additional columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ExtraColumns {
    /// `messages.name`
    pub name: bool,
    /// `messages.reasoning_content`
    pub reasoning_content: bool,
    /// `messages.tool_call_id`
    pub tool_call_id: bool,
    /// `tools` of trajectories.
    pub tools: bool,
    /// `environment_tools` of trajectories.
    pub environment_tools: bool,
    /// `restarts` of trajectories.
    pub restarts: bool,
    /// Columns of the check of a trajectory's answer.
    pub answer_check: bool,
    /// `meta` of problems and trajectories.
    pub meta: bool,
    /// `parents` of problems; trajectories always have this column.
    pub parents: bool,
}

impl ExtraColumns {
    /// All additional columns.
    pub const ALL: Self = Self {
        name: true,
        reasoning_content: true,
        tool_call_id: true,
        tools: true,
        environment_tools: true,
        restarts: true,
        answer_check: true,
        meta: true,
        parents: true,
    };

    /// Returns the columns that these messages use.
    pub fn of<'a>(messages: impl Iterator<Item = &'a Message>) -> Self {
        messages.fold(Self::default(), |used, message| {
            used.union(Self {
                name: message.name.is_some(),
                reasoning_content: message.reasoning_content.is_some(),
                tool_call_id: message.tool_call_id.is_some(),
                ..Self::default()
            })
        })
    }
    /// Returns the columns that have a value in these rows.
    pub fn of_batch(batch: &RecordBatch) -> Self {
        let has_value = |column: Option<&ArrayRef>| column.is_some_and(|column| column.null_count() < column.len());
        let uses = |name: &str| has_value(batch.column_by_name(name));
        let lists = batch.column_by_name("messages").and_then(|column| column.as_list_opt::<i32>());
        // The values of a slice are those of the whole column.
        let values = lists.map(|lists| {
            let (first, last) = (lists.value_offsets()[0], lists.value_offsets()[lists.len()]);
            lists.values().slice(first as usize, (last - first) as usize)
        });
        let messages = values.as_ref().and_then(|values| values.as_struct_opt());
        let in_messages = |name: &str| has_value(messages.and_then(|parts| parts.column_by_name(name)));
        Self {
            name: in_messages("name"),
            reasoning_content: in_messages("reasoning_content"),
            tool_call_id: in_messages("tool_call_id"),
            tools: uses("tools"),
            environment_tools: uses("environment_tools"),
            restarts: uses("restarts"),
            answer_check: uses("correct"),
            meta: uses("meta"),
            parents: uses("parents") && batch.column_by_name("problem_id").is_none(),
        }
    }
    /// Returns the union of both.
    #[must_use]
    pub fn union(self, other: Self) -> Self {
        Self {
            name: self.name || other.name,
            reasoning_content: self.reasoning_content || other.reasoning_content,
            tool_call_id: self.tool_call_id || other.tool_call_id,
            tools: self.tools || other.tools,
            environment_tools: self.environment_tools || other.environment_tools,
            restarts: self.restarts || other.restarts,
            answer_check: self.answer_check || other.answer_check,
            meta: self.meta || other.meta,
            parents: self.parents || other.parents,
        }
    }
}
