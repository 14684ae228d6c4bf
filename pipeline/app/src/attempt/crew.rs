//! The threads of a host, one for each attempt under way.
//!
//! A thread that is done with one attempt takes the next: a new one costs more than a small command, most of it in
//! fresh memory.

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, Scope};

type Job<'s> = Box<dyn FnOnce() + Send + 's>;

/// Threads that end with it, once they are done.
pub struct Crew<'s, 'e> {
    threads: &'s Scope<'s, 'e>,
    jobs: Sender<Job<'s>>,
    waiting: Arc<Waiting<'s>>,
}

struct Waiting<'s> {
    jobs: Mutex<Receiver<Job<'s>>>,
    /// Threads that no job was given to. Only [`Crew::give`] takes from it.
    idle: AtomicUsize,
}

impl<'s, 'e> Crew<'s, 'e> {
    /// No thread at first.
    pub fn new(threads: &'s Scope<'s, 'e>) -> Self {
        let (jobs, receiver) = channel();
        let waiting = Arc::new(Waiting { jobs: Mutex::new(receiver), idle: AtomicUsize::new(0) });
        Self { threads, jobs, waiting }
    }

    /// Does a job at once, on a thread that is idle or else on a new one. The job must not panic. Errors: no thread could be made.
    pub fn give(&self, job: Job<'s>) -> io::Result<()> {
        if self.waiting.idle.load(Ordering::SeqCst) > 0 {
            self.waiting.idle.fetch_sub(1, Ordering::SeqCst);
        } else {
            let waiting = self.waiting.clone();
            Builder::new().spawn_scoped(self.threads, move || waiting.work())?;
        }
        self.jobs.send(job).map_err(|_| io::Error::other("the threads ended"))
    }
}

impl Waiting<'_> {
    fn work(&self) {
        loop {
            let next = self.jobs.lock().unwrap_or_else(PoisonError::into_inner).recv();
            let Ok(job) = next else { return };
            job();
            self.idle.fetch_add(1, Ordering::SeqCst);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;
    use std::sync::Barrier;
    use std::thread::{ThreadId, current, scope};
    use std::time::Duration;

    #[test]
    fn jobs_at_one_time_have_a_thread_each_and_later_ones_take_them_over() {
        let (used, barrier) = (Mutex::new(Vec::<ThreadId>::new()), Barrier::new(4));
        scope(|threads| {
            let crew = Crew::new(threads);
            let all_at_once = || {
                for _ in 0..3 {
                    let job = || {
                        used.lock().unwrap().push(current().id());
                        barrier.wait();
                    };
                    crew.give(Box::new(job)).unwrap();
                }
                // Each of the three waits for the others: they would wait for ever if two shared a thread.
                barrier.wait();
            };
            all_at_once();
            while crew.waiting.idle.load(Ordering::SeqCst) < 3 {
                std::thread::sleep(Duration::from_millis(1));
            }
            all_at_once();
        });
        let used = used.into_inner().unwrap();
        assert_eq!((used.len(), used.iter().collect::<HashSet<_>>().len()), (6, 3));
    }
}
