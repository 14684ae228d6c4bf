//! A proxy for a store's server that a test can disconnect: new connections are refused and open ones break.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

/// Forwards connections to a server while it is up.
pub struct Proxy {
    /// Address, as a URL.
    pub url: String,
    up: Arc<AtomicBool>,
    open: Arc<Mutex<Vec<TcpStream>>>,
}

impl Proxy {
    /// Creates a proxy for `http://host:port`.
    pub fn of(server: &str) -> Self {
        let server = server.trim_start_matches("http://").trim_end_matches('/').to_string();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (up, open) = (Arc::new(AtomicBool::new(true)), Arc::new(Mutex::new(Vec::new())));
        let (is_up, held) = (up.clone(), open.clone());
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                // While it is down, a connection is closed at once.
                if is_up.load(Ordering::SeqCst)
                    && let Ok(behind) = TcpStream::connect(&server)
                {
                    held.lock().unwrap().extend([client.try_clone().unwrap(), behind.try_clone().unwrap()]);
                    forward(client.try_clone().unwrap(), behind.try_clone().unwrap());
                    forward(behind, client);
                }
            }
        });
        Self { url, up, open }
    }
    /// Disconnects the server, or reconnects it.
    pub fn set_up(&self, up: bool) {
        self.up.store(up, Ordering::SeqCst);
        if !up {
            for stream in self.open.lock().unwrap().drain(..) {
                let _ = stream.shutdown(Shutdown::Both);
            }
        }
    }
}

fn forward(mut from: TcpStream, mut to: TcpStream) {
    std::thread::spawn(move || {
        let mut piece = [0; 64 * 1024];
        while let Ok(size) = from.read(&mut piece)
            && size > 0
            && to.write_all(&piece[..size]).is_ok()
        {}
        let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
    });
}
