//! Runs the test API server as a program whose Pods are processes of this machine. The executor test suite needs a
//! program because each run of the suite is a separate process. The program prints the path of a kubeconfig and serves
//! until it receives SIGTERM.

// Some items are used only by the tests of this crate.
#![allow(dead_code, unused_imports)]

#[path = "../tests/suite/server/mod.rs"]
mod server;

use tokio::signal::unix::{SignalKind, signal};

#[tokio::main]
async fn main() {
    let server = server::Server::running().await;
    println!("{}", server.kubeconfig().display());
    signal(SignalKind::terminate()).unwrap().recv().await;
}
