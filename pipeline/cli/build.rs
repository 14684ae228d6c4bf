//! Generates two inputs of the build: the list of files under `workflows/recipes`, which the binary embeds
//! (`src/shipped.rs`), and the text of `--version` with version, commit and features (`src/args.rs`). Chooses an option
//! of the linker.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};

fn main() -> io::Result<()> {
    // The variable is read at run time, since cargo may reuse a built script for another checkout of the same sources.
    let root = Path::new(&set("CARGO_MANIFEST_DIR")?).join("../../workflows/recipes").canonicalize()?;
    println!("cargo::rerun-if-changed={}", root.display());
    let mut files = Vec::new();
    collect(&root, &mut files)?;
    files.sort();
    let mut list = String::from("&[\n");
    for file in &files {
        let name = file.strip_prefix(&root).map_err(io::Error::other)?;
        let _ =
            writeln!(list, "    ({:?}, include_str!({:?})),", name.display().to_string(), file.display().to_string());
    }
    list.push_str("]\n");
    std::fs::write(Path::new(&set("OUT_DIR")?).join("recipes.rs"), list)?;
    println!("cargo::rustc-env=TRAINYARD_VERSION={}", version()?);
    if is_released() && links_with_lld() {
        // Equal functions, as of generic code, become one: the program is 2% smaller.
        println!("cargo::rustc-link-arg-bins=-Wl,--icf=all");
    }
    Ok(())
}

fn is_released() -> bool {
    std::env::var("PROFILE").is_ok_and(|profile| profile == "release")
}

/// Returns whether the linker is rust-lld, the default of this target unless another one is configured.
fn links_with_lld() -> bool {
    let flags = std::env::var("CARGO_ENCODED_RUSTFLAGS").unwrap_or_default();
    let is_changed = ["linker", "fuse-ld"].iter().any(|part| flags.contains(part));
    let is_target = std::env::var("TARGET").is_ok_and(|target| target == "x86_64-unknown-linux-gnu");
    is_target && !is_changed && std::env::var_os("RUSTC_LINKER").is_none()
}

/// Returns `0.1.0 (1a2b3c4d, features: kubernetes)`, without parts that are unknown or empty.
fn version() -> io::Result<String> {
    let mut more: Vec<String> = commit()?.into_iter().collect();
    let mut features: Vec<String> = std::env::vars_os()
        .filter_map(|(name, _)| Some(name.to_str()?.strip_prefix("CARGO_FEATURE_")?.to_lowercase().replace('_', "-")))
        .filter(|feature| feature != "default")
        .collect();
    features.sort();
    if !features.is_empty() {
        more.push(format!("features: {}", features.join(", ")));
    }
    let version = set("CARGO_PKG_VERSION")?.display().to_string();
    Ok(if more.is_empty() { version } else { format!("{version} ({})", more.join(", ")) })
}

/// Returns the first digits of the commit, from the environment variable `TRAINYARD_COMMIT` or from HEAD of the
/// checkout. Returns `None` outside a checkout. Uncommitted changes have no effect. Errors: the variable is not a
/// commit.
fn commit() -> io::Result<Option<String>> {
    println!("cargo::rerun-if-env-changed=TRAINYARD_COMMIT");
    let given = std::env::var("TRAINYARD_COMMIT").unwrap_or_default();
    if !given.is_empty() {
        return shortened(&given).map(Some).ok_or_else(|| {
            let help = "give at least 8 hexadecimal digits, or unset the variable";
            io::Error::other(format!("the environment variable TRAINYARD_COMMIT is `{given}`, not a commit: {help}"))
        });
    }
    let root = Path::new(&set("CARGO_MANIFEST_DIR")?).join("../..");
    Ok(head(&root).and_then(|id| shortened(&id)))
}

fn shortened(id: &str) -> Option<String> {
    let id = id.trim();
    (id.len() >= 8 && id.bytes().all(|byte| byte.is_ascii_hexdigit())).then(|| id[..8].to_lowercase())
}

/// Reads the commit of HEAD from the files of git. Cargo runs this script again when one of them changes.
fn head(root: &Path) -> Option<String> {
    let mut folder = root.join(".git");
    // In a worktree, `.git` is a file that names the folder.
    if folder.is_file() {
        folder = root.join(watched(&folder)?.strip_prefix("gitdir:")?.trim());
    }
    let head = watched(&folder.join("HEAD"))?;
    let Some(name) = head.strip_prefix("ref:").map(str::trim) else { return Some(head) };
    // A worktree stores its branches in the folder that `commondir` names.
    let shared = watched(&folder.join("commondir")).map_or_else(|| folder.clone(), |path| folder.join(path.trim()));
    if let Some(id) = watched(&shared.join(name)) {
        return Some(id);
    }
    // The next commit writes the file of the branch, which cargo cannot watch while it is missing; this log changes
    // with it.
    watched(&folder.join("logs/HEAD"));
    let packed = watched(&shared.join("packed-refs"))?;
    packed.lines().find_map(|line| line.strip_suffix(name)?.strip_suffix(' ').map(str::to_string))
}

/// Reads a file, and makes cargo run this script again when it changes. Returns `None` for an unreadable file, which is
/// not watched: cargo would treat a missing file as changed.
fn watched(path: &Path) -> Option<String> {
    let text = std::fs::read_to_string(path).ok()?;
    println!("cargo::rerun-if-changed={}", path.display());
    Some(text)
}

/// Returns a variable that cargo sets for build scripts.
fn set(name: &str) -> io::Result<OsString> {
    std::env::var_os(name).ok_or_else(|| io::Error::other(format!("cargo did not set {name}")))
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, files)?;
        } else if path.extension().is_some_and(|e| e == "yaml") {
            files.push(path);
        }
    }
    Ok(())
}
