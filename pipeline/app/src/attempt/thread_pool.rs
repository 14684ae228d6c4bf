//! Runs the attempts of a host on threads, one for each running attempt.
//!
//! A thread that has finished an attempt takes the next one. Creating a thread takes longer than a small command,
//! mostly for its memory.

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, Scope};

type ThreadJob<'s> = Box<dyn FnOnce() + Send + 's>;

/// Pool of threads. When it is dropped, the threads end after their jobs.
pub struct ThreadPool<'s, 'e> {
    threads: &'s Scope<'s, 'e>,
    jobs: Sender<ThreadJob<'s>>,
    queue: Arc<JobQueue<'s>>,
}

struct JobQueue<'s> {
    jobs: Mutex<Receiver<ThreadJob<'s>>>,
    /// Number of threads without a job. Only [`ThreadPool::submit`] decrements it.
    idle: AtomicUsize,
}

impl<'s, 'e> ThreadPool<'s, 'e> {
    /// Creates an empty pool. Threads are spawned on demand in the scope `threads`.
    pub fn new(threads: &'s Scope<'s, 'e>) -> Self {
        let (jobs, receiver) = channel();
        let queue = Arc::new(JobQueue { jobs: Mutex::new(receiver), idle: AtomicUsize::new(0) });
        Self { threads, jobs, queue }
    }

    /// Runs a job immediately, on an idle thread or on a new one. The job must not panic. Errors: a thread cannot be
    /// created.
    pub fn submit(&self, job: ThreadJob<'s>) -> io::Result<()> {
        if self.queue.idle.load(Ordering::SeqCst) > 0 {
            self.queue.idle.fetch_sub(1, Ordering::SeqCst);
        } else {
            let queue = self.queue.clone();
            Builder::new().spawn_scoped(self.threads, move || queue.run())?;
        }
        self.jobs.send(job).map_err(|_| io::Error::other("the threads ended"))
    }
}

impl JobQueue<'_> {
    fn run(&self) {
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
    use std::sync::Barrier;
    use std::thread::scope;
    use std::time::Duration;

    #[test]
    fn concurrent_jobs_have_threads_that_are_reused() {
        let (done, barrier) = (AtomicUsize::new(0), Barrier::new(4));
        scope(|threads| {
            let pool = ThreadPool::new(threads);
            for _ in 0..2 {
                for _ in 0..3 {
                    let job = || {
                        barrier.wait();
                        done.fetch_add(1, Ordering::SeqCst);
                    };
                    pool.submit(Box::new(job)).unwrap();
                }
                // Each of the three jobs waits for the others: two on one thread would deadlock.
                barrier.wait();
                while pool.queue.idle.load(Ordering::SeqCst) < 3 {
                    std::thread::sleep(Duration::from_millis(1));
                }
            }
            assert_eq!(
                (done.load(Ordering::SeqCst), pool.queue.idle.load(Ordering::SeqCst)),
                (6, 3),
                "six jobs, three threads"
            );
        });
    }
}
