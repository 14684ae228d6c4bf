//! Implements `trainyard doctor`, which checks this machine, the site file and the guarantees of the store.

use crate::args::{DoctorArgs, OutputFormat};
use crate::exit::CliExit;
use crate::output::human::{print_json, print_text, table};
use crate::session::{self, Access};
use serde::Serialize;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use trainyard_app::machine::gpus::GpuInfo;
use trainyard_app::{Catalogue, machine, notifications};
use trainyard_core::units::format_size;
use trainyard_core::{Result, StageKinds as _};
use trainyard_envs::tools::{ToolHost, ToolLimits, missing_for_cpython};
use trainyard_spec::site::{Notification, Recipient, SitePool};

/// Timeout of the first response of a new worker.
const TOOL_TIMEOUT: Duration = Duration::from_secs(10);

#[derive(Serialize)]
struct DoctorFinding {
    what: &'static str,
    good: bool,
    /// Whether the finding is probably a mistake but not an error.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    warning: bool,
    detail: String,
}

impl DoctorFinding {
    fn new(what: &'static str, good: bool, detail: String) -> Self {
        Self { what, good, warning: false, detail }
    }
    fn mark(&self) -> &'static str {
        match (self.good, self.warning) {
            (false, _) => "BAD",
            (true, true) => "warning",
            (true, false) => "ok",
        }
    }
}

/// Runs all checks and prints the findings. Returns exit code 3 if the store is unreachable, and 2 if another finding
/// is bad.
pub fn run(args: &DoctorArgs, catalogue: &Arc<Catalogue>) -> Result<CliExit> {
    let mut findings = vec![machine_finding(), gpus(), kinds(catalogue), executors(catalogue), tool(), cpython()];
    let site = session::site(&args.site, catalogue)?;
    let machine_pool = machine::pool();
    findings.extend(site.pools.iter().map(|p| pool(p, &machine_pool, catalogue)));
    findings.extend(site.secrets.iter().map(|(name, provider)| secret(name, provider)));
    findings.extend(site.notifications.iter().map(notification));
    findings.extend(site.tracking.iter().map(|options| tracker(options, catalogue)));
    // Opening the store verifies that of two puts of the same name only one succeeds.
    let store = session::open(&args.site, Access::Run, catalogue);
    findings.push(match &store {
        Ok(session) => DoctorFinding::new("store", true, format!("{} is create-only", session.store.url())),
        Err(error) => DoctorFinding::new("store", false, error.to_string()),
    });
    let good = findings.iter().all(|f| f.good);
    match args.format {
        OutputFormat::Json => print_json(&json!({"good": good, "findings": findings}))?,
        OutputFormat::Text => {
            let rows: Vec<Vec<String>> =
                findings.iter().map(|f| vec![f.mark().into(), f.what.into(), f.detail.clone()]).collect();
            print_text(&table(&["", "what", "found"], &rows));
        }
    }
    Ok(match (&store, good) {
        (_, true) => CliExit::Done,
        (Err(error), false) => CliExit::from(error),
        (Ok(_), false) => CliExit::Invalid,
    })
}

fn machine_finding() -> DoctorFinding {
    let pool = machine::pool();
    let detail = format!("{} cpus, {}, {} gpus", pool.cpus, format_size(pool.memory), pool.gpus.len());
    DoctorFinding::new("machine", true, detail)
}

/// Lists the GPUs. This finding is never bad, since a machine needs no GPUs.
fn gpus() -> DoctorFinding {
    let detail = match machine::gpus::list_gpus() {
        Ok(found) if found.is_empty() => "none".to_string(),
        Ok(found) => {
            let one = |gpu: &GpuInfo| format!("{}: {}, {}, {}", gpu.index, gpu.name, format_size(gpu.memory), gpu.uuid);
            found.iter().map(one).collect::<Vec<_>>().join("; ")
        }
        Err(why) => format!("none: {why}"),
    };
    DoctorFinding::new("gpus", true, detail)
}

fn kinds(catalogue: &Catalogue) -> DoctorFinding {
    DoctorFinding::new("stage kinds", true, catalogue.names().join(", "))
}

fn executors(catalogue: &Catalogue) -> DoctorFinding {
    let names: Vec<&str> = catalogue.executors().iter().map(|kind| kind.name).collect();
    DoctorFinding::new("executors", true, names.join(", "))
}

/// Compares a local pool with this machine. Remote machines are not contacted, and executors were checked with the site
/// file.
fn pool(pool: &SitePool, machine_pool: &SitePool, catalogue: &Catalogue) -> DoctorFinding {
    let detail = format!("{} ({} × {} cpus, {} gpus)", pool.name, pool.nodes, pool.cpus, pool.gpus.len());
    let mut excess = Vec::new();
    if pool.cpus > machine_pool.cpus {
        excess.push(format!("{} cpus", machine_pool.cpus));
    }
    if machine_pool.memory > 0 && pool.memory > machine_pool.memory {
        excess.push(format!("{} of memory", format_size(machine_pool.memory)));
    }
    if pool.gpus.len() > machine_pool.gpus.len() {
        excess.push(format!("{} gpus", machine_pool.gpus.len()));
    }
    let is_here = catalogue.executors().iter().any(|kind| kind.on_this_machine && kind.name == pool.executor);
    if !is_here || excess.is_empty() {
        return DoctorFinding::new("pool", true, detail);
    }
    let detail = format!("{detail}: this machine has only {}; correct the amounts in the site file", excess.join(", "));
    DoctorFinding { warning: true, ..DoctorFinding::new("pool", true, detail) }
}

/// Reports a recipient by its host or program only, since the rest may be secret.
fn notification(notification: &Notification) -> DoctorFinding {
    let outcomes = notification.on.join(", ");
    let (good, detail) = match &notification.to {
        Recipient::Webhook(address) | Recipient::Slack(address) => match notifications::address(address) {
            Ok(url) => (true, format!("{outcomes} to {}", url.host_str().unwrap_or("a webhook"))),
            Err(error) => (false, format!("{outcomes}: {error}")),
        },
        Recipient::Command(words) => {
            let program = words.first().map_or("", String::as_str);
            (true, format!("{outcomes} to the command {program}"))
        }
    };
    DoctorFinding::new("notification", good, detail)
}

/// Checks the options of a tracker without contacting its server.
fn tracker(options: &Value, catalogue: &Catalogue) -> DoctorFinding {
    let kind = options.get("kind").unwrap_or(options).as_str().unwrap_or_default().to_string();
    match catalogue.trackers().check(options).into_iter().next() {
        None => DoctorFinding::new("tracker", true, kind),
        Some(problem) => DoctorFinding::new("tracker", false, format!("{kind}: {}", problem.message)),
    }
}

fn secret(name: &str, provider: &str) -> DoctorFinding {
    let set = provider.strip_prefix("env:").is_some_and(|v| std::env::var_os(v).is_some());
    DoctorFinding::new("secret", set, format!("{name} from {provider}{}", if set { "" } else { ", which is not set" }))
}

/// Starts a tool worker, computes 6 × 7 in it, and stops it.
fn tool() -> DoctorFinding {
    let response =
        ToolHost::new(1).open(&ToolLimits::default()).map(|session| session.submit("print(6 * 7)").wait(TOOL_TIMEOUT));
    let (good, detail) = match response {
        Ok(Some(result)) if result.text == "42" => (true, "a worker process computes".to_string()),
        Ok(Some(result)) => (false, result.text),
        Ok(None) => (false, "the worker process does not respond".into()),
        Err(error) => (false, error.to_string()),
    };
    DoctorFinding::new("python tool", good, detail)
}

/// Checks whether this kernel can confine programs, which only `interpreter: cpython` requires.
fn cpython() -> DoctorFinding {
    let missing = missing_for_cpython();
    if missing.is_empty() {
        let detail = "Landlock and seccomp can confine it (`interpreter: cpython`)".to_string();
        return DoctorFinding::new("python sandbox", true, detail);
    }
    let detail = format!(
        "`interpreter: cpython` cannot run on this machine, which lacks {}; `interpreter: monty` can",
        missing.join(" and ")
    );
    DoctorFinding { warning: true, ..DoctorFinding::new("python sandbox", true, detail) }
}
