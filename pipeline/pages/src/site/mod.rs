//! Writes the pages of a run as files that open from a disk or a bucket.
//!
//! The router renders them like those of a server, for requests with the extension [`StaticCopy`]. [`map`] knows the
//! file of every page, and [`rewrite`] changes the addresses: a link leads to a file, or its text stays. Nothing is
//! requested by scripts, since browsers refuse that on a disk.

mod contents;
mod map;
mod plan;
mod rewrite;
#[cfg(test)]
mod tests;

use self::map::SiteMap;
use self::plan::SitePlan;
use self::rewrite::rewrite;
use crate::access::PageAccess;
use crate::address::PageAddress;
use crate::assets;
use crate::layout::Document;
use crate::links::{Links, StaticCopy};
use crate::local::PageProgram;
use crate::server::router;
use crate::state::PageState;
use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{Request, header};
use futures::{StreamExt as _, TryStreamExt as _};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use tower::ServiceExt as _;
use trainyard_core::error::io_error;
use trainyard_core::{Clock, Error, Result, RunId};
use trainyard_store::Store;

/// Host of the requests to the router.
const HOST: &str = "localhost";
/// Pages that are rendered at once.
const AT_ONCE: usize = 4;

/// Size of a written site.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SiteSummary {
    /// Number of pages.
    pub pages: usize,
    /// Bytes of all files.
    pub bytes: u64,
    /// Number of rollouts with a page.
    pub rollouts: u64,
    /// Number of rollouts of the run's artifacts.
    pub rollouts_total: u64,
    /// Paths of pages that show an error, such as that of a removed object.
    pub with_error: Vec<String>,
}

/// Writes the site of a run into a folder, which must be empty or absent. `limit`: maximum rollouts of an artifact.
///
/// Errors: invalid (no such run, a folder with files), those of the store and of the disk.
pub async fn write_site(
    store: Store,
    clock: Arc<dyn Clock>,
    run: &RunId,
    limit: usize,
    folder: &Path,
    program: PageProgram,
) -> Result<SiteSummary> {
    require_empty(folder)?;
    let plan = SitePlan::read(&store, run, limit).await?;
    let written = jiff::Timestamp::from_millisecond(clock.unix_millis())
        .map_or_else(|_| "at an unknown time".to_string(), |time| time.strftime("%Y-%m-%d %H:%M UTC").to_string());
    let address = PageAddress::new(SocketAddr::from((Ipv4Addr::LOCALHOST, 80)), None)?;
    let access = PageAccess::Open { secret: String::new(), may_change: false };
    let PageProgram { version, catalogue, queries } = program;
    let state = PageState { store, clock, access, address, version, daemon: None, catalogue, queries };
    let router = router(Arc::new(state));
    let writer = SiteWriter { folder, map: plan.map(), router };
    let mut bytes = writer.assets()?;
    bytes += writer.page("/", &contents::contents(&static_links("/"), &plan, &written))?;
    for (artifact, path) in plan.lists() {
        bytes += writer.page(&path, &contents::rollouts(&static_links(&path), &plan, artifact))?;
    }
    let rendered = plan.rendered();
    let pages = rendered.len() + plan.lists().len() + 1;
    let files = futures::stream::iter(rendered).map(|path| writer.rendered(path));
    let files: Vec<Rendered> = files.buffered(AT_ONCE).try_collect().await?;
    let samples = || plan.artifacts.iter().filter_map(plan::SiteArtifact::sampled);
    Ok(SiteSummary {
        pages,
        bytes: bytes + files.iter().map(|file| file.bytes).sum::<u64>(),
        rollouts: samples().map(|sample| sample.rollouts.len() as u64).sum(),
        rollouts_total: samples().map(|sample| sample.rows_total).sum(),
        with_error: files.into_iter().filter(|file| !file.is_complete).map(|file| file.path).collect(),
    })
}

fn static_links(path: &str) -> Links {
    let mut extensions = axum::http::Extensions::new();
    extensions.insert(StaticCopy);
    Links::of_request(path, &extensions)
}

/// Written page of the router.
struct Rendered {
    path: String,
    bytes: u64,
    is_complete: bool,
}

struct SiteWriter<'a> {
    folder: &'a Path,
    map: SiteMap,
    router: Router,
}

impl SiteWriter<'_> {
    /// Writes the assets. Returns their bytes.
    fn assets(&self) -> Result<u64> {
        let files = assets::ALL.iter().map(|(name, _, text)| self.file(&format!("/assets/{name}"), text));
        files.sum()
    }
    /// Renders a page with the router and writes it, an error page included.
    async fn rendered(&self, path: String) -> Result<Rendered> {
        let request = Request::builder().uri(path.as_str()).header(header::HOST, HOST).extension(StaticCopy);
        let request = request.body(Body::empty()).map_err(|e| Error::bug(format!("{path} is no path: {e}")))?;
        let response = self.router.clone().oneshot(request).await.unwrap_or_else(|never| match never {});
        let is_complete = response.status().is_success();
        let body = to_bytes(response.into_body(), usize::MAX).await;
        let body = body.map_err(|e| Error::bug(format!("the page {path} ended early: {e}")))?;
        let html = String::from_utf8_lossy(&body);
        let bytes = self.file(&path, &rewrite(&html, &path, &self.map))?;
        Ok(Rendered { path, bytes, is_complete })
    }
    /// Writes a page. Returns its bytes.
    fn page(&self, path: &str, Document(markup): &Document) -> Result<u64> {
        self.file(path, &rewrite(&markup.0, path, &self.map))
    }
    fn file(&self, path: &str, text: &str) -> Result<u64> {
        let file = self.map.file(path).ok_or_else(|| Error::bug(format!("the site has no file for {path}")))?;
        let file = self.folder.join(file);
        if let Some(folder) = file.parent() {
            std::fs::create_dir_all(folder).map_err(|e| io_error(folder, &e))?;
        }
        std::fs::write(&file, text).map_err(|e| io_error(&file, &e))?;
        Ok(text.len() as u64)
    }
}

/// Checks that a folder has no files. Errors: invalid (it has some), those of the disk.
fn require_empty(folder: &Path) -> Result<()> {
    match std::fs::read_dir(folder).map(Iterator::count) {
        Ok(0) => Ok(()),
        Ok(_) => Err(Error::invalid(format!("the folder {} is not empty", folder.display()))
            .help("name another folder, or remove this one")),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(io_error(folder, &error)),
    }
}
