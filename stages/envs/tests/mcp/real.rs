//! Tests the tool `mcp` with real servers.
//!
//! `TRAINYARD_TEST_MCP=FOLDER` names a folder with `npm/node_modules/.bin` (`server-everything` and `server-filesystem`
//! of `@modelcontextprotocol`) and `mcp/bin` (`mcp-server-time`, from PyPI).

use super::{play, with_tool};
use serde_json::{Value, json};
use trainyard_envs::{Environment, ToolHost};
use trainyard_tables::EpisodeStatus;

/// Returns the folder if it has this program; otherwise prints a note and returns `None`.
fn folder(program: &str) -> Option<String> {
    let folder = std::env::var("TRAINYARD_TEST_MCP").ok().filter(|folder| !folder.is_empty());
    let has = folder.filter(|folder| std::path::Path::new(folder).join(program).exists());
    if has.is_none() {
        eprintln!("skipped: TRAINYARD_TEST_MCP names no folder with {program}");
    }
    has
}

/// Returns the command for a program of the folder. The command is not the path alone, because a path would make the
/// script a source without its modules.
fn node(folder: &str, words: &str) -> [String; 3] {
    ["sh".into(), "-c".into(), format!("exec '{folder}'/npm/node_modules/.bin/{words}")]
}

fn built(options: Value) -> Box<dyn Environment> {
    with_tool(options, &ToolHost::with_log(1, std::sync::Arc::new(|_, line| eprintln!("{line}")))).unwrap()
}

fn call(name: &str, arguments: Value) -> String {
    format!("<tool_call>\n{}\n</tool_call>", json!({"name": name, "arguments": arguments}))
}

#[test]
fn everything_answers() {
    let Some(folder) = folder("npm/node_modules/.bin/mcp-server-everything") else { return };
    let command = node(&folder, "mcp-server-everything stdio");
    let environment = built(json!({"kind": "mcp", "command": command, "allow": ["echo", "get-sum"]}));
    let turns = [call("echo", json!({"message": "hi"})), call("get-sum", json!({"a": 2, "b": "x"})), "1".into()];
    let (read, outcome) = play(&*environment, &turns);
    assert_eq!(read[0], "Echo: hi");
    let outcome = outcome.unwrap();
    assert_eq!((outcome.tool_errors, outcome.status), (1, EpisodeStatus::Ok), "{read:?}");
}

#[test]
fn files_are_those_of_the_episode() {
    let Some(folder) = folder("npm/node_modules/.bin/mcp-server-filesystem") else { return };
    let command = node(&folder, "mcp-server-filesystem .");
    let home = tempfile::tempdir().unwrap();
    let note = home.path().join("note.txt");
    std::fs::write(&note, "hello").unwrap();
    let environment = built(json!({"kind": "mcp", "command": command, "files": [note]}));
    let write = call("write_file", json!({"path": "note.txt", "content": "changed"}));
    let read_it = call("read_text_file", json!({"path": "note.txt"}));
    let (read, outcome) = play(&*environment, &[read_it.clone(), write, read_it.clone(), "1".into()]);
    assert_eq!((read[0].as_str(), read[2].as_str()), ("hello", "changed"), "{read:?}");
    assert_eq!(outcome.unwrap().status, EpisodeStatus::Ok);
    let (read, _) = play(&*environment, &[read_it, "1".into()]);
    assert_eq!(read, ["hello"], "the next episode has files of its own");
}

#[test]
fn time_server_answers() {
    let Some(folder) = folder("mcp/bin/mcp-server-time") else { return };
    let command = [format!("{folder}/mcp/bin/mcp-server-time"), "--local-timezone".into(), "UTC".into()];
    let environment = built(json!({"kind": "mcp", "command": command, "session": "shared", "prefix": "time_"}));
    let arguments = json!({"source_timezone": "Europe/Berlin", "time": "12:00", "target_timezone": "Asia/Tokyo"});
    let wrong = json!({"source_timezone": "Nowhere", "time": "12:00", "target_timezone": "Asia/Tokyo"});
    let turns = [call("time_convert_time", arguments) + &call("time_convert_time", wrong), "1".into()];
    let (read, outcome) = play(&*environment, &turns);
    assert!(read[0].contains("Asia/Tokyo") && read[1].contains("Nowhere"), "{read:?}");
    assert_eq!(outcome.unwrap().tool_errors, 1);
}
