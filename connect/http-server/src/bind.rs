//! Binds the server to an address.

use crate::policy::RequestPolicy;
use std::net::SocketAddr;
use tokio::net::TcpListener;
use trainyard_core::{Error, Result};

/// Listens on an address. Errors: invalid (a network address without credentials, or an address that cannot be bound).
pub async fn bind(address: SocketAddr, policy: &RequestPolicy) -> Result<TcpListener> {
    if !policy.protected && !address.ip().is_loopback() {
        let credential = policy.credential;
        let message = format!("{address} is reachable from the network, but the server requires no {credential}");
        return Err(Error::invalid(message).help(policy.help_unprotected));
    }
    TcpListener::bind(address)
        .await
        .map_err(|e| Error::invalid(format!("cannot listen on {address}: {e}")).help(policy.help_unbound))
}
