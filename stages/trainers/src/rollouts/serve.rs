//! A running trainer with practice: the trainer is followed and the practice served until the trainer ends.

use super::play::RolloutService;
use super::wire::{StageMessage, TrainerConnection, TrainerMessage};
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use trainyard_api::CancelToken;
use trainyard_core::{Error, Result};
use trainyard_process::OneShotProgram;

/// Starts a trainer whose standard input is connected with the practice, and follows it. The function that `follow`
/// gets fails once the practice has failed.
///
/// Errors: those of `start`, of the practice, of `follow`.
pub fn serve_trainer<T>(
    practice: &mut RolloutService<'_>,
    start: impl FnOnce(Stdio) -> Result<OneShotProgram>,
    follow: impl FnOnce(OneShotProgram, &dyn Fn() -> Result<()>) -> Result<T>,
) -> Result<T> {
    let (own, theirs) = UnixStream::pair().map_err(|e| unconnected(&e))?;
    let ours = own.try_clone().map_err(|e| unconnected(&e))?;
    let trainer = start(Stdio::from(OwnedFd::from(theirs)))?;
    let (over, failure) = (CancelToken::default(), Mutex::new(None));
    std::thread::scope(|scope| {
        let server = std::thread::Builder::new().name("practice".to_string());
        let served = server.spawn_scoped(scope, || {
            if let Err(error) = serve(practice, own, &over) {
                *failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
                return false;
            }
            true
        });
        let served = served.map_err(|e| Error::retryable(format!("cannot practice: {e}")))?;
        let watch = || match failure.lock().unwrap_or_else(PoisonError::into_inner).take() {
            Some(error) => Err(error),
            None => Ok(()),
        };
        let followed = follow(trainer, &watch);
        // Operations that still wait for the trainer or for a tool have no recipient any more.
        over.cancel();
        let _ = ours.shutdown(Shutdown::Both);
        match served.join() {
            Ok(_) => followed.and_then(|value| watch().map(|()| value)),
            Err(_) => Err(Error::bug("the thread that practices has panicked")),
        }
    })
}

fn unconnected(error: &std::io::Error) -> Error {
    Error::retryable(format!("cannot connect a trainer with its practice: {error}"))
}

/// Responds to a trainer until it closes its end.
pub(super) fn serve(practice: &mut RolloutService<'_>, stream: UnixStream, over: &CancelToken) -> Result<()> {
    let wire = Arc::new(Mutex::new(TrainerConnection::new(stream)));
    let lock = || wire.lock().unwrap_or_else(PoisonError::into_inner);
    loop {
        let Some(asked) = lock().receive()? else { return Ok(()) };
        let answered = match asked {
            TrainerMessage::Open {} => lock().send(&practice.opened_message()),
            TrainerMessage::Save {} => lock().send(&StageMessage::State(practice.state())),
            TrainerMessage::Said(_) => Err(Error::data("the trainer says turns that it was not asked for")
                .help("answer one `say` with one `said`")),
            TrainerMessage::Play { step, round, problems, members } => {
                practice.play((step, round), &problems, members, &wire, over).and_then(|(episodes, metrics)| {
                    lock().send(&StageMessage::Played { episodes: &episodes, metrics: &metrics })
                })
            }
        };
        match answered {
            Err(_) if lock().is_closed() || over.is_cancelled() => return Ok(()),
            answered => answered?,
        }
    }
}
