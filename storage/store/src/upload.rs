//! Uploads payload files: small ones in one request, large ones in parts. A second reading of the file confirms its
//! digest.

use crate::connection::{MIN_ATTEMPTS, parse};
use crate::error::{file_error, request_error};
use crate::layout;
use crate::local;
use crate::store::Store;
use bytes::Bytes;
use object_store::path::Path as Name;
use object_store::{MultipartUpload, ObjectStoreExt, PutMultipartOptions, PutPayload};
use std::fs::File;
use std::io::Read;
use std::path::Path;
use trainyard_core::digest::Hasher;
use trainyard_core::{Digest, Error, Result};

/// Bytes of one part; S3 and Google require at least 5 MiB for all but the last.
const PART: usize = 8 << 20;
/// S3 and Google allow 10,000 parts, so very large files get larger parts.
const PARTS: u64 = 9_000;

impl Store {
    /// Stores a file under its digest, streaming, unless an intact recent object exists. Returns digest and size in
    /// bytes.
    ///
    /// Errors: invalid (no such file, read-only store), data (the file changed meanwhile), retryable (disk full,
    /// network).
    pub async fn put_object_file(&self, file: &Path) -> Result<(Digest, u64)> {
        let path = file.to_path_buf();
        let (digest, size) = blocking(move || hash_file(&path)).await?;
        if self.is_durable(&digest, size).await? {
            return Ok((digest, size));
        }
        let place = layout::object(&digest);
        self.writable(&place)?;
        if size <= PART as u64 {
            let path = file.to_path_buf();
            let bytes = blocking(move || std::fs::read(&path).map_err(|e| unreadable(&path, &e))).await?;
            if Digest::of(&bytes) != digest {
                return Err(changed(file));
            }
            self.upload_bytes(&place, bytes.into()).await?;
        } else {
            self.upload_parts(&place, file, &digest, size).await?;
        }
        Ok((digest, size))
    }

    pub(crate) async fn upload_bytes(&self, place: &str, bytes: Bytes) -> Result<()> {
        let name = parse(place)?;
        let mut retry = self.connection().start_request(MIN_ATTEMPTS);
        // Overwriting is safe: the same name means the same bytes, and it repairs a damaged object.
        while let Err(e) = self.put_once(&name, &bytes).await {
            if !retry.wait_to_retry(self.url(), &e).await {
                return Err(request_error("write", self.url(), place, &e));
            }
        }
        retry.record_response(self.url());
        self.protect(place);
        Ok(())
    }
    /// Overwrites an object. Must not be used for an object on which a decision depends.
    pub(crate) async fn overwrite(&self, path: &str, bytes: Bytes) -> Result<()> {
        self.writable(path)?;
        let name = parse(path)?;
        let mut retry = self.connection().start_request(MIN_ATTEMPTS);
        while let Err(e) = self.put_once(&name, &bytes).await {
            if !retry.wait_to_retry(self.url(), &e).await {
                return Err(request_error("write", self.url(), path, &e));
            }
        }
        retry.record_response(self.url());
        Ok(())
    }
    async fn put_once(&self, name: &Name, bytes: &Bytes) -> object_store::Result<()> {
        self.connection().require_root(name)?;
        let put = self.connection().objects().put(name, PutPayload::from(bytes.clone()));
        self.connection().with_response_timeout(bytes.len(), put).await.map(|_| ())
    }
    async fn upload_parts(&self, place: &str, file: &Path, digest: &Digest, size: u64) -> Result<()> {
        let name = parse(place)?;
        let mut retry = self.connection().start_request(1);
        while let Err(e) = self.upload_once(&name, file, digest, size).await? {
            if !retry.wait_to_retry(self.url(), &e).await {
                return Err(request_error("write", self.url(), place, &e));
            }
            // The upload may have been completed, and only the response lost.
            if matches!(self.is_intact(digest, size).await, Ok(true)) {
                break;
            }
        }
        retry.record_response(self.url());
        self.protect(place);
        Ok(())
    }
    /// Makes one upload from the first part to the last. The inner result is the store's.
    pub(crate) async fn upload_once(
        &self,
        name: &Name,
        file: &Path,
        digest: &Digest,
        size: u64,
    ) -> Result<object_store::Result<()>> {
        if let Err(error) = self.connection().require_root(name) {
            return Ok(Err(error));
        }
        let options = PutMultipartOptions::default().with_retry_policy(self.connection().upload_policy());
        let mut upload = match self.connection().objects().put_multipart_opts(name, options).await {
            Ok(upload) => upload,
            Err(e) => return Ok(Err(e)),
        };
        let sent = send_parts(upload.as_mut(), file, digest, size).await;
        if !matches!(sent, Ok(Ok(()))) {
            // Leftover parts are removed by the bucket's own rules.
            let _ = upload.abort().await;
        }
        sent
    }
    fn protect(&self, place: &str) {
        if let Some(root) = self.local_root() {
            local::protect(&root.join(place));
        }
    }
}

/// Sends a file in parts and completes the upload. The inner result is the store's.
async fn send_parts(
    upload: &mut dyn MultipartUpload,
    file: &Path,
    digest: &Digest,
    size: u64,
) -> Result<object_store::Result<()>> {
    let part = PART.max(usize::try_from(size / PARTS).unwrap_or(PART));
    let mut source = Some((File::open(file).map_err(|e| unreadable(file, &e))?, Hasher::new()));
    loop {
        let (mut reader, mut hasher) = source.take().expect("the source is put back below");
        let path = file.to_path_buf();
        let (bytes, back) = blocking(move || {
            let mut bytes = Vec::with_capacity(part);
            reader.by_ref().take(part as u64).read_to_end(&mut bytes).map_err(|e| unreadable(&path, &e))?;
            hasher.update(&bytes);
            Ok((bytes, (reader, hasher)))
        })
        .await?;
        if bytes.is_empty() {
            if back.1.finish() != *digest {
                return Err(changed(file));
            }
            break;
        }
        source = Some(back);
        if let Err(e) = upload.put_part(bytes.into()).await {
            return Ok(Err(e));
        }
    }
    Ok(upload.complete().await.map(|_| ()))
}

/// Returns digest and size of a file, read in pieces.
pub(crate) fn hash_file(path: &Path) -> Result<(Digest, u64)> {
    let mut file = File::open(path).map_err(|e| unreadable(path, &e))?;
    let (mut hasher, mut size, mut piece) = (Hasher::new(), 0, vec![0; 1 << 20]);
    loop {
        match file.read(&mut piece).map_err(|e| unreadable(path, &e))? {
            0 => return Ok((hasher.finish(), size)),
            n => {
                hasher.update(&piece[..n]);
                size += n as u64;
            }
        }
    }
}

/// Runs file operations on a thread that may block.
pub(crate) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(e) => Err(Error::bug(format!("a file task ended early: {e}"))),
    }
}

fn unreadable(path: &Path, error: &std::io::Error) -> Error {
    match error.kind() {
        std::io::ErrorKind::NotFound => Error::invalid(format!("there is no file {}", path.display())),
        _ => file_error("read", &path.display().to_string(), error),
    }
}

fn changed(file: &Path) -> Error {
    Error::data(format!("{} changed while it was stored", file.display()))
        .help("nothing may write to an output after its stage ended")
}
