//! Finds deleted files that a process has mapped. They have neither a name nor a descriptor, and keep their blocks.

use std::path::Path;

/// Deleted file in the text of a process's `maps`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MappedFile {
    /// Range of addresses, as in the names of `map_files`.
    pub range: String,
    pub inode: u64,
}

/// Returns the deleted files of a folder that a process maps, once for each mapping.
pub fn deleted_files(maps: &str, folder: &Path) -> Vec<MappedFile> {
    let below = format!("{}/", folder.display());
    let deleted = |line: &str| {
        let mut fields = line.splitn(6, ' ');
        let range = fields.next()?.to_string();
        // Permissions, offset and device come before the inode.
        let inode = fields.nth(3)?.parse().ok()?;
        let path = fields.next()?.trim_start().strip_suffix(" (deleted)")?;
        path.starts_with(&below).then_some(MappedFile { range, inode })
    };
    maps.lines().filter_map(deleted).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_deleted_files_of_the_folder_are_found() {
        let maps = "\
00400000-00401000 r-xp 00000000 08:01 11                         /usr/bin/python3.12
7f0000000000-7f0000001000 rw-s 00000000 08:01 42                 /tmp/s/1/a (deleted)
7f0000002000-7f0000003000 rw-s 00001000 00:2a 43                 /tmp/s/1/with blank (deleted)
7f0000004000-7f0000005000 rw-s 00000000 08:01 44                 /tmp/s/1/kept
7f0000006000-7f0000007000 rw-s 00000000 00:01 45                 /dev/zero (deleted)
7f0000008000-7f0000009000 rw-s 00000000 08:01 46                 /tmp/s/10/a (deleted)
7f000000a000-7f000000b000 rw-p 00000000 00:00 0 
7ffc00000000-7ffc00021000 rw-p 00000000 00:00 0                  [stack]
";
        let file = |range: &str, inode| MappedFile { range: range.to_string(), inode };
        let found = deleted_files(maps, Path::new("/tmp/s/1"));
        assert_eq!(found, [file("7f0000000000-7f0000001000", 42), file("7f0000002000-7f0000003000", 43)]);
    }
}
