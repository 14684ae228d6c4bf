//! Implements `trainyard top [RUN]`, which shows runs on the full screen of a terminal.

use crate::args::{SiteArgs, TopArgs};
use crate::exit::CliExit;
use crate::output::style::Style;
use crate::session::{self, Access, AppSession};
use crate::top::reader::Reader;
use crate::top::state::{TopAction, TopEvent, TopState};
use crate::top::terminal::{self, Connection};
use crate::top::{ReadRequest, Theme};
use std::io::IsTerminal as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use tokio::runtime::Handle;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::Notify;
use trainyard_app::{Catalogue, wiring};
use trainyard_core::{Error, Result, RunId, SystemClock};
use trainyard_runtime::cancel::{CancelOutcome, cancel_run};
use trainyard_views::find;

/// Opens the screens. Errors: invalid (stdout is not a terminal, or no such run), those of the store.
pub fn run(args: &TopArgs, catalogue: &Arc<Catalogue>) -> Result<CliExit> {
    if !std::io::stdout().is_terminal() {
        return Err(Error::invalid("stdout is not a terminal, so `trainyard top` cannot draw on it")
            .help("`trainyard runs show --watch RUN` prints a run to a pipe, and `trainyard runs list` the list"));
    }
    let session = session::open(&args.site, Access::Read, catalogue)?;
    let run = match &args.run {
        Some(name) => Some(session.block_on(find::run(&session.store, name))?),
        None => None,
    };
    show(&session, TopState::new(run), &args.site, catalogue)
}

fn show(session: &AppSession, mut state: TopState, site: &SiteArgs, catalogue: &Arc<Catalogue>) -> Result<CliExit> {
    let theme = Theme { has_colors: Style::of_stdout().is_on() };
    let (clock, handle, quit) = (SystemClock::new(), session.handle(), Notify::new());
    let stop = stop_on_signals(&handle);
    let (send_event, events) = channel();
    let (requests, receive_request) = channel::<ReadRequest>();
    let (send_note, notes) = channel();
    std::thread::scope(|scope| {
        let reader = Reader::new(&session.store, &clock);
        let (handle, quit) = (&handle, &quit);
        let reading = scope.spawn(move || reader.run(handle, &receive_request, &send_event, quit));
        let connection = Connection { events: &events, notes: &notes, requests: &requests, stop: &stop };
        let exit = terminal::show(&mut state, theme, &connection, |action| match action {
            TopAction::Cancel(run) => cancel(run, site.clone(), catalogue.clone(), send_note.clone()),
            TopAction::Quit => {}
        });
        quit.notify_one();
        drop(requests);
        // A panic of the reader was printed already, and ended the screens.
        let _ = reading.join();
        exit
    })
}

/// Returns a flag that signals set which ask the process to end.
fn stop_on_signals(handle: &Handle) -> Arc<AtomicBool> {
    let stop = Arc::new(AtomicBool::new(false));
    let flag = stop.clone();
    handle.spawn(async move {
        let kinds = [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()];
        let [Ok(mut interrupt), Ok(mut terminate), Ok(mut hangup)] = kinds.map(signal) else { return };
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            _ = hangup.recv() => {}
        }
        flag.store(true, Ordering::Relaxed);
    });
    stop
}

/// Cancels a run in a separate thread, because the store is opened again for writing, and the writer of a run on
/// another host is watched for up to 30 s.
fn cancel(run: RunId, site: SiteArgs, catalogue: Arc<Catalogue>, notes: Sender<TopEvent>) {
    std::thread::spawn(move || {
        // Notes after the end of the screens are lost.
        let note = |text: String| drop(notes.send(TopEvent::Note(text)));
        let outcome = session::open_quietly(&site, Access::Write, &catalogue).and_then(|session| {
            let clock = SystemClock::new();
            let chance = wiring::chance(&clock);
            session.block_on(cancel_run(&session.store, &run, &clock, &chance, |text| note(text.to_string())))
        });
        note(match outcome {
            Ok(CancelOutcome::Requested) => format!("requested run {run} to stop; it stops within seconds"),
            Ok(CancelOutcome::Ended) => format!("run {run} had no live writer; it is cancelled now"),
            Ok(CancelOutcome::AlreadyFinished) => format!("run {run} has already finished"),
            Err(error) => format!("cannot cancel run {run}: {error}"),
        });
    });
}
