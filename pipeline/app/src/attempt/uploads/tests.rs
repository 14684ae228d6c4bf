use super::*;
use crate::attempt::guard_sources;
use crate::attempt::tests::spec;
use proptest::prelude::*;
use serde_json::json;
use trainyard_core::Digest;
use trainyard_store::StoreOptions;

/// Returns a spec with these sources, each uploaded from `(path in the source, content)`.
async fn uploaded(store: &Store, sources: &[(&str, &[(&str, &str)])]) -> AttemptSpec {
    let mut spec = spec();
    for (source, files) in sources {
        let mut entries = Vec::new();
        for (path, content) in *files {
            let (digest, size) = store.put_object(content.to_string().into()).await.unwrap();
            entries.push(FileEntry { path: path.to_string(), digest, size });
        }
        let listed: Vec<(&String, &Digest)> = entries.iter().map(|entry| (&entry.path, &entry.digest)).collect();
        let is_file = matches!(&listed[..], [(path, _)] if path.is_empty());
        let digest = if is_file { listed[0].1.clone() } else { Digest::of_json(&listed).unwrap() };
        spec.sources.insert(source.to_string(), digest);
        spec.uploaded.insert(source.to_string(), entries);
    }
    spec
}

async fn memory() -> Store {
    Store::open("memory://", StoreOptions::default()).await.unwrap()
}

#[tokio::test]
async fn fetched_sources_keep_their_names() {
    let store = memory().await;
    let sources: [(&str, &[(&str, &str)]); 3] = [
        ("/data/a/train.jsonl", &[("", "one")]),
        ("/data/b/train.jsonl", &[("", "two")]),
        ("/data/folder", &[("deep/x", "three"), ("y", "four")]),
    ];
    let spec = uploaded(&store, &sources).await;
    let scratch = tempfile::tempdir().unwrap();
    let places = fetch(&store, &spec, &scratch.path().join("sources")).await.unwrap();
    let read = |place: &str| std::fs::read_to_string(scratch.path().join("sources").join(place)).unwrap();
    assert_eq!((read("0/train.jsonl"), read("1/train.jsonl")), ("one".into(), "two".into()));
    assert_eq!((read("2/folder/deep/x"), read("2/folder/y")), ("three".into(), "four".into()));
    assert_eq!(places["/data/folder"], scratch.path().join("sources/2/folder"));
    assert_eq!(guard_sources(&spec, &places, || Ok(())), Ok(()), "their digests are those of the plan");

    let edit = || {
        std::fs::remove_file(scratch.path().join("sources/2/folder/y")).unwrap();
        Ok(())
    };
    let error = guard_sources(&spec, &places, edit).unwrap_err();
    assert!(error.message.starts_with("/data/folder changed since the plan was made"), "{error}");
}

#[tokio::test]
async fn empty_folder_is_fetched() {
    let store = memory().await;
    let spec = uploaded(&store, &[("/data/empty", &[])]).await;
    let scratch = tempfile::tempdir().unwrap();
    let places = fetch(&store, &spec, scratch.path()).await.unwrap();
    assert!(places["/data/empty"].is_dir());
    assert_eq!(guard_sources(&spec, &places, || Ok(())), Ok(()));
}

#[tokio::test]
async fn scripts_are_made_executable() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path().to_str().unwrap(), StoreOptions::default()).await.unwrap();
    let script = "#!/bin/sh\necho hello\n";
    let spec = uploaded(&store, &[("/x/go.sh", &[("", script)]), ("/x/notes.md", &[("", "# notes")])]).await;
    let scratch = tempfile::tempdir().unwrap();
    let places = fetch(&store, &spec, scratch.path()).await.unwrap();
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o111;
    assert_eq!((mode(&places["/x/go.sh"]), mode(&places["/x/notes.md"])), (0o111, 0));
    let object = trainyard_store::layout::object(&Digest::of(script.as_bytes()));
    assert_eq!(mode(&folder.path().join(object)), 0);
}

#[tokio::test]
async fn fetch_errors_name_the_source() {
    let store = memory().await;
    let scratch = tempfile::tempdir().unwrap();
    let mut gone = uploaded(&store, &[("/data/x", &[("", "x")])]).await;
    gone.uploaded.get_mut("/data/x").unwrap()[0].digest = Digest::of(b"other");
    let mut outside = uploaded(&store, &[("/data/y", &[("y", "y")])]).await;
    outside.uploaded.get_mut("/data/y").unwrap()[0].path = "../y".into();
    let unnamed = uploaded(&store, &[("/", &[("y", "y")])]).await;
    for (spec, source) in [(gone, "/data/x"), (outside, "/data/y"), (unnamed, "/")] {
        let error = fetch(&store, &spec, scratch.path()).await.unwrap_err();
        assert!(error.message.starts_with(&format!("the source {source}: ")), "{error}");
    }
}

fn localized(config: Value, places: &[(&str, &str)]) -> Value {
    let places = places.iter().map(|(source, place)| (source.to_string(), PathBuf::from(place))).collect();
    localize(&AttemptSpec { config, ..spec() }, &places).config
}

#[test]
fn equal_texts_are_replaced() {
    let config = json!({
        "files": {"train.py": "/w/train.py", "/w/train.py": "/w/lib"},
        "argv": ["python", "/w/train.py", {"$text": ["--at=", "/w/train.py"]}],
        "source": "/w/lib", "depth": {"of": [[{"it": "/w/lib"}]]}, "n": 1, "b": true, "none": null,
    });
    let expected = json!({
        "files": {"train.py": "/s/0/train.py", "/w/train.py": "/s/1/lib"},
        "argv": ["python", "/s/0/train.py", {"$text": ["--at=", "/s/0/train.py"]}],
        "source": "/s/1/lib", "depth": {"of": [[{"it": "/s/1/lib"}]]}, "n": 1, "b": true, "none": null,
    });
    assert_eq!(localized(config, &[("/w/train.py", "/s/0/train.py"), ("/w/lib", "/s/1/lib")]), expected);
}

#[test]
fn containing_texts_are_unchanged() {
    let config = json!(["/w/lib/x", "x/w/lib", "/w/li", "/w/lib ", "cat /w/lib", "", "/w"]);
    assert_eq!(localized(config.clone(), &[("/w/lib", "/s/0/lib")]), config);
}

#[test]
fn replacements_are_not_replaced_again() {
    let places = [("/a/x", "/b/x"), ("/b/x", "/c/x")];
    assert_eq!(localized(json!(["/a/x", "/b/x"]), &places), json!(["/b/x", "/c/x"]));
}

/// Generates JSON of texts that equal, contain, or are unrelated to the path of the source.
fn configs() -> impl Strategy<Value = Value> {
    let text = prop_oneof![Just("/w/x".to_string()), "/w/x[a-z/ ]{1,3}", "[a-z/ ]{1,3}/w/x", "[a-z/]{0,6}"];
    let leaf = prop_oneof![text.prop_map(Value::String), any::<bool>().prop_map(Value::Bool), Just(Value::Null)];
    leaf.prop_recursive(4, 32, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::Array),
            proptest::collection::btree_map("[a-z]{1,3}|/w/x", inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

fn texts(value: &Value) -> Vec<String> {
    match value {
        Value::String(text) => vec![text.clone()],
        Value::Array(list) => list.iter().flat_map(texts).collect(),
        Value::Object(map) => map.values().flat_map(texts).collect(),
        _ => Vec::new(),
    }
}

proptest! {
    #[test]
    fn only_equal_texts_change(config in configs()) {
        let here = localized(config.clone(), &[("/w/x", "/s/0/x")]);
        let expected: Vec<String> =
            texts(&config).into_iter().map(|t| if t == "/w/x" { "/s/0/x".into() } else { t }).collect();
        prop_assert_eq!(texts(&here), expected);
        prop_assert_eq!(localized(here, &[("/s/0/x", "/w/x")]), config, "keys and everything else stay");
    }
}
