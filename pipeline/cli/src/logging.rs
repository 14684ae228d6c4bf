//! Writes diagnostics on stderr: the spans and events of `tracing`, filtered by `--log` or `TRAINYARD_LOG`.
//!
//! Attempts inherit the filter through their environment, and their diagnostics go to their logs.

use crate::args::{LogArgs, LogFormat};
use std::ffi::OsString;
use std::sync::OnceLock;
use tracing_subscriber::Layer as _;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use trainyard_core::{Error, Result};

const FILTER: &str = "TRAINYARD_LOG";
const FORMAT: &str = "TRAINYARD_LOG_FORMAT";

/// Variables that pass the settings of this process to attempts. They are global, like the subscriber.
static CHOSEN: OnceLock<Vec<(OsString, OsString)>> = OnceLock::new();

/// Installs the subscriber that writes diagnostics with times and levels on stderr. The default filter shows only
/// warnings of Trainyard. Errors: invalid (the filter or the format).
pub fn init(args: &LogArgs) -> Result<()> {
    let filter = args.log.clone().or_else(|| std::env::var(FILTER).ok().filter(|text| !text.is_empty()));
    let format = match (args.log_format, std::env::var(FORMAT).ok().as_deref()) {
        (Some(format), _) => format,
        (None, None | Some("" | "text")) => LogFormat::Text,
        (None, Some("json")) => LogFormat::Json,
        (None, Some(other)) => {
            return Err(Error::invalid(format!("{FORMAT} is `{other}`")).help("use text or json"));
        }
    };
    let targets = match &filter {
        Some(text) => parse(text)?,
        None => Targets::new().with_target("trainyard", LevelFilter::WARN),
    };
    let chosen = filter.map(|text| (FILTER.into(), text.into()));
    let name = match format {
        LogFormat::Text => "text",
        LogFormat::Json => "json",
    };
    let _ = CHOSEN.set(chosen.into_iter().chain([(FORMAT.into(), name.into())]).collect());
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    let lines: Box<dyn tracing_subscriber::Layer<tracing_subscriber::Registry> + Send + Sync> = match format {
        LogFormat::Text => lines.boxed(),
        LogFormat::Json => lines.json().flatten_event(true).boxed(),
    };
    tracing_subscriber::registry()
        .with(lines.with_filter(targets))
        .try_init()
        .map_err(|e| Error::bug("diagnostics were started twice").caused_by(&e))
}

/// Returns the environment variables that give attempts the same settings.
pub fn environment() -> Vec<(OsString, OsString)> {
    CHOSEN.get().cloned().unwrap_or_default()
}

/// Parses entries of the form `LEVEL` or `TARGET=LEVEL`, separated by commas. A single word that is not a level is
/// rejected: the library would read it as a target, but it is nearly always a typo.
fn parse(text: &str) -> Result<Targets> {
    let wrong = |what: String| {
        Error::invalid(what)
            .help("use error, warn, info, debug, trace or off, alone or for a module: `info,trainyard_store=debug`")
    };
    let mut words = text.split(',').map(str::trim);
    if let Some(word) = words.find(|w| !w.contains('=') && (w.is_empty() || w.parse::<LevelFilter>().is_err())) {
        return Err(wrong(format!("`{word}` is not a log level")));
    }
    text.parse::<Targets>().map_err(|e| wrong(format!("`{text}` is not a log filter: {e}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tracing_subscriber::filter::LevelFilter as Level;

    #[test]
    fn filters_name_levels_and_modules() {
        let targets = parse("info,trainyard_store=debug").unwrap();
        assert_eq!(targets.default_level(), Some(Level::INFO));
        assert!(targets.would_enable("trainyard_store::connection", &tracing::Level::DEBUG));
        assert!(!targets.would_enable("trainyard_runtime", &tracing::Level::DEBUG));
        assert_eq!(parse("off").unwrap().default_level(), Some(Level::OFF));
    }

    #[test]
    fn typos_are_rejected() {
        for (text, word) in [("inof", "`inof`"), ("trainyard_store=debgu", "debgu"), ("", "``")] {
            let error = parse(text).unwrap_err();
            assert!(error.message.contains(word) && error.help.is_some(), "{text}: {error}");
        }
    }
}
