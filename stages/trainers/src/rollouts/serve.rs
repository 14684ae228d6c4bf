//! Serves the requests of a running trainer with rollouts, and follows the trainer, until it ends.

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

/// Starts a trainer whose standard input is connected with the service, follows it, and returns the result of `follow`.
/// The function that `follow` receives fails once the service has failed.
///
/// Errors: those of `start`, of the service and of `follow`.
pub fn serve_trainer<T>(
    service: &mut RolloutService<'_>,
    start: impl FnOnce(Stdio) -> Result<OneShotProgram>,
    follow: impl FnOnce(OneShotProgram, &dyn Fn() -> Result<()>) -> Result<T>,
) -> Result<T> {
    let (stream, trainer_end) = UnixStream::pair().map_err(|e| connection_error(&e))?;
    let shutdown_handle = stream.try_clone().map_err(|e| connection_error(&e))?;
    let trainer = start(Stdio::from(OwnedFd::from(trainer_end)))?;
    let (cancel, failure) = (CancelToken::default(), Mutex::new(None));
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("practice".to_string());
        let served = thread.spawn_scoped(scope, || {
            if let Err(error) = serve(service, stream, &cancel) {
                *failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
                return false;
            }
            true
        });
        let served = served.map_err(|e| Error::retryable(format!("cannot start the rollout thread: {e}")))?;
        let watch = || match failure.lock().unwrap_or_else(PoisonError::into_inner).take() {
            Some(error) => Err(error),
            None => Ok(()),
        };
        let followed = follow(trainer, &watch);
        // The trainer has ended, so operations that still wait for it or for a tool are cancelled.
        cancel.cancel();
        let _ = shutdown_handle.shutdown(Shutdown::Both);
        match served.join() {
            Ok(_) => followed.and_then(|value| watch().map(|()| value)),
            Err(_) => Err(Error::bug("the rollout thread panicked")),
        }
    })
}

fn connection_error(error: &std::io::Error) -> Error {
    Error::retryable(format!("cannot connect the trainer with its rollouts: {error}"))
}

/// Responds to the requests of a trainer until it closes its end.
pub(super) fn serve(service: &mut RolloutService<'_>, stream: UnixStream, cancel: &CancelToken) -> Result<()> {
    let wire = Arc::new(Mutex::new(TrainerConnection::new(stream)));
    let lock = || wire.lock().unwrap_or_else(PoisonError::into_inner);
    loop {
        let Some(message) = lock().receive()? else { return Ok(()) };
        let result =
            match message {
                TrainerMessage::Open {} => lock().send(&service.opened_message()),
                TrainerMessage::Save {} => lock().send(&StageMessage::State(service.state())),
                TrainerMessage::Said(_) => Err(Error::data("the trainer sent `said` without a `say`")
                    .help("respond to each `say` with one `said`")),
                TrainerMessage::Play { step, round, problems, members } => {
                    service.play((step, round), &problems, members, &wire, cancel).and_then(|(episodes, metrics)| {
                        lock().send(&StageMessage::Played { episodes: &episodes, metrics: &metrics })
                    })
                }
            };
        match result {
            Err(_) if lock().is_closed() || cancel.is_cancelled() => return Ok(()),
            result => result?,
        }
    }
}
