//! Lists the files under `workflows/recipes`, so that the binary holds all of them (`src/shipped.rs`).

use std::ffi::OsString;
use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};

fn main() -> io::Result<()> {
    // Read at run time: a built script may be reused for another checkout of the same sources.
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
    std::fs::write(Path::new(&set("OUT_DIR")?).join("recipes.rs"), list)
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
