//! Returns panics as error texts: of libraries that panic on damaged input, and of stages.

use std::any::Any;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::{Mutex, Once, PoisonError};

/// Names of the thread pools of the quiet calls that run, each once per call.
static QUIET_POOLS: Mutex<Vec<&str>> = Mutex::new(Vec::new());

thread_local! {
    /// Number of quiet calls in which this thread is.
    static QUIET_CALLS: Cell<u32> = const { Cell::new(0) };
}

/// Calls a function. Errors: the message of its panic, which the panic hook has reported.
///
/// What the function changed may be incomplete after a panic, so the caller uses it no more.
#[expect(clippy::disallowed_methods, reason = "the only place that catches panics")]
pub fn catch<T>(call: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(call)).map_err(|panic| message(&*panic))
}

/// Like [`catch`], for a function of a library that panics on some inputs: nothing is printed, since the returned
/// message belongs to the error of the input. Panics of other threads are reported, even if this call waits for them.
///
/// The first call wraps the panic hook of the process; a hook that is set later has to be quiet by itself.
pub fn catch_quietly<T>(call: impl FnOnce() -> T) -> Result<T, String> {
    let _guard = QuietGuard::begin();
    catch(call)
}

/// Like [`catch_quietly`], for a function whose library computes on a thread pool: panics of threads with the names
/// `POOL-…` are silent, too, while it runs.
pub fn catch_quietly_with_pool<T>(pool: &'static str, call: impl FnOnce() -> T) -> Result<T, String> {
    let _pool = PoolGuard::begin(pool);
    catch_quietly(call)
}

/// Returns the message of a panic.
fn message(panic: &(dyn Any + Send)) -> String {
    let text =
        panic.downcast_ref::<&str>().map(ToString::to_string).or_else(|| panic.downcast_ref::<String>().cloned());
    text.unwrap_or_else(|| "no message".to_string())
}

/// Keeps the panic hook silent for panics of this thread.
struct QuietGuard;

impl QuietGuard {
    fn begin() -> Self {
        static INSTALLED: Once = Once::new();
        INSTALLED.call_once(|| {
            let report = take_hook();
            set_hook(Box::new(move |panic| {
                // A thread that ends has no counter any more, and is in no quiet call.
                if QUIET_CALLS.try_with(Cell::get).unwrap_or(0) == 0 && !is_of_quiet_pool() {
                    report(panic);
                }
            }));
        });
        QUIET_CALLS.with(|calls| calls.set(calls.get() + 1));
        Self
    }
}

impl Drop for QuietGuard {
    fn drop(&mut self) {
        QUIET_CALLS.with(|calls| calls.set(calls.get() - 1));
    }
}

/// Keeps the panic hook silent for panics of the threads of a pool.
struct PoolGuard {
    pool: &'static str,
}

impl PoolGuard {
    fn begin(pool: &'static str) -> Self {
        QUIET_POOLS.lock().unwrap_or_else(PoisonError::into_inner).push(pool);
        Self { pool }
    }
}

impl Drop for PoolGuard {
    fn drop(&mut self) {
        let mut pools = QUIET_POOLS.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(at) = pools.iter().position(|pool| *pool == self.pool) {
            pools.swap_remove(at);
        }
    }
}

/// Returns whether this thread is one of a pool of a quiet call.
#[expect(clippy::disallowed_methods, reason = "only what a panic prints depends on the thread")]
fn is_of_quiet_pool() -> bool {
    let thread = std::thread::current();
    let Some(name) = thread.name() else { return false };
    let pools = QUIET_POOLS.lock().unwrap_or_else(PoisonError::into_inner);
    pools.iter().any(|pool| name.strip_prefix(pool).is_some_and(|rest| rest.starts_with('-')))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::panic_any;
    use std::sync::{Arc, Mutex};

    #[test]
    fn only_threads_in_quiet_calls_are_silent() {
        // The hook is that of the process, so one test has all cases; other tests may add their panics.
        let reported = Arc::new(Mutex::new(Vec::new()));
        let (report, add) = (take_hook(), Arc::clone(&reported));
        set_hook(Box::new(move |panic| {
            add.lock().unwrap().push(panic.payload_as_str().unwrap_or_default().to_string());
            report(panic);
        }));
        let is_reported = |text: &str| reported.lock().unwrap().iter().any(|found| found == text);

        assert_eq!(catch_quietly(|| 7), Ok(7));
        assert_eq!(catch_quietly(|| -> u8 { panic!("first {}", 1) }), Err("first 1".to_string()));
        assert!(!is_reported("first 1"));
        assert_eq!(catch(|| -> u8 { panic!("second") }), Err("second".to_string()));
        assert!(is_reported("second"), "the call before it is over");

        let nested = catch_quietly(|| {
            let inner = catch_quietly(|| -> u8 { panic!("third") });
            (inner, catch(|| -> u8 { panic!("fourth") }))
        });
        assert_eq!(nested, Ok((Err("third".to_string()), Err("fourth".to_string()))));
        assert!(!is_reported("third") && !is_reported("fourth"), "the outer call is still quiet");

        let other = catch_quietly(|| std::thread::spawn(|| panic!("fifth")).join().is_err());
        assert_eq!(other, Ok(true));
        assert!(is_reported("fifth"), "a thread that is not in a quiet call");
        assert_eq!(catch_quietly(|| -> u8 { panic_any(5) }), Err("no message".to_string()));

        let panics_in = |name: &str, text: &'static str| {
            let thread = std::thread::Builder::new().name(name.to_string());
            thread.spawn(move || panic!("{text}")).unwrap().join().is_err()
        };
        let pool = |name: &str, text| catch_quietly_with_pool("pool", || panics_in(name, text));
        assert_eq!([pool("pool-0", "sixth"), pool("pools-0", "seventh")], [Ok(true), Ok(true)]);
        assert!(!is_reported("sixth") && is_reported("seventh"), "threads of the pool alone");
        assert!(panics_in("pool-0", "eighth") && is_reported("eighth"), "no quiet call runs");
    }
}
