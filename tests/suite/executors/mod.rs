//! One conformance suite for all executors: the guarantees of a stage on any of them.
//!
//! Each case is a function of a [`Pool`], and every executor runs every case. The local executor is always tested, with
//! the pipes of its engine and without; the others only if a variable names one on this machine:
//! `TRAINYARD_TEST_SLURM`, `TRAINYARD_TEST_RAY`, and `TRAINYARD_TEST_KUBERNETES` with the path of a kubeconfig, in a
//! build with the feature `kubernetes`.

mod cases;
mod pool;
mod proxy;
mod store_away;

use crate::kit::skipped;
use pool::Pool;

/// Defines a module for each executor, with a test for each case.
macro_rules! conformance {
    ([$($executor:ident)*] $cases:tt) => {
        $(conformance! { @one $executor $cases })*
    };
    (@one $executor:ident [$($module:ident :: $case:ident)*]) => {
        mod $executor {
            use super::*;
            $(#[test]
            fn $case() {
                match Pool::$executor() {
                    Some(pool) => $module::$case(&pool),
                    None => skipped(concat!("there is no ", stringify!($executor), " here")),
                }
            })*
        }
    };
}

conformance! {
    [local kept slurm ray kubernetes]
    [
        cases::exit_codes_are_told
        cases::inputs_and_outputs_are_staged
        cases::a_log_can_be_read_while_it_is_written
        cases::cancelling_kills_the_whole_tree
        cases::a_timeout_ends_the_attempt
        cases::more_memory_than_was_asked_for_ends_the_attempt
        cases::an_attempt_keeps_its_deadline_without_an_engine
        cases::the_next_engine_takes_attempts_over
        cases::no_attempt_is_launched_twice
        cases::a_killed_attempt_is_lost_and_tried_again
        cases::a_preempted_attempt_is_lost_and_tried_again
        cases::a_late_attempt_publishes_nothing
        cases::many_attempts_run_at_once
        store_away::a_store_that_is_away_for_20_s_costs_nothing
    ]
}
