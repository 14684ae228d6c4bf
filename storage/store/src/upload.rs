//! Stores payload files: small ones whole, large ones in parts, under a digest that a second reading confirms.

use crate::connection::back_off;
use crate::connection::parse;
use crate::layout;
use crate::local;
use crate::problem::{fault, io_fault};
use crate::store::Store;
use bytes::Bytes;
use object_store::{MultipartUpload, ObjectStoreExt, PutPayload};
use std::fs::File;
use std::io::Read;
use std::path::Path;
use trainyard_core::digest::Hasher;
use trainyard_core::{Digest, Error, Result};

/// Bytes of one part; S3 demands at least 5 MiB for all but the last.
const PART: usize = 8 << 20;
/// S3 allows 10,000 parts, so very large files get larger parts.
const PARTS: u64 = 9_000;
/// How often one payload is put before giving up.
const TRIES: u32 = 4;

impl Store {
    /// Stores a file under its digest, streaming, unless it is there already undamaged. Returns digest and size in
    /// bytes.
    ///
    /// Errors: invalid (no such file, read-only store), data (the file changed meanwhile), retryable (disk full,
    /// network).
    pub async fn put_object_file(&self, file: &Path) -> Result<(Digest, u64)> {
        let path = file.to_path_buf();
        let (digest, size) = blocking(move || hash_file(&path)).await?;
        if self.is_sound(&digest, size).await? {
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
        let mut turn = 0;
        loop {
            // Overwriting is safe: the same name means the same bytes, and it heals a damaged object.
            match self.connection().objects().put(&name, PutPayload::from(bytes.clone())).await {
                Ok(_) => break,
                Err(e) if crate::problem::is_final(&e) || turn + 1 == TRIES => {
                    return Err(fault("write", self.url(), place, &e));
                }
                Err(_) => back_off(turn).await,
            }
            turn += 1;
        }
        self.protect(place);
        Ok(())
    }
    async fn upload_parts(&self, place: &str, file: &Path, digest: &Digest, size: u64) -> Result<()> {
        let name = parse(place)?;
        let failed = |e: &object_store::Error| fault("write", self.url(), place, e);
        let mut upload = self.connection().objects().put_multipart(&name).await.map_err(|e| failed(&e))?;
        match self.send_parts(upload.as_mut(), place, file, digest, size).await {
            Ok(()) => {}
            Err(e) => {
                // Parts that stay behind are removed by the bucket's own rules.
                let _ = upload.abort().await;
                return Err(e);
            }
        }
        self.protect(place);
        Ok(())
    }
    async fn send_parts(
        &self,
        upload: &mut dyn MultipartUpload,
        place: &str,
        file: &Path,
        digest: &Digest,
        size: u64,
    ) -> Result<()> {
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
            upload.put_part(bytes.into()).await.map_err(|e| fault("write", self.url(), place, &e))?;
        }
        upload.complete().await.map_err(|e| fault("write", self.url(), place, &e))?;
        Ok(())
    }
    fn protect(&self, place: &str) {
        if let Some(root) = self.local_root() {
            local::protect(&root.join(place));
        }
    }
}

/// Digest and size of a file, read in pieces.
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

/// Runs file work where it may block.
pub(crate) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(e) => Err(Error::bug(format!("a file task ended early: {e}"))),
    }
}

fn unreadable(path: &Path, error: &std::io::Error) -> Error {
    match error.kind() {
        std::io::ErrorKind::NotFound => Error::invalid(format!("there is no file {}", path.display())),
        _ => io_fault("read", &path.display().to_string(), error),
    }
}

fn changed(file: &Path) -> Error {
    Error::data(format!("{} changed while it was stored", file.display()))
        .help("nothing may write to an output after its stage ended")
}
