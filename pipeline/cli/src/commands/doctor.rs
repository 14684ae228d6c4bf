//! `trainyard doctor`: is this machine fit, is the site file right, does the store keep its promises?

use crate::args::{DoctorArgs, Format};
use crate::exit::Exit;
use crate::output::human::{print_json, print_text, table};
use crate::session::{self, Access};
use serde::Serialize;
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;
use trainyard_app::{Catalogue, machine, notifications};
use trainyard_core::units::format_size;
use trainyard_core::{Result, StageKinds as _};
use trainyard_envs::tools::{ToolHost, ToolLimits};
use trainyard_spec::site::{Notification, Pool};

/// How long a fresh worker may take for its first answer.
const TOOL_PATIENCE: Duration = Duration::from_secs(10);

#[derive(Serialize)]
struct Finding {
    what: &'static str,
    good: bool,
    detail: String,
}

/// Exit 3 if the store is out of reach, 2 if anything else is not as it should be.
pub fn run(args: &DoctorArgs, catalogue: &Arc<Catalogue>) -> Result<Exit> {
    let mut findings = vec![machine_finding(), kinds(catalogue), executors(catalogue), tool()];
    let site = session::site(&args.site, catalogue)?;
    findings.extend(site.pools.iter().map(pool));
    findings.extend(site.secrets.iter().map(|(name, provider)| secret(name, provider)));
    findings.extend(site.notifications.iter().map(notification));
    // Opening proves that of two puts of one name only one succeeds.
    let store = session::open(&args.site, Access::Run, catalogue);
    findings.push(match &store {
        Ok(session) => Finding { what: "store", good: true, detail: format!("{} is create-only", session.store.url()) },
        Err(error) => Finding { what: "store", good: false, detail: error.to_string() },
    });
    let good = findings.iter().all(|f| f.good);
    match args.format {
        Format::Json => print_json(&json!({"good": good, "findings": findings}))?,
        Format::Text => {
            let rows: Vec<Vec<String>> = findings
                .iter()
                .map(|f| vec![if f.good { "ok" } else { "BAD" }.into(), f.what.into(), f.detail.clone()])
                .collect();
            print_text(&table(&["", "what", "found"], &rows));
        }
    }
    Ok(match (&store, good) {
        (_, true) => Exit::Done,
        (Err(error), false) => Exit::from(error),
        (Ok(_), false) => Exit::Invalid,
    })
}

fn machine_finding() -> Finding {
    let pool = machine::pool();
    Finding {
        what: "machine",
        good: true,
        detail: format!("{} cpus, {}, {} gpus", pool.cpus, format_size(pool.memory), pool.gpus.len()),
    }
}

fn kinds(catalogue: &Catalogue) -> Finding {
    Finding { what: "stage kinds", good: true, detail: catalogue.names().join(", ") }
}

fn executors(catalogue: &Catalogue) -> Finding {
    let names: Vec<&str> = catalogue.executors().iter().map(|kind| kind.name).collect();
    Finding { what: "executors", good: true, detail: names.join(", ") }
}

/// Its executor was judged with the site file; that its machines answer is not asked.
fn pool(pool: &Pool) -> Finding {
    let detail = format!("{} ({} × {} cpus, {} gpus)", pool.name, pool.nodes, pool.cpus, pool.gpus.len());
    Finding { what: "pool", good: true, detail }
}

/// Shows the host alone: the address is a secret.
fn notification(notification: &Notification) -> Finding {
    let outcomes = notification.on.join(", ");
    let (good, detail) = match notifications::address(&notification.webhook) {
        Ok(url) => (true, format!("{outcomes} to {}", url.host_str().unwrap_or("a webhook"))),
        Err(error) => (false, format!("{outcomes}: {error}")),
    };
    Finding { what: "notification", good, detail }
}

fn secret(name: &str, provider: &str) -> Finding {
    let set = provider.strip_prefix("env:").is_some_and(|v| std::env::var_os(v).is_some());
    Finding {
        what: "secret",
        good: set,
        detail: format!("{name} from {provider}{}", if set { "" } else { ", which is not set" }),
    }
}

/// Starts a tool worker, lets it compute and stops it.
fn tool() -> Finding {
    let answer =
        ToolHost::new(1).open(&ToolLimits::default()).map(|session| session.submit("print(6 * 7)").wait(TOOL_PATIENCE));
    let (good, detail) = match answer {
        Ok(Some(result)) if result.text == "42" => (true, "a worker process computes".to_string()),
        Ok(Some(result)) => (false, result.text),
        Ok(None) => (false, "the worker process does not answer".into()),
        Err(error) => (false, error.to_string()),
    };
    Finding { what: "python tool", good, detail }
}
