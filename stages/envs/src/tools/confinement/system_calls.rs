//! Restricts the system calls of a confined program, by seccomp. All calls that are not listed fail with `EPERM`.
//!
//! The lists omit on purpose: starting processes *and threads* (neither could be counted for a superuser), sockets,
//! signals to other processes, tracing, memory files, io_uring, timers, changing owners, modes or times, links and
//! folders, `fallocate` (gigabytes between two looks at the files), and truncation by name, which early Landlock
//! permits. A process that only computes can also open no file. An interpreter needs `execve` once, to become one;
//! Landlock permits no other program.

use libc::c_long;
use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule,
};
use std::collections::BTreeMap;
use std::process::id;

type SeccompResult<T> = Result<T, BackendError>;

/// System calls of a confined process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SystemCalls {
    /// Memory, time, waiting, and files that are open.
    Computing,
    /// The same, with files by name and what else CPython uses.
    Interpreter,
}

/// System calls that are allowed with any arguments.
#[rustfmt::skip]
const COMPUTING: &[c_long] = &[
    // Memory.
    libc::SYS_brk, libc::SYS_madvise, libc::SYS_mincore, libc::SYS_mmap, libc::SYS_mprotect, libc::SYS_mremap,
    libc::SYS_msync, libc::SYS_munmap, libc::SYS_membarrier, libc::SYS_get_mempolicy,
    // Open files.
    libc::SYS_close, libc::SYS_close_range, libc::SYS_fstat, libc::SYS_lseek, libc::SYS_read, libc::SYS_readv,
    libc::SYS_write, libc::SYS_writev,
    // Waiting.
    libc::SYS_clock_nanosleep, libc::SYS_futex, libc::SYS_nanosleep, libc::SYS_ppoll, libc::SYS_sched_yield,
    // Time and random numbers.
    libc::SYS_clock_getres, libc::SYS_clock_gettime, libc::SYS_getrandom, libc::SYS_gettimeofday, libc::SYS_times,
    // This process.
    libc::SYS_exit, libc::SYS_exit_group, libc::SYS_getcpu, libc::SYS_getegid, libc::SYS_geteuid,
    libc::SYS_getgid, libc::SYS_getgroups, libc::SYS_getpgid, libc::SYS_getpid, libc::SYS_getppid,
    libc::SYS_getpriority, libc::SYS_getresgid, libc::SYS_getresuid, libc::SYS_getrlimit, libc::SYS_getrusage,
    libc::SYS_getsid, libc::SYS_gettid, libc::SYS_getuid, libc::SYS_restart_syscall, libc::SYS_rseq,
    libc::SYS_rt_sigaction, libc::SYS_rt_sigpending, libc::SYS_rt_sigprocmask, libc::SYS_rt_sigreturn,
    libc::SYS_rt_sigsuspend, libc::SYS_sched_getaffinity, libc::SYS_sched_getparam, libc::SYS_sched_getscheduler,
    libc::SYS_set_robust_list, libc::SYS_set_tid_address, libc::SYS_sigaltstack, libc::SYS_sysinfo, libc::SYS_uname,
];

/// Further system calls of an interpreter that are allowed with any arguments.
#[rustfmt::skip]
const INTERPRETER: &[c_long] = &[
    // Open files.
    libc::SYS_copy_file_range, libc::SYS_dup, libc::SYS_dup3, libc::SYS_fdatasync, libc::SYS_flock, libc::SYS_fsync,
    libc::SYS_ftruncate, libc::SYS_pread64, libc::SYS_preadv, libc::SYS_preadv2, libc::SYS_pwrite64,
    libc::SYS_pwritev, libc::SYS_pwritev2, libc::SYS_sendfile, libc::SYS_fadvise64,
    // Names of files.
    libc::SYS_chdir, libc::SYS_faccessat, libc::SYS_faccessat2, libc::SYS_fchdir, libc::SYS_fstatfs,
    libc::SYS_getcwd, libc::SYS_getdents64, libc::SYS_newfstatat, libc::SYS_readlinkat, libc::SYS_renameat,
    libc::SYS_renameat2, libc::SYS_statfs, libc::SYS_statx, libc::SYS_umask, libc::SYS_unlinkat,
    // Waiting.
    libc::SYS_epoll_create1, libc::SYS_epoll_ctl, libc::SYS_epoll_pwait, libc::SYS_epoll_pwait2, libc::SYS_eventfd2,
    libc::SYS_pipe2, libc::SYS_pselect6,
    // The two ends of an anonymous pair of sockets, as asyncio has one.
    libc::SYS_getpeername, libc::SYS_getsockname, libc::SYS_getsockopt, libc::SYS_recvfrom, libc::SYS_shutdown,
    // The start.
    libc::SYS_execve,
];

/// Older forms that exist only on this processor.
#[cfg(target_arch = "x86_64")]
const COMPUTING_HERE: &[c_long] =
    &[libc::SYS_arch_prctl, libc::SYS_getpgrp, libc::SYS_pause, libc::SYS_poll, libc::SYS_time];
#[cfg(target_arch = "x86_64")]
#[rustfmt::skip]
const INTERPRETER_HERE: &[c_long] = &[
    libc::SYS_access, libc::SYS_creat, libc::SYS_dup2, libc::SYS_epoll_create, libc::SYS_epoll_wait,
    libc::SYS_eventfd, libc::SYS_getdents, libc::SYS_lstat, libc::SYS_pipe, libc::SYS_readlink, libc::SYS_rename,
    libc::SYS_select, libc::SYS_stat, libc::SYS_unlink,
];
#[cfg(not(target_arch = "x86_64"))]
const COMPUTING_HERE: &[c_long] = &[];
#[cfg(not(target_arch = "x86_64"))]
const INTERPRETER_HERE: &[c_long] = &[];

const IOCTL: [u64; 6] = [libc::TCGETS, libc::TIOCGWINSZ, libc::FIONREAD, libc::FIONBIO, libc::FIOCLEX, libc::FIONCLEX];
/// Commands of `fcntl`, without those that name a process to be signaled (`F_SETOWN`, `F_SETSIG`, `F_NOTIFY`).
const FCNTL: [i32; 8] = [
    libc::F_DUPFD,
    libc::F_DUPFD_CLOEXEC,
    libc::F_GETFD,
    libc::F_GETFL,
    libc::F_GETLK,
    libc::F_SETFD,
    libc::F_SETFL,
    libc::F_SETLK,
];
const PRCTL: [i32; 3] = [libc::PR_GET_NAME, libc::PR_SET_NAME, libc::PR_SET_VMA];

impl SystemCalls {
    /// Restricts this thread permanently to these system calls.
    pub fn restrict_thread(self) -> Result<(), String> {
        let filter = self.filter().map_err(|e| format!("seccomp: {e}"))?;
        seccompiler::apply_filter(&filter).map_err(|e| format!("seccomp: {e}"))
    }
    /// Restricts all threads of this process permanently to these system calls.
    pub fn restrict_process(self) -> Result<(), String> {
        let filter = self.filter().map_err(|e| format!("seccomp: {e}"))?;
        seccompiler::apply_filter_all_threads(&filter).map_err(|e| format!("seccomp: {e}"))
    }
    fn filter(self) -> SeccompResult<BpfProgram> {
        let mut rules: BTreeMap<c_long, Vec<SeccompRule>> =
            self.unconditional().into_iter().map(|call| (call, Vec::new())).collect();
        for (call, alternatives) in self.conditional()? {
            let alternatives = alternatives.into_iter().map(SeccompRule::new).collect::<SeccompResult<Vec<_>>>()?;
            rules.insert(call, alternatives);
        }
        let denied = SeccompAction::Errno(libc::EPERM as u32);
        SeccompFilter::new(rules, denied, SeccompAction::Allow, std::env::consts::ARCH.try_into()?)?.try_into()
    }
    fn unconditional(self) -> Vec<c_long> {
        let computing = [COMPUTING, COMPUTING_HERE].concat();
        match self {
            Self::Computing => computing,
            Self::Interpreter => [computing.as_slice(), INTERPRETER, INTERPRETER_HERE].concat(),
        }
    }
    fn conditional(self) -> SeccompResult<Vec<(c_long, Alternatives)>> {
        let mut calls = computing_conditional()?;
        if self == Self::Interpreter {
            calls.extend(interpreter_conditional()?);
            calls.extend(interpreter_conditional_here()?);
        }
        Ok(calls)
    }
}

/// Alternatives, each of which is a list of conditions that must all hold.
type Alternatives = Vec<Vec<SeccompCondition>>;

/// Returns the system calls that are allowed only with some arguments.
fn computing_conditional() -> SeccompResult<Vec<(c_long, Alternatives)>> {
    let process = u64::from(id());
    Ok(vec![
        (libc::SYS_kill, one_of(0, [process])?),
        (libc::SYS_prctl, one_of(0, PRCTL.map(|option| option as u64))?),
        // Only queries are allowed, not new limits.
        (libc::SYS_prlimit64, vec![vec![null(2)?]]),
        (libc::SYS_tgkill, one_of(0, [process])?),
    ])
}

/// Returns the further system calls that an interpreter may use only with some arguments.
fn interpreter_conditional() -> SeccompResult<Vec<(c_long, Alternatives)>> {
    let plain = !(libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK) as u32;
    let stream = vec![equal(0, libc::AF_UNIX as u64)?, masked(1, plain, libc::SOCK_STREAM as u32)?];
    Ok(vec![
        (libc::SYS_fcntl, one_of(1, FCNTL.map(|command| command as u64))?),
        (libc::SYS_ioctl, one_of(1, IOCTL)?),
        (libc::SYS_openat, opening(2)?),
        // Only messages without an address are allowed.
        (libc::SYS_sendto, vec![vec![null(4)?]]),
        (libc::SYS_socketpair, vec![stream]),
    ])
}

/// Returns the conditional calls of an interpreter that exist only on this processor.
#[cfg(target_arch = "x86_64")]
fn interpreter_conditional_here() -> SeccompResult<Vec<(c_long, Alternatives)>> {
    Ok(vec![(libc::SYS_open, opening(1)?)])
}
#[cfg(not(target_arch = "x86_64"))]
fn interpreter_conditional_here() -> SeccompResult<Vec<(c_long, Alternatives)>> {
    Ok(Vec::new())
}

/// Returns the flags with which a file may be opened: `O_TRUNC` only for writing, because Landlock before its third
/// version permits truncation of a read-only file.
fn opening(argument: u8) -> SeccompResult<Alternatives> {
    let mode = libc::O_ACCMODE as u32;
    Ok(vec![
        vec![masked(argument, libc::O_TRUNC as u32, 0)?],
        vec![masked(argument, mode, libc::O_WRONLY as u32)?],
        vec![masked(argument, mode, libc::O_RDWR as u32)?],
    ])
}

fn one_of<const N: usize>(argument: u8, values: [u64; N]) -> SeccompResult<Alternatives> {
    values.into_iter().map(|value| Ok(vec![equal(argument, value)?])).collect()
}

fn equal(argument: u8, value: u64) -> SeccompResult<SeccompCondition> {
    SeccompCondition::new(argument, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, value)
}

fn masked(argument: u8, mask: u32, value: u32) -> SeccompResult<SeccompCondition> {
    let bits = SeccompCmpOp::MaskedEq(u64::from(mask));
    SeccompCondition::new(argument, SeccompCmpArgLen::Dword, bits, u64::from(value))
}

/// Returns the condition that a pointer is null.
fn null(argument: u8) -> SeccompResult<SeccompCondition> {
    SeccompCondition::new(argument, SeccompCmpArgLen::Qword, SeccompCmpOp::Eq, 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::confinement::support;
    use std::fs::{self, File};
    use std::net::{TcpListener, TcpStream, UdpSocket};
    use std::os::unix::net::UnixStream;
    use std::process::Command;
    use std::thread;
    use std::time::Duration;

    fn conditional(calls: SystemCalls) -> Vec<c_long> {
        calls.conditional().unwrap().into_iter().map(|(call, _)| call).collect()
    }

    #[test]
    fn filters_compile_and_deny_calls_that_reach_other_processes() {
        for calls in [SystemCalls::Computing, SystemCalls::Interpreter] {
            assert!(!calls.filter().unwrap().is_empty());
            let (always, sometimes) = (calls.unconditional(), conditional(calls));
            for call in [
                libc::SYS_clone,
                libc::SYS_clone3,
                libc::SYS_socket,
                libc::SYS_ptrace,
                libc::SYS_memfd_create,
                libc::SYS_io_uring_setup,
                libc::SYS_execveat,
                libc::SYS_openat2,
                libc::SYS_truncate,
                libc::SYS_fallocate,
                libc::SYS_fchmod,
                libc::SYS_linkat,
                libc::SYS_symlinkat,
                libc::SYS_mkdirat,
                libc::SYS_setitimer,
                libc::SYS_tkill,
                libc::SYS_pidfd_open,
                libc::SYS_setrlimit,
            ] {
                assert!(!always.contains(&call) && !sometimes.contains(&call), "{calls:?}: {call}");
            }
            assert!(
                sometimes.iter().all(|call| !always.contains(call)),
                "{calls:?}: a conditional call is also allowed unconditionally"
            );
        }
    }

    #[test]
    fn thread_that_computes_reaches_no_file_socket_process_or_thread() {
        if !support::has_seccomp() {
            eprintln!("skipped: no seccomp");
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let (old, new) = (folder.path().join("old"), folder.path().join("new"));
        fs::write(&old, "secret").unwrap();
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = server.local_addr().unwrap();
        let failures = thread::scope(|scope| {
            let restricted = scope.spawn(|| {
                SystemCalls::Computing.restrict_thread().unwrap();
                // Memory and time stay.
                assert_eq!(vec![1_u8; 32 << 20].iter().map(|n| usize::from(*n)).sum::<usize>(), 32 << 20);
                thread::sleep(Duration::from_millis(1));
                [
                    ("read a file", fs::read(&old).err()),
                    ("create a file", File::create(&new).err()),
                    ("list a folder", fs::read_dir(folder.path()).err()),
                    ("remove a file", fs::remove_file(&old).err()),
                    ("make a folder", fs::create_dir(&new).err()),
                    ("look at a file", fs::metadata(&old).err()),
                    ("connect", TcpStream::connect(address).err()),
                    ("listen", TcpListener::bind("127.0.0.1:0").err()),
                    ("send a datagram", UdpSocket::bind("127.0.0.1:0").err()),
                    ("make a pair of sockets", UnixStream::pair().err()),
                    ("start a program", Command::new("/bin/true").spawn().err()),
                    ("start a thread", thread::Builder::new().spawn(|| ()).err()),
                ]
                .map(|(name, error)| (name, error.and_then(|e| e.raw_os_error())))
            });
            restricted.join().unwrap()
        });
        for (name, error) in failures {
            assert_eq!(error, Some(libc::EPERM), "{name}");
        }
        assert_eq!(fs::read_to_string(&old).unwrap(), "secret");
        assert!(!new.exists());
    }
}
