//! Authorizes the actions of a query and of the loading script, as SQLite's authorizers.
//!
//! Queries have an allow-list, so actions that a later SQLite adds are denied until they are reviewed.

use rusqlite::hooks::{AuthAction, AuthContext, Authorization};

/// Functions of clock, random numbers and extensions. The date functions are replaced ([`super::dates`]) instead.
const DENIED: [&str; 6] =
    ["random", "randomblob", "load_extension", "current_date", "current_time", "current_timestamp"];

fn is_denied(function: &str) -> bool {
    DENIED.iter().any(|name| name.eq_ignore_ascii_case(function))
}

fn allow(allowed: bool) -> Authorization {
    if allowed { Authorization::Allow } else { Authorization::Deny }
}

/// Authorizes the actions of queries of the agent, which may only read.
pub fn authorize_query(context: AuthContext<'_>) -> Authorization {
    match context.action {
        AuthAction::Select | AuthAction::Recursive | AuthAction::Read { .. } => Authorization::Allow,
        AuthAction::Function { function_name } => allow(!is_denied(function_name)),
        _ => Authorization::Deny,
    }
}

/// Authorizes the actions of the script that creates the database, which may use nothing outside of the database.
pub fn authorize_script(context: AuthContext<'_>) -> Authorization {
    match context.action {
        AuthAction::Attach { .. }
        | AuthAction::Detach { .. }
        | AuthAction::Pragma { .. }
        | AuthAction::CreateVtable { .. }
        | AuthAction::DropVtable { .. }
        | AuthAction::Unknown { .. } => Authorization::Deny,
        AuthAction::Function { function_name } => allow(!is_denied(function_name)),
        _ => Authorization::Allow,
    }
}
