//! Formats and escapes RFC 6901 pointers into a config.

/// Formats a pointer: `/loss/terms/0/clip_low` → `loss.terms[0].clip_low`.
pub fn readable(pointer: &str) -> String {
    let mut name = String::new();
    for part in pointer.split('/').skip(1) {
        let part = part.replace("~1", "/").replace("~0", "~");
        match part.parse::<usize>() {
            Ok(index) => name.push_str(&format!("[{index}]")),
            Err(_) if name.is_empty() => name.push_str(&part),
            Err(_) => name.push_str(&format!(".{part}")),
        }
    }
    name
}

/// Escapes a key as a part of an RFC 6901 pointer.
pub fn escape(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}
