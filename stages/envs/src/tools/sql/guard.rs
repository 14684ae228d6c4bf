//! What a query may do, asked by SQLite while it compiles one.
//!
//! Why an allow-list: whatever a later SQLite learns is refused until somebody has looked at it. Refuses: writing, other files,
//! pragmas, and functions whose value is not decided by their arguments and the database.

use rusqlite::hooks::{AuthAction, AuthContext, Authorization};

/// Functions of clock, chance and the outside. Those of dates are replaced ([`super::dates`]), not refused.
const REFUSED: [&str; 6] =
    ["random", "randomblob", "load_extension", "current_date", "current_time", "current_timestamp"];

fn is_refused(function: &str) -> bool {
    REFUSED.iter().any(|name| name.eq_ignore_ascii_case(function))
}

fn allow(allowed: bool) -> Authorization {
    if allowed { Authorization::Allow } else { Authorization::Deny }
}

/// For queries of the agent: reading alone.
pub fn reading(context: AuthContext<'_>) -> Authorization {
    match context.action {
        AuthAction::Select | AuthAction::Recursive | AuthAction::Read { .. } => Authorization::Allow,
        AuthAction::Function { function_name } => allow(!is_refused(function_name)),
        _ => Authorization::Deny,
    }
}

/// For the script that makes the database: all but what leaves it.
pub fn loading(context: AuthContext<'_>) -> Authorization {
    match context.action {
        AuthAction::Attach { .. }
        | AuthAction::Detach { .. }
        | AuthAction::Pragma { .. }
        | AuthAction::CreateVtable { .. }
        | AuthAction::DropVtable { .. }
        | AuthAction::Unknown { .. } => Authorization::Deny,
        AuthAction::Function { function_name } => allow(!is_refused(function_name)),
        _ => Authorization::Allow,
    }
}
