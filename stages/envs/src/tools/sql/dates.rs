//! Replaces SQLite's date functions by functions that read neither the clock nor the time zone of this machine.
//!
//! Questions about dates need `strftime('%Y', born)`, but the built-in functions read the clock when the time value is
//! `now` or missing, and SQLite has no setting against that. The replacements reject `now`, a missing time value,
//! `localtime` and `utc`, and pass all other calls to the built-in functions on a separate connection.

use rusqlite::functions::{Context, FunctionFlags};
use rusqlite::types::Value;
use rusqlite::{Connection, Error, Result, params_from_iter};
use std::sync::{LazyLock, Mutex, PoisonError};

/// The functions, each with the positions of its time values.
const FUNCTIONS: [(&str, &[usize]); 7] = [
    ("date", &[0]),
    ("time", &[0]),
    ("datetime", &[0]),
    ("julianday", &[0]),
    ("unixepoch", &[0]),
    ("strftime", &[1]),
    ("timediff", &[0, 1]),
];

/// Time values that read the clock.
const CLOCK: [&str; 3] = ["now", "subsec", "subsecond"];
/// Words that read the clock or the time zone as any argument.
const AMBIENT: [&str; 3] = ["now", "localtime", "utc"];

/// A connection with the built-in functions and no data.
static CALENDAR: LazyLock<Option<Mutex<Connection>>> =
    LazyLock::new(|| Connection::open_in_memory().ok().map(Mutex::new));

/// Replaces the functions in `connection`.
pub fn install(connection: &Connection) -> Result<()> {
    let flags = FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_DETERMINISTIC;
    for (name, time_values) in FUNCTIONS {
        connection.create_scalar_function(name, -1, flags, move |context: &Context<'_>| {
            evaluate(name, time_values, context)
        })?;
    }
    Ok(())
}

fn evaluate(name: &str, time_values: &[usize], context: &Context<'_>) -> Result<Value> {
    let arguments = (0..context.len()).map(|i| context.get::<Value>(i)).collect::<Result<Vec<_>>>()?;
    let is_one_of =
        |value: &Value, words: &[&str]| words.iter().any(|word| text(value).eq_ignore_ascii_case(word.as_bytes()));
    let reads_clock =
        time_values.iter().any(|position| arguments.get(*position).is_none_or(|value| is_one_of(value, &CLOCK)));
    if reads_clock || arguments.iter().any(|value| is_one_of(value, &AMBIENT)) {
        return Err(Error::UserFunctionError(
            format!("{name}: there is no clock and no time zone here; name the time in full").into(),
        ));
    }
    let Some(calendar) = &*CALENDAR else {
        return Err(Error::UserFunctionError(format!("{name}: cannot be computed").into()));
    };
    let marks = vec!["?"; arguments.len()].join(", ");
    let calendar = calendar.lock().unwrap_or_else(PoisonError::into_inner);
    calendar.query_row(&format!("SELECT {name}({marks})"), params_from_iter(arguments), |row| row.get(0))
}

/// Returns the text that SQLite reads from a value: up to the first zero byte, also in blobs.
fn text(value: &Value) -> &[u8] {
    let bytes = match value {
        Value::Text(text) => text.as_bytes(),
        Value::Blob(bytes) => bytes.as_slice(),
        Value::Null | Value::Integer(_) | Value::Real(_) => &[],
    };
    bytes.split(|b| *b == 0).next().unwrap_or(bytes)
}
