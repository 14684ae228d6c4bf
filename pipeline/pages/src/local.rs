//! Serves pages of one process, read-only, for the holder of one token.

use crate::access::PageAccess;
use crate::address::PageAddress;
use crate::catalogue::LazyCatalogue;
use crate::queries::PageQueries;
use crate::server::router;
use crate::state::PageState;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use trainyard_core::{Clock, Error, Result};
use trainyard_http_server::{ServerLimits, TokenFile, descriptor_limit, same_token};
use trainyard_store::Store;

/// Ports that are tried, from the given one on, before any free port.
const PORTS: u16 = 16;
/// Response to a connection above the limit.
const BUSY: &str = r#"{"message": "too many connections are open", "help": "try again in a second"}"#;

/// Parts of the pages that depend on the program.
pub struct PageProgram {
    /// Version of the program.
    pub version: &'static str,
    /// Recipes, stage kinds and parts.
    pub catalogue: LazyCatalogue,
    /// Queries of tables.
    pub queries: PageQueries,
}

/// Page server that ends when the value is dropped.
pub struct LocalPages {
    address: PageAddress,
    token: TokenFile,
    task: JoinHandle<()>,
}

impl LocalPages {
    /// Returns the address of the page at `path` (without `/` at its beginning), with the token.
    pub fn url(&self, path: &str) -> String {
        format!("{}/{path}?token={}", self.address.url(), self.token.token().reveal())
    }
}

impl Drop for LocalPages {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Starts a server on the present runtime. Its token is in the file `pages-PORT` of `token_folder`. Errors: invalid (an
/// address that cannot be bound, a public address without a host), those of [`TokenFile::create`].
pub async fn start(
    store: Store,
    clock: Arc<dyn Clock>,
    (bind, public_url): (SocketAddr, Option<&str>),
    token_folder: &Path,
    program: PageProgram,
) -> Result<LocalPages> {
    let listener = listen(bind).await?;
    let address = PageAddress::new(listener.local_addr().unwrap_or(bind), public_url)?;
    let token = TokenFile::create(token_folder.join(format!("pages-{}", address.port())))?;
    let expected = token.token().clone();
    let find = move |given: &str| same_token(given, expected.reveal()).then(|| ("local".to_string(), false));
    let access = PageAccess::Token(Box::new(find));
    let PageProgram { version, catalogue, queries } = program;
    let state = PageState { store, clock, access, address: address.clone(), version, daemon: None, catalogue, queries };
    let pages = router(Arc::new(state));
    // The limit itself stays: a run's commands inherit it.
    let limits = ServerLimits::default().within_descriptors(descriptor_limit());
    let server = trainyard_http_server::serve(listener, pages, limits, BUSY.into(), std::future::pending());
    Ok(LocalPages { address, token, task: tokio::spawn(server) })
}

async fn listen(address: SocketAddr) -> Result<TcpListener> {
    let ports = (address.port()..=address.port().saturating_add(PORTS)).chain([0]);
    let mut failure = io::Error::from(io::ErrorKind::AddrInUse);
    for port in ports {
        match TcpListener::bind(SocketAddr::new(address.ip(), port)).await {
            Ok(listener) => return Ok(listener),
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => failure = error,
            Err(error) => return Err(unbound(address, &error)),
        }
    }
    Err(unbound(address, &failure))
}

fn unbound(address: SocketAddr, error: &io::Error) -> Error {
    Error::invalid(format!("cannot serve pages on {address}: {error}"))
        .help("give another address with `--pages-bind`, or `--no-pages` to `run`")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue::PageCatalogue;
    use std::os::unix::fs::MetadataExt as _;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpStream;
    use trainyard_core::clock::ManualClock;
    use trainyard_store::StoreOptions;

    /// Requests the list of runs, and returns the first line of the response.
    async fn status(port: u16, token: &str) -> String {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
        let head = format!("GET / HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAuthorization: Bearer {token}\r\n");
        stream.write_all(format!("{head}Connection: close\r\n\r\n").as_bytes()).await.unwrap();
        let mut response = Vec::new();
        stream.read_to_end(&mut response).await.unwrap();
        String::from_utf8_lossy(&response).lines().next().unwrap_or_default().to_string()
    }

    #[tokio::test]
    async fn token_is_in_a_private_file_while_the_server_runs() {
        let home = tempfile::tempdir().unwrap();
        let tokens = home.path().join("tokens");
        let store = Store::open("memory://", StoreOptions::default()).await.unwrap();
        let clock = Arc::new(ManualClock::at_millis(0));
        let catalogue = LazyCatalogue::new(Box::new(PageCatalogue::default));
        let program = PageProgram { version: "0.0.0", catalogue, queries: PageQueries::default() };
        let bind = (SocketAddr::from(([127, 0, 0, 1], 0)), None);
        let pages = start(store, clock, bind, &tokens, program).await.unwrap();
        let port = pages.address.port();
        let file = tokens.join(format!("pages-{port}"));
        let mode = |path: &Path| std::fs::metadata(path).unwrap().mode() & 0o777;
        assert_eq!((mode(&file), mode(&tokens)), (0o600, 0o700));
        let token = std::fs::read_to_string(&file).unwrap().trim().to_string();
        assert_eq!(pages.url("runs/r"), format!("http://127.0.0.1:{port}/runs/r?token={token}"));
        assert_eq!(status(port, &token).await, "HTTP/1.1 200 OK");
        assert_eq!(status(port, &"0".repeat(64)).await, "HTTP/1.1 401 Unauthorized");
        drop(pages);
        assert!(!file.exists());
    }
}
