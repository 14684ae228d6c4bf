//! The API server of the tests as a program, whose Pods are processes of this machine: for the suite of executors,
//! whose runs are processes of their own. It prints the path of a kubeconfig and serves until it gets SIGTERM.

// What only the tests of this crate ask of it.
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
