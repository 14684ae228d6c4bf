//! Tracks the additional columns: those that a file has only if one of its rows uses them.
//!
//! Conversations of other programs have fields that Trainyard's do not need. A table whose rows do not use these fields
//! has the same columns, bytes and digest as in versions before them.

use crate::problem::Message;

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
        }
    }
}
