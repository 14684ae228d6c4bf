//! Implements `trainyard serve`, the daemon that starts scheduled runs and serves the HTTP API.

use crate::args::{OnStop, ServeArgs};
use crate::exit::CliExit;
use crate::logging;
use crate::output::human::print_note;
use crate::session::{self, Access, AppSession};
use crate::shipped::ShippedFiles;
use serde_json::json;
use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;
use trainyard_app::session::home;
use trainyard_app::{Catalogue, notifications, wiring, workflow};
use trainyard_core::{Chance, Clock, Error, Result, SystemClock};
use trainyard_daemon::api::tokens::ApiTokens;
use trainyard_daemon::api::{self, ApiState};
use trainyard_daemon::daemon::{Daemon, DaemonShared};
use trainyard_daemon::effects::DaemonNotification;
use trainyard_daemon::folder::{CompileFn, WorkflowFolder};
use trainyard_daemon::processes::{RunProcesses, StartedProcesses};
use trainyard_daemon::schedule::event::SkipReason;
use trainyard_runtime::Interrupt;
use trainyard_runtime::resume::ProcessId;
use trainyard_spec::site::Site;

/// Tick for compiling files only to check them.
const SOME_TICK: &str = "2024-01-01T00:00:00Z";
/// Maximum time for which a request of the daemon waits for an unreachable store; the next poll retries.
const OUTAGE: Duration = Duration::from_secs(20);
/// Grace period in which runs may stop cleanly.
const STOPPING: Duration = Duration::from_secs(60);

/// Runs the daemon and its API until a signal arrives. With `--on-stop stop`, then stops the runs that it started.
pub fn run(args: &ServeArgs, catalogue: &Arc<Catalogue>) -> Result<CliExit> {
    let session = session::open(&args.site, Access::Run, catalogue)?;
    let tokens = args.token_file.as_deref().map(ApiTokens::read).transpose()?.unwrap_or_default();
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let chance = wiring::chance(clock.as_ref()).child("serve", &[clock.monotonic().as_nanos() as u64]);
    let started = Arc::new(StartedProcesses::default());
    let shared = Arc::new(DaemonShared::default());
    let daemon = daemon(args, &session, catalogue, (clock.clone(), chance), (&started, &shared))?;
    // API clients wait for the response, so their requests do not wait during an outage.
    let store = session.store.with_outage(Duration::ZERO);
    let version = env!("CARGO_PKG_VERSION");
    let app = Arc::new(ApiState { store, clock, chance, daemon: shared, tokens, version, changes: AtomicU64::new(0) });
    session.block_on(async {
        let interrupt = Interrupt::default();
        interrupt.on_signals()?;
        let listener = api::bind(args.bind, &app.tokens).await?;
        let address = listener.local_addr().unwrap_or(args.bind);
        let folder = daemon.folder.path().display();
        print_note(&format!("serving {folder} from {} on http://{address}", session.store.url()));
        let stopped = interrupt.clone();
        let server = async {
            api::serve(listener, app, interrupt.clone()).await;
            // The daemon stops if its API stops.
            stopped.raise();
        };
        tokio::join!(server, daemon.run(&interrupt));
        if args.on_stop == OnStop::Stop && !started.stop(STOPPING).await {
            print_note("some runs have not ended yet; `trainyard runs list` shows them");
        }
        Ok(())
    })?;
    Ok(CliExit::Done)
}

fn daemon(
    args: &ServeArgs,
    session: &AppSession,
    catalogue: &Arc<Catalogue>,
    (clock, chance): (Arc<dyn Clock>, Chance),
    (started, shared): (&Arc<StartedProcesses>, &Arc<DaemonShared>),
) -> Result<Daemon> {
    let folder = WorkflowFolder::new(&args.workflows)?;
    let process = ProcessId::own();
    let nonce = chance.at("daemon", &[]).next_u32();
    let processes = RunProcesses {
        program: wiring::program()?,
        site: args.site.site.as_deref().map(absolute).transpose()?,
        folder: folder.path().to_path_buf(),
        scratch: home().join("serve"),
        environment: logging::environment(),
        store: session.store.clone(),
        clock: clock.clone(),
        chance,
        handle: session.handle(),
        notify: notifier(session),
        started: started.clone(),
    };
    Ok(Daemon {
        // Longer waits would delay the stop of the daemon and the detection of missed ticks.
        store: session.store.with_outage(OUTAGE),
        clock,
        chance,
        home: format!("{}:{}", host(&process), folder.path().display()),
        name: format!("{process}:{nonce:08x}"),
        effects: Arc::new(processes),
        compile: compiler(catalogue, session.site.clone()),
        folder,
        shared: shared.clone(),
        changes: VecDeque::new(),
    })
}

/// Returns a function that sends the daemon's notifications without waiting for their delivery. Failed deliveries are
/// logged.
fn notifier(session: &AppSession) -> Box<dyn Fn(DaemonNotification) + Send + Sync> {
    let (recipients, handle) = (session.site.notifications.clone(), session.handle());
    Box::new(move |notification| {
        let (recipients, message) = (recipients.clone(), notification_message(notification));
        handle.spawn(async move {
            for error in notifications::send(&recipients, &message).await {
                tracing::warn!("{error}");
            }
        });
    })
}

fn notification_message(notification: DaemonNotification) -> notifications::NotificationMessage {
    match notification {
        DaemonNotification::Missed { schedule, tick, why, passed_over } => {
            let before = if passed_over > 0 { format!(", and {passed_over} earlier ones") } else { String::new() };
            let what = match why {
                None => "came late",
                Some(SkipReason::Missed) => "was missed: no daemon was running",
                Some(SkipReason::Overlap) => "was skipped: the previous run is still active",
                Some(SkipReason::Full) => "was skipped: too many ticks are waiting",
                Some(SkipReason::Done) => "already had a run",
            };
            notifications::NotificationMessage {
                events: vec!["missed"],
                text: format!("tick {} of {schedule} {what}{before}", tick.id),
                details: json!({"workflow": schedule, "tick": tick.id, "why": why, "passed_over": passed_over}),
            }
        }
        DaemonNotification::NotStarted { schedule, tick, run, why } => notifications::NotificationMessage {
            events: vec!["failed"],
            text: format!("the run of tick {} of {schedule} did not start: {why}", tick.id),
            details: json!({"workflow": schedule, "tick": tick.id, "run": run, "status": "not_started", "why": why}),
        },
        DaemonNotification::Broken { file, why } => notifications::NotificationMessage {
            events: vec!["broken"],
            text: format!("{file} has mistakes; its previous version stays in force: {why}"),
            details: json!({"file": file, "why": why}),
        },
    }
}

/// Returns the name of the process's host, without the boot id.
fn host(process: &ProcessId) -> &str {
    process.host.rsplit_once('-').map_or(process.host.as_str(), |(name, _)| name)
}

fn compiler(catalogue: &Arc<Catalogue>, site: Site) -> Box<CompileFn> {
    let catalogue = catalogue.clone();
    Box::new(move |path| workflow::compiled_for_tick(&ShippedFiles, path, (&[], Some(SOME_TICK)), &*catalogue, &site))
}

fn absolute(path: &Path) -> Result<PathBuf> {
    path.canonicalize().map_err(|e| Error::invalid(format!("{}: {e}", path.display())))
}
