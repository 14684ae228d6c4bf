//! Serves the part of Google Cloud Storage's XML interface that a store uses, on loopback, from memory.
//!
//! The server implements Google's documentation (cloud.google.com/storage/docs/xml-api, …/docs/request-preconditions).
//! A put with `x-goog-if-generation-match: 0` succeeds only if no object has this name; with another number it succeeds
//! only if that is the object's generation. Otherwise the response is 412. Every put creates a new generation. A
//! multipart upload becomes visible when it is completed with the correct parts. Listings are sorted, paged and always
//! up to date. A request without a bearer token gets the response 401. Unlike Google's service, the server has no
//! permissions, no expiry of tokens, no limit on the rate of writes to one name (one a second, status 429), and no
//! failures.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use trainyard_core::units::format_time;
use trainyard_core::units::timestamp;
use trainyard_core::{Clock, SystemClock};

/// Names in one page of a listing: few, so that tests need several.
const PAGE: usize = 7;

#[derive(Clone)]
struct Object {
    bytes: Vec<u8>,
    generation: u64,
    modified: i64,
}

#[derive(Default)]
struct Bucket {
    objects: BTreeMap<String, Object>,
    /// Parts of uploads by upload id and number, with their ETags.
    uploads: BTreeMap<u64, BTreeMap<u32, (String, Vec<u8>)>>,
    counter: u64,
}

struct Request {
    method: String,
    path: String,
    query: BTreeMap<String, String>,
    headers: BTreeMap<String, String>,
    body: Vec<u8>,
}

struct Response {
    status: &'static str,
    headers: Vec<(&'static str, String)>,
    body: Vec<u8>,
    /// Length of the body of a HEAD request, which is not sent.
    length: Option<usize>,
}

/// Starts a server with one bucket, `bucket`; returns its base URL. It ends with the process.
pub fn start() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    let bucket = Arc::new(Mutex::new(Bucket::default()));
    std::thread::spawn(move || {
        for connection in listener.incoming().flatten() {
            let bucket = bucket.clone();
            std::thread::spawn(move || serve(connection, &bucket));
        }
    });
    format!("http://{address}")
}

fn serve(connection: TcpStream, bucket: &Mutex<Bucket>) {
    let Ok(mut out) = connection.try_clone() else { return };
    let mut reader = BufReader::new(connection);
    while let Some(request) = read(&mut reader) {
        let mut response = respond(&request, &mut bucket.lock().unwrap());
        if request.method == "HEAD" {
            response.length = Some(response.body.len());
            response.body.clear();
        }
        if send(&mut out, &response).is_err() {
            return;
        }
    }
}

/// Reads the next request of a connection; returns `None` at its end.
fn read(reader: &mut BufReader<TcpStream>) -> Option<Request> {
    let mut line = String::new();
    reader.read_line(&mut line).ok().filter(|size| *size > 0)?;
    let mut words = line.split_whitespace();
    let (method, target) = (words.next()?.to_string(), words.next()?.to_string());
    let mut headers = BTreeMap::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim_end().split_once(':') else { break };
        headers.insert(name.to_lowercase(), value.trim().to_string());
    }
    let length = headers.get("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    let (path, query) = target.split_once('?').unwrap_or((&target, ""));
    let pair = |pair: &str| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        (decoded(name), decoded(value))
    };
    let query = query.split('&').filter(|pair| !pair.is_empty()).map(pair).collect();
    Some(Request { method, path: decoded(path), query, headers, body })
}

fn decoded(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        match byte {
            b'%' => {
                let digits = [rest.next().unwrap_or(b'0'), rest.next().unwrap_or(b'0')];
                let digits = String::from_utf8_lossy(&digits).into_owned();
                bytes.push(u8::from_str_radix(&digits, 16).expect("two hexadecimal digits"));
            }
            b'+' => bytes.push(b' '),
            other => bytes.push(other),
        }
    }
    String::from_utf8(bytes).expect("UTF-8")
}

fn send(out: &mut TcpStream, response: &Response) -> std::io::Result<()> {
    let mut head = format!("HTTP/1.1 {}\r\n", response.status);
    for (name, value) in &response.headers {
        let _ = write!(head, "{name}: {value}\r\n");
    }
    let _ = write!(head, "content-length: {}\r\n\r\n", response.length.unwrap_or(response.body.len()));
    out.write_all(head.as_bytes())?;
    out.write_all(&response.body)?;
    out.flush()
}

impl Response {
    fn new(status: &'static str) -> Self {
        Self { status, headers: Vec::new(), body: Vec::new(), length: None }
    }
    fn error(status: &'static str, code: &str) -> Self {
        let body = format!("<?xml version='1.0'?><Error><Code>{code}</Code><Message>{code}</Message></Error>");
        Self { body: body.into_bytes(), ..Self::new(status) }
    }
    fn with(mut self, name: &'static str, value: impl ToString) -> Self {
        self.headers.push((name, value.to_string()));
        self
    }
}

fn respond(request: &Request, bucket: &mut Bucket) -> Response {
    if !request.headers.get("authorization").is_some_and(|value| value.starts_with("Bearer ")) {
        return Response::error("401 Unauthorized", "AuthenticationRequired");
    }
    let Some(path) = request.path.strip_prefix("/bucket") else {
        return Response::error("404 Not Found", "NoSuchBucket");
    };
    let name = path.trim_start_matches('/').to_string();
    let upload = request.query.get("uploadId").and_then(|id| id.parse().ok());
    match (request.method.as_str(), upload) {
        ("GET", _) if name.is_empty() => list(request, bucket),
        ("GET" | "HEAD", _) => get(request, bucket, &name),
        ("POST", None) if request.query.contains_key("uploads") => bucket.begin(),
        ("PUT", Some(id)) => bucket.part(request, id),
        ("POST", Some(id)) => bucket.complete(request, id, &name),
        ("DELETE", Some(id)) => {
            bucket.uploads.remove(&id);
            Response::new("204 No Content")
        }
        ("PUT", None) => put(request, bucket, &name),
        ("DELETE", None) => match bucket.objects.remove(&name) {
            Some(_) => Response::new("204 No Content"),
            None => Response::error("404 Not Found", "NoSuchKey"),
        },
        _ => Response::error("400 Bad Request", "NotImplemented"),
    }
}

fn put(request: &Request, bucket: &mut Bucket, name: &str) -> Response {
    if let Some(wanted) = request.headers.get("x-goog-if-generation-match") {
        let found = bucket.objects.get(name).map_or(0, |object| object.generation);
        if wanted.parse() != Ok(found) {
            return Response::error("412 Precondition Failed", "PreconditionFailed");
        }
    }
    bucket.store(name, request.body.clone())
}

impl Bucket {
    fn next(&mut self) -> u64 {
        self.counter += 1;
        self.counter
    }
    fn store(&mut self, name: &str, bytes: Vec<u8>) -> Response {
        let generation = self.next();
        // Whole seconds, the resolution of a header: lists must not be more precise.
        let modified = SystemClock::new().unix_millis() / 1_000 * 1_000;
        self.objects.insert(name.to_string(), Object { bytes, generation, modified });
        Response::new("200 OK").with("etag", tag(generation)).with("x-goog-generation", generation)
    }
    fn begin(&mut self) -> Response {
        let id = self.next();
        self.uploads.insert(id, BTreeMap::new());
        let body = format!(
            "<?xml version='1.0'?><InitiateMultipartUploadResult><UploadId>{id}</UploadId>\
             </InitiateMultipartUploadResult>"
        );
        Response { body: body.into_bytes(), ..Response::new("200 OK") }
    }
    fn part(&mut self, request: &Request, id: u64) -> Response {
        let tag = tag(self.next());
        let Some(parts) = self.uploads.get_mut(&id) else { return Response::error("404 Not Found", "NoSuchUpload") };
        let Some(number) = request.query.get("partNumber").and_then(|number| number.parse().ok()) else {
            return Response::error("400 Bad Request", "InvalidArgument");
        };
        parts.insert(number, (tag.clone(), request.body.clone()));
        Response::new("200 OK").with("etag", tag)
    }
    /// Joins the parts that the request names, with their ETags, into the object.
    fn complete(&mut self, request: &Request, id: u64, name: &str) -> Response {
        let Some(parts) = self.uploads.get(&id).cloned() else {
            return Response::error("404 Not Found", "NoSuchUpload");
        };
        let text = String::from_utf8_lossy(&request.body).into_owned();
        let mut bytes = Vec::new();
        for part in text.split("<Part>").skip(1) {
            let number = within(part, "PartNumber").and_then(|number| number.parse().ok());
            let found = number.and_then(|number: u32| parts.get(&number));
            match (found, within(part, "ETag")) {
                (Some((tag, part)), Some(named)) if *tag == named => bytes.extend_from_slice(part),
                _ => return Response::error("400 Bad Request", "InvalidPart"),
            }
        }
        self.uploads.remove(&id);
        let mut stored = self.store(name, bytes);
        let tag = stored.headers[0].1.clone();
        stored.body = format!(
            "<?xml version='1.0'?><CompleteMultipartUploadResult><ETag>{tag}</ETag></CompleteMultipartUploadResult>"
        )
        .into_bytes();
        stored
    }
}

fn within<'a>(text: &'a str, element: &str) -> Option<&'a str> {
    let (_, rest) = text.split_once(&format!("<{element}>"))?;
    rest.split_once(&format!("</{element}>")).map(|(inner, _)| inner)
}

fn tag(number: u64) -> String {
    format!("\"{number:016x}\"")
}

fn get(request: &Request, bucket: &Bucket, name: &str) -> Response {
    let Some(object) = bucket.objects.get(name) else { return Response::error("404 Not Found", "NoSuchKey") };
    let size = object.bytes.len();
    let range = request.headers.get("range").and_then(|range| {
        let (start, end) = range.strip_prefix("bytes=")?.split_once('-')?;
        let end = end.parse::<usize>().map_or(size, |last| size.min(last + 1));
        Some(start.parse::<usize>().ok()?..end)
    });
    if range.as_ref().is_some_and(|range| range.start >= size) {
        return Response::error("416 Requested Range Not Satisfiable", "InvalidRange");
    }
    let found = match range {
        None => Response { body: object.bytes.clone(), ..Response::new("200 OK") },
        Some(range) => {
            let content_range = format!("bytes {}-{}/{size}", range.start, range.end - 1);
            let body = object.bytes[range].to_vec();
            Response { body, ..Response::new("206 Partial Content") }.with("content-range", content_range)
        }
    };
    found
        .with("etag", tag(object.generation))
        .with("x-goog-generation", object.generation)
        .with("last-modified", http_date(object.modified))
}

/// Formats a time as `Sun, 22 Nov 2026 13:00:00 GMT`.
fn http_date(millis: i64) -> String {
    timestamp(millis).strftime("%a, %d %b %Y %H:%M:%S GMT").to_string()
}

fn list(request: &Request, bucket: &Bucket) -> Response {
    let text = |name: &str| request.query.get(name).map_or("", String::as_str);
    let (prefix, delimiter, after) = (text("prefix"), text("delimiter"), text("continuation-token"));
    let (mut contents, mut folders, mut count, mut last) = (String::new(), Vec::<String>::new(), 0, None);
    for (name, object) in bucket.objects.iter().filter(|(name, _)| name.starts_with(prefix)) {
        let folder = name[prefix.len()..].split_once(delimiter).filter(|_| !delimiter.is_empty());
        let folder = folder.map(|(folder, _)| format!("{prefix}{folder}{delimiter}"));
        // A page ends after a name, or after the whole content of a folder.
        let key = folder.as_ref().unwrap_or(name);
        if key.as_str() <= after || folders.last() == Some(key) {
            continue;
        }
        if count == PAGE {
            let body = page(&contents, &folders, last.as_deref());
            return Response { body: body.into_bytes(), ..Response::new("200 OK") };
        }
        count += 1;
        last = Some(key.clone());
        match folder {
            Some(folder) => folders.push(folder),
            None => {
                let (time, size, tag) = (format_time(object.modified), object.bytes.len(), tag(object.generation));
                let _ = write!(
                    contents,
                    "<Contents><Key>{name}</Key><LastModified>{time}</LastModified><ETag>{tag}</ETag>\
                     <Size>{size}</Size></Contents>"
                );
            }
        }
    }
    Response { body: page(&contents, &folders, None).into_bytes(), ..Response::new("200 OK") }
}

fn page(contents: &str, folders: &[String], next: Option<&str>) -> String {
    let folders: String =
        folders.iter().map(|folder| format!("<CommonPrefixes><Prefix>{folder}</Prefix></CommonPrefixes>")).collect();
    let next = next.map(|next| format!("<NextContinuationToken>{next}</NextContinuationToken>")).unwrap_or_default();
    format!("<?xml version='1.0'?><ListBucketResult>{contents}{folders}{next}</ListBucketResult>")
}
