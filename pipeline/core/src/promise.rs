//! Delivers a result once; any number of requesters may poll it or wait for it.
//!
//! A channel of the crate `oneshot` transports the result. A channel can be received from only once, so the first
//! requester that receives the result keeps it for the others.

use oneshot::{Receiver, RecvError, RecvTimeoutError, Sender, TryRecvError, channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, TryLockError};
use std::time::Duration;

/// The requester's side. The result stays until all clones are dropped.
pub struct Promise<T>(Arc<PendingResult<T>>);

/// The responding side. If it is dropped without a result, the result is that of [`Promise::new`]'s `dropped`.
pub struct Resolver<T>(Sender<T>);

struct PendingResult<T> {
    result: OnceLock<T>,
    receiver: Mutex<Receiver<T>>,
    dropped: fn() -> T,
}

impl<T> Clone for Promise<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T: Clone> Promise<T> {
    /// Creates both sides. `dropped` returns the result if the resolver is dropped without one.
    pub fn new(dropped: fn() -> T) -> (Self, Resolver<T>) {
        let (sender, receiver) = channel();
        let pending = PendingResult { result: OnceLock::new(), receiver: Mutex::new(receiver), dropped };
        (Self(Arc::new(pending)), Resolver(sender))
    }
    /// Returns the result; `None` if it has not arrived.
    pub fn poll(&self) -> Option<T> {
        if let Some(result) = self.0.result.get() {
            return Some(result.clone());
        }
        let receiver = match self.0.receiver.try_lock() {
            Ok(receiver) => receiver,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            // Another thread waits, and keeps the result before it unlocks.
            Err(TryLockError::WouldBlock) => return self.0.result.get().cloned(),
        };
        match receiver.try_recv() {
            Ok(result) => Some(self.0.keep(result)),
            Err(TryRecvError::Empty) => None,
            Err(TryRecvError::Disconnected) => Some(self.0.keep_dropped()),
        }
    }
    /// Blocks up to `within` for the result; returns `None` if it has not arrived by then. One thread waits at a time:
    /// a second one also waits for the first.
    pub fn wait(&self, within: Duration) -> Option<T> {
        if let Some(result) = self.0.result.get() {
            return Some(result.clone());
        }
        let receiver = self.0.receiver.lock().unwrap_or_else(PoisonError::into_inner);
        match receiver.recv_timeout(within) {
            Ok(result) => Some(self.0.keep(result)),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => Some(self.0.keep_dropped()),
        }
    }
    /// Blocks until the result arrives, and returns it.
    pub fn answer(self) -> T {
        if let Some(result) = self.0.result.get() {
            return result.clone();
        }
        let receiver = self.0.receiver.lock().unwrap_or_else(PoisonError::into_inner);
        match receiver.recv_ref() {
            Ok(result) => self.0.keep(result),
            Err(RecvError) => self.0.keep_dropped(),
        }
    }
}

impl<T: Clone> PendingResult<T> {
    /// Keeps the received result. Called with the receiver locked.
    fn keep(&self, result: T) -> T {
        self.result.get_or_init(|| result).clone()
    }
    /// Returns the kept result, or else that of a dropped resolver. A received message disconnects the channel too.
    fn keep_dropped(&self) -> T {
        self.result.get_or_init(self.dropped).clone()
    }
}

impl<T> Resolver<T> {
    /// Sets the result and wakes the waiting thread. Without a requester, the result is dropped.
    pub fn resolve(self, result: T) {
        // The error returns the result to us.
        let _ = self.0.send(result);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    fn promise() -> (Promise<String>, Resolver<String>) {
        Promise::new(|| "dropped".to_string())
    }

    #[test]
    fn result_is_available_to_all_requesters() {
        let (promise, resolver) = promise();
        let other = promise.clone();
        assert_eq!((promise.poll(), promise.wait(Duration::ZERO)), (None, None));
        resolver.resolve("x".to_string());
        assert_eq!(promise.poll().as_deref(), Some("x"));
        assert_eq!(other.wait(LONG).as_deref(), Some("x"));
        assert_eq!(promise.poll().as_deref(), Some("x"));
        assert_eq!(other.answer(), "x");
    }

    #[test]
    fn threads_wait_for_a_result_and_for_a_dropped_resolver() {
        for (result, expected) in [(Some("x"), "x"), (None, "dropped")] {
            let (promise, resolver) = promise();
            let threads = [promise.clone(), promise.clone()].map(|p| std::thread::spawn(move || p.wait(LONG)));
            match result {
                Some(text) => resolver.resolve(text.to_string()),
                None => drop(resolver),
            }
            for thread in threads {
                assert_eq!(thread.join().unwrap().as_deref(), Some(expected));
            }
            assert_eq!(promise.poll().as_deref(), Some(expected));
            assert_eq!(promise.answer(), expected);
        }
    }

    #[test]
    fn a_result_without_a_requester_is_dropped() {
        let (promise, resolver) = promise();
        drop(promise);
        resolver.resolve("x".to_string());
    }
}
