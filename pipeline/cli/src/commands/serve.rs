//! Implements `trainyard serve`, the daemon that starts scheduled runs and serves the HTTP API and the pages.

use super::page_catalogue;
use crate::args::{OnStop, ServeArgs};
use crate::exit::CliExit;
use crate::logging;
use crate::output::human::print_note;
use crate::pages::queries;
use crate::session::{self, Access, AppSession};
use crate::shipped::ShippedFiles;
use serde_json::json;
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;
use trainyard_app::session::home;
use trainyard_app::{Catalogue, notifications, wiring, workflow};
use trainyard_core::{Chance, Clock, Error, Result, SystemClock};
use trainyard_daemon::api::tokens::{ApiTokens, Role};
use trainyard_daemon::api::{self, ApiState};
use trainyard_daemon::control::{CompileWithParamsFn, DaemonControl};
use trainyard_daemon::daemon::{Daemon, DaemonShared};
use trainyard_daemon::effects::DaemonNotification;
use trainyard_daemon::folder::{CompileFn, WorkflowFolder};
use trainyard_daemon::processes::{RunProcesses, StartedProcesses};
use trainyard_daemon::schedule::event::SkipReason;
use trainyard_http_server::{TokenFile, raise_descriptor_limit, random_token};
use trainyard_pages::{LazyCatalogue, PageAccess, PageAddress, PageState};
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
    let descriptors = raise_descriptor_limit();
    let session = session::open(&args.site, Access::Run, catalogue)?;
    let tokens = args.token_file.as_deref().map(ApiTokens::read).transpose()?.unwrap_or_default();
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let chance = wiring::chance(clock.as_ref()).child("serve", &[clock.monotonic().as_nanos() as u64]);
    let started = Arc::new(StartedProcesses::default());
    let shared = Arc::new(DaemonShared::default());
    let folder = WorkflowFolder::new(&args.workflows)?;
    let processes = Arc::new(processes(args, &session, &folder, (clock.clone(), chance), &started)?);
    let daemon = daemon(&session, catalogue, folder, (clock.clone(), chance), (processes.clone(), &shared));
    let compile = compiler_with_params(catalogue, session.site.clone());
    let page_catalogue = page_catalogue::lazy(catalogue, &session.site);
    // API clients wait for the response, so their requests do not wait during an outage.
    let store = session.store.with_outage(Duration::ZERO);
    let version = env!("CARGO_PKG_VERSION");
    session.block_on(async {
        let interrupt = Interrupt::default();
        interrupt.on_signals()?;
        let listener = api::bind(args.bind, &tokens).await?;
        let address = listener.local_addr().unwrap_or(args.bind);
        let needs_none = args.no_token || args.token_file.is_some();
        let file = (!needs_none).then(|| token_file("serve", address.port())).transpose()?;
        let tokens = file.as_ref().map_or(tokens, |file| ApiTokens::of_operator("local", file.token()));
        let changes = AtomicU64::new(0);
        let api = Arc::new(ApiState { store, clock, chance, daemon: shared, tokens, version, changes });
        let (folder, home) = (daemon.folder.path().to_path_buf(), daemon.home.clone());
        print_note(&format!("serving {} from {} on http://{address}", folder.display(), session.store.url()));
        let control = DaemonControl { api: api.clone(), folder, home, compile, resumer: processes };
        let pages = pages_of_daemon(control, (address, args.public_url.as_deref()), page_catalogue)?;
        print_note(&format!("pages: {}", opened(&pages.address, file.as_ref())));
        let router = trainyard_pages::router(Arc::new(pages)).merge(api::router(api));
        if let Some(file) = &file {
            print_note(&format!("requests need the token in {}", file.path().display()));
        }
        let stopped = interrupt.clone();
        let server = async {
            api::serve(listener, router, descriptors, interrupt.clone()).await;
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

fn processes(
    args: &ServeArgs,
    session: &AppSession,
    folder: &WorkflowFolder,
    (clock, chance): (Arc<dyn Clock>, Chance),
    started: &Arc<StartedProcesses>,
) -> Result<RunProcesses> {
    Ok(RunProcesses {
        program: wiring::program()?,
        site: args.site.site.as_deref().map(absolute).transpose()?,
        folder: folder.path().to_path_buf(),
        scratch: home().join("serve"),
        environment: logging::environment(),
        store: session.store.clone(),
        clock,
        chance,
        handle: session.handle(),
        notify: notifier(session),
        started: started.clone(),
    })
}

fn daemon(
    session: &AppSession,
    catalogue: &Arc<Catalogue>,
    folder: WorkflowFolder,
    (clock, chance): (Arc<dyn Clock>, Chance),
    (processes, shared): (Arc<RunProcesses>, &Arc<DaemonShared>),
) -> Daemon {
    let process = ProcessId::own();
    let nonce = chance.at("daemon", &[]).next_u32();
    Daemon {
        // Longer waits would delay the stop of the daemon and the detection of missed ticks.
        store: session.store.with_outage(OUTAGE),
        clock,
        chance,
        home: format!("{}:{}", host(&process), folder.path().display()),
        name: format!("{process}:{nonce:08x}"),
        effects: processes,
        compile: compiler(catalogue, session.site.clone()),
        folder,
        shared: shared.clone(),
        changes: VecDeque::new(),
    }
}

/// Returns the pages for the holders of the API's tokens, or for all users of this machine without tokens.
fn pages_of_daemon(
    control: DaemonControl,
    (address, public_url): (SocketAddr, Option<&str>),
    catalogue: LazyCatalogue,
) -> Result<PageState> {
    let api = control.api.clone();
    let access = if api.tokens.is_empty() {
        PageAccess::Open { secret: random_token()?.reveal().to_string(), may_change: true }
    } else {
        let tokens = api.tokens.clone();
        let find =
            move |token: &str| tokens.holder(token).map(|(role, name)| (name.to_string(), role == Role::Operator));
        PageAccess::Token(Box::new(find))
    };
    Ok(PageState {
        store: api.store.clone(),
        clock: api.clock.clone(),
        access,
        address: PageAddress::new(address, public_url)?,
        version: api.version,
        queries: queries::of(&api.store),
        daemon: Some(Arc::new(control)),
        catalogue,
    })
}

/// Returns the address to open, with the token of the file if the daemon has drawn one.
fn opened(address: &PageAddress, file: Option<&TokenFile>) -> String {
    let query = file.map(|file| format!("?token={}", file.token().reveal())).unwrap_or_default();
    format!("{}/{query}", address.url())
}

/// Returns a function that sends the daemon's notifications without waiting for their delivery. Failed deliveries are
/// logged.
fn notifier(session: &AppSession) -> Box<dyn Fn(DaemonNotification) + Send + Sync> {
    let (site, handle) = (Arc::new(session.site.clone()), session.handle());
    Box::new(move |notification| {
        let (site, message) = (site.clone(), notification_message(notification));
        handle.spawn(async move {
            for error in notifications::send(&site, &message).await {
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

/// Draws a token for a server on this machine, and writes it where its user finds it.
pub fn token_file(server: &str, port: u16) -> Result<TokenFile> {
    TokenFile::create(home().join("tokens").join(format!("{server}-{port}")))
}

/// Returns the name of the process's host, without the boot id.
fn host(process: &ProcessId) -> &str {
    process.host.rsplit_once('-').map_or(process.host.as_str(), |(name, _)| name)
}

fn compiler(catalogue: &Arc<Catalogue>, site: Site) -> Box<CompileFn> {
    let catalogue = catalogue.clone();
    Box::new(move |path| workflow::compiled_for_tick(&ShippedFiles, path, (&[], Some(SOME_TICK)), &*catalogue, &site))
}

/// Returns the compiler of files with params, for a run that is requested without a tick.
fn compiler_with_params(catalogue: &Arc<Catalogue>, site: Site) -> Box<CompileWithParamsFn> {
    let catalogue = catalogue.clone();
    Box::new(move |path, params| {
        workflow::compiled_for_tick(&ShippedFiles, path, (params, Some(SOME_TICK)), &*catalogue, &site)
    })
}

fn absolute(path: &Path) -> Result<PathBuf> {
    path.canonicalize().map_err(|e| Error::invalid(format!("{}: {e}", path.display())))
}
