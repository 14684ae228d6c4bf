//! An S3 server that is killed and restarted on its files: SeaweedFS, master, volumes, filer and S3 in one process.

use crate::kit::wait_for;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tempfile::TempDir;

const BUCKET: &str = "kills";
/// Most attempts to start the server.
const TRIES: usize = 4;

pub struct Server {
    program: PathBuf,
    folder: TempDir,
    /// S3, master, volume, filer: each with the port of its gRPC interface.
    ports: [u16; 8],
    child: Option<Child>,
}

impl Server {
    /// Starts a server and waits until it responds. A free port may be taken before the server binds it, so the start
    /// is retried.
    pub fn new(program: &Path) -> Self {
        (0..TRIES).find_map(|_| Self::try_new(program)).expect("an S3 server must come up")
    }
    fn try_new(program: &Path) -> Option<Self> {
        let folder = TempDir::with_prefix("trainyard-weed-").unwrap();
        // Chosen all at once: the defaults may be taken, and by default gRPC is 10,000 above a port.
        let free: [TcpListener; 8] = std::array::from_fn(|_| TcpListener::bind("127.0.0.1:0").unwrap());
        let ports = free.map(|listener| listener.local_addr().unwrap().port());
        let mut server = Self { program: program.to_path_buf(), folder, ports, child: None };
        server.start();
        for _ in 0..60 {
            if server.answers() {
                return Some(server);
            }
            std::thread::sleep(Duration::from_millis(500));
        }
        None
    }
    pub fn lives(&self) -> bool {
        self.child.is_some()
    }
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
    /// Starts the server if it is down; it responds some seconds later.
    pub fn start(&mut self) {
        if self.child.is_some() {
            return;
        }
        let log = std::fs::File::options().create(true).append(true).open(self.folder.path().join("log")).unwrap();
        let data = self.folder.path().join("data");
        std::fs::create_dir_all(&data).unwrap();
        let names = ["s3.port", "s3.port.grpc", "master.port", "master.port.grpc"];
        let more = ["volume.port", "volume.port.grpc", "filer.port", "filer.port.grpc"];
        let ports = names.iter().chain(&more).zip(self.ports).map(|(name, port)| format!("-{name}={port}"));
        let mut command = Command::new(&self.program);
        // With configured keys the server would refuse unsigned requests.
        command.env_remove("AWS_ACCESS_KEY_ID").env_remove("AWS_SECRET_ACCESS_KEY");
        command.arg(format!("-logdir={}", self.folder.path().display())).arg("server");
        command
            .arg(format!("-dir={}", data.display()))
            .args(["-ip=127.0.0.1", "-s3", "-s3.port.iceberg=0", "-s3.port.lance=0"])
            .args(ports);
        command.args(["-volume.max=40", "-master.volumeSizeLimitMB=64"]);
        command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
        self.child = Some(command.spawn().unwrap_or_else(|e| panic!("{}: {e}", self.program.display())));
    }
    /// Waits until the server accepts and returns objects.
    pub fn wait(&self) {
        wait_for("the S3 server", 60, || self.answers());
    }
    fn answers(&self) -> bool {
        // Refused if the bucket exists.
        self.asked(&["-X", "PUT"], "");
        self.asked(&["-X", "PUT", "-d", "x"], "/probe").is_some()
    }
    /// Returns the environment that processes need to reach the server.
    pub fn environment(&self) -> [(&'static str, String); 5] {
        [
            ("AWS_ACCESS_KEY_ID", "any".into()),
            ("AWS_SECRET_ACCESS_KEY", "any".into()),
            ("AWS_REGION", "us-east-1".into()),
            ("AWS_ALLOW_HTTP", "true".into()),
            ("AWS_ENDPOINT_URL", format!("http://127.0.0.1:{}", self.ports[0])),
        ]
    }
    /// Returns the URL of a store on the server.
    pub fn store(&self, name: &str) -> String {
        format!("s3://{BUCKET}/{name}")
    }
    /// Returns the names of the objects under a prefix, at most 1,000.
    pub fn names(&self, prefix: &str) -> Vec<String> {
        let list = self.asked(&[], &format!("?list-type=2&prefix={prefix}")).expect("the server must list objects");
        list.split("<Key>").skip(1).filter_map(|rest| Some(rest.split_once("</Key>")?.0.to_string())).collect()
    }
    /// Sends a request about the bucket; `None` if it failed. The server accepts unsigned requests.
    fn asked(&self, arguments: &[&str], path: &str) -> Option<String> {
        let url = format!("http://127.0.0.1:{}/{BUCKET}{path}", self.ports[0]);
        let output =
            Command::new("curl").args(["--silent", "--fail", "--max-time", "5"]).args(arguments).arg(url).output();
        let output = output.expect("curl must be there");
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}
