use super::*;
use safetensors::Dtype;
use safetensors::tensor::{TensorView, serialize};
use serde_json::{Value, json};
use trainyard_core::{Manifest, artifact::TableSummary};
use trainyard_store::StoreOptions;

/// Tensors of a test: name, type, shape. Their bytes are zero.
type Tensors<'a> = &'a [(&'a str, Dtype, &'a [usize])];

fn safetensors(tensors: Tensors<'_>) -> Vec<u8> {
    let width = |dtype: Dtype| if dtype == Dtype::F32 { 4 } else { 2 };
    let bytes: Vec<Vec<u8>> =
        tensors.iter().map(|(_, dtype, shape)| vec![0; shape.iter().product::<usize>() * width(*dtype)]).collect();
    let views = tensors.iter().zip(&bytes).map(|((name, dtype, shape), bytes)| {
        ((*name).to_string(), TensorView::new(*dtype, shape.to_vec(), bytes).unwrap())
    });
    serialize(views, None).unwrap()
}

fn whole() -> Vec<u8> {
    safetensors(&[
        ("model.embed_tokens.weight", Dtype::F32, &[10, 4]),
        ("model.layers.0.input_layernorm.weight", Dtype::F32, &[4]),
        ("model.layers.0.self_attn.q_proj.weight", Dtype::BF16, &[4, 4]),
        ("model.layers.0.mlp.up_proj.weight", Dtype::BF16, &[8, 4]),
        ("model.norm.weight", Dtype::F32, &[4]),
    ])
}

fn config() -> Value {
    json!({"model_type": "llama", "num_hidden_layers": 1, "hidden_size": 4, "num_attention_heads": 2})
}

fn tokenizer() -> Value {
    let end = json!({"id": 9, "content": "<|end|>", "special": true});
    json!({"model": {"type": "WordLevel", "vocab": {"a": 0}}, "added_tokens": [end]})
}

async fn output(store: &Store, kind: ArtifactKind, files: &[(&str, Vec<u8>)], rows: Option<u64>) -> Output {
    let mut entries = Vec::new();
    for (path, bytes) in files {
        let (digest, size) = store.put_object(bytes.clone().into()).await.unwrap();
        entries.push(FileEntry { path: (*path).to_string(), digest, size });
    }
    let table = rows.map(|rows| TableSummary { rows, columns: Vec::new(), preview: Vec::new() });
    Output::new(kind, entries, table, Default::default()).unwrap()
}

/// Publishes a stage with one output, called `out`.
async fn publish(store: &Store, stage: &str, inputs: &[(&str, &ResolvedOutput)], output: Output) -> ResolvedOutput {
    let inputs: serde_json::Map<String, Value> =
        inputs.iter().map(|(name, found)| ((*name).to_string(), json!([reference(found)]))).collect();
    let manifest = json!({
        "format": 1, "stage_digest": Digest::of(stage.as_bytes()), "generation": 0, "kind": format!("kind-{stage}"),
        "kind_version": 1, "config": {}, "inputs": inputs, "outputs": {"out": output}, "metrics": {},
        "provenance": {"workflow": "w", "run": "r", "stage": stage, "attempt": 1},
    });
    let manifest: Manifest = serde_json::from_value(manifest).unwrap();
    store.publish(&manifest).await.unwrap();
    ResolvedOutput { manifest, port: "out".into() }
}

fn reference(found: &ResolvedOutput) -> Value {
    let (manifest, output) = (&found.manifest, found.output());
    json!({
        "stage_digest": manifest.stage_digest, "generation": 0, "output": "out", "kind": output.kind,
        "digest": output.digest,
    })
}

async fn memory() -> Store {
    Store::open("memory://", StoreOptions::default()).await.unwrap()
}

fn whole_files() -> Vec<(&'static str, Vec<u8>)> {
    vec![
        ("chat_template.jinja", b"{{ messages }}\n".to_vec()),
        ("config.json", config().to_string().into_bytes()),
        ("model.safetensors", whole()),
        ("tokenizer.json", tokenizer().to_string().into_bytes()),
        ("tokenizer_config.json", br#"{"eos_token": "<|end|>"}"#.to_vec()),
    ]
}

fn sums(counts: &ParameterCounts) -> Vec<(ModelPart, u64, u64, u64)> {
    counts.parts.iter().map(|part| (part.part, part.sum.tensors, part.sum.parameters, part.sum.bytes)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_is_shown_with_its_parts_and_its_sources() {
    let folder = tempfile::tempdir().unwrap();
    let on_disk = format!("file://{}", folder.path().join("store").display());
    for url in ["memory://", &on_disk] {
        let store = Store::open(url, StoreOptions::default()).await.unwrap();
        let rows = output(&store, ArtifactKind::Trajectories, &[("data.parquet", b"rows".to_vec())], Some(7)).await;
        let data = publish(&store, "data", &[], rows).await;
        let base_output = output(&store, ArtifactKind::Model, &whole_files(), None).await;
        let base = publish(&store, "base", &[], base_output).await;
        let mut files = whole_files();
        files[0].1 = b"{{ bos_token }}\n".to_vec();
        let tuned = output(&store, ArtifactKind::Model, &files, None).await;
        let sft = publish(&store, "sft", &[("model", &base), ("trajectories", &data)], tuned).await;

        let view = show(&store, &sft).await.unwrap().unwrap();
        assert_eq!(view.architecture, Some(ModelArchitecture::of_config(&config())));
        let counts = view.parameters.unwrap();
        // 40 + 4 + 4 numbers of four bytes, and 16 + 32 of two.
        assert_eq!(counts.total, TensorSum { tensors: 5, parameters: 96, bytes: 288 });
        let expected = [
            (ModelPart::Embeddings, 1, 40, 160),
            (ModelPart::Attention, 1, 16, 32),
            (ModelPart::Mlp, 1, 32, 64),
            (ModelPart::Norms, 2, 8, 32),
        ];
        assert_eq!(sums(&counts), expected);
        let dtypes: Vec<(&str, u64)> = counts.dtypes.iter().map(|t| (t.dtype.as_str(), t.sum.parameters)).collect();
        assert_eq!(dtypes, [("BF16", 48), ("F32", 48)]);
        let tokens = view.tokenizer.unwrap();
        assert_eq!((tokens.kind.as_str(), tokens.vocabulary), ("WordLevel", 10));
        assert_eq!(tokens.special[0].roles, ["eos_token"]);
        assert_eq!(view.template.unwrap().first_lines, ["{{ bos_token }}"]);
        assert_eq!((view.adapter, view.truncated, view.unreadable), (None, false, Vec::new()));

        let steps: Vec<&str> = view.made_from.iter().map(|step| step.artifact.as_str()).collect();
        assert_eq!(steps, ["r/sft/out", "r/base/out"]);
        let first = &view.made_from[0];
        assert_eq!((first.stage_kind.as_str(), first.digest.as_str()), ("kind-sft", sft.output().digest.as_str()));
        let inputs: Vec<(&str, &str, Option<u64>, bool)> = first
            .inputs
            .iter()
            .map(|input| (input.input.as_str(), input.artifact.as_str(), input.rows, input.is_stored))
            .collect();
        assert_eq!(inputs, [("model", "r/base/out", None, true), ("trajectories", "r/data/out", Some(7), true)]);
        assert_eq!(first.inputs[0].digest, view.made_from[1].digest);
        assert!(show(&store, &data).await.unwrap().is_none(), "not a model");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_adapter_is_shown_with_its_base() {
    let store = memory().await;
    let base_output = output(&store, ArtifactKind::Model, &whole_files(), None).await;
    let base = publish(&store, "base", &[], base_output).await;
    let lora = safetensors(&[
        ("base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight", Dtype::F32, &[2, 4]),
        ("base_model.model.model.layers.0.self_attn.q_proj.lora_B.weight", Dtype::F32, &[4, 2]),
    ]);
    let options = json!({"peft_type": "LORA", "r": 2, "lora_alpha": 4, "target_modules": ["q_proj"]});
    let files = [
        ("adapter_config.json", options.to_string().into_bytes()),
        ("adapter_model.safetensors", lora),
        ("base/config.json", config().to_string().into_bytes()),
        ("base/model.safetensors", whole()),
    ];
    let adapted = output(&store, ArtifactKind::Model, &files, None).await;
    let found = publish(&store, "rl", &[("model", &base)], adapted.clone()).await;
    let view = show(&store, &found).await.unwrap().unwrap();
    assert_eq!((view.architecture.unwrap().layers, view.parameters.unwrap().total.parameters), (Some(1), 96));
    let adapter = view.adapter.unwrap();
    assert_eq!((adapter.rank, adapter.alpha, adapter.targets), (Some(2), Some(4.0), vec!["q_proj".to_string()]));
    assert_eq!(adapter.base_artifact.as_deref(), Some("r/base/out"));
    assert_eq!(sums(&adapter.parameters.unwrap()), [(ModelPart::Attention, 2, 16, 64)]);
    assert_eq!((view.tokenizer, view.template, view.unreadable), (None, None, Vec::new()));
    let alone = publish(&store, "alone", &[], adapted).await;
    let view = show(&store, &alone).await.unwrap().unwrap();
    assert_eq!(view.adapter.unwrap().base_artifact, None, "no source has these weights");
}

#[tokio::test(flavor = "multi_thread")]
async fn shards_are_one_model_and_copies_do_not_count() {
    let store = memory().await;
    let one = safetensors(&[("model.norm.weight", Dtype::F32, &[4])]);
    let two = safetensors(&[("lm_head.weight", Dtype::F32, &[10, 4])]);
    let files = [
        ("consolidated.safetensors", safetensors(&[("output", Dtype::F32, &[10, 4])])),
        ("model-00001-of-00002.safetensors", one),
        ("model-00002-of-00002.safetensors", two),
    ];
    let made = output(&store, ArtifactKind::Model, &files, None).await;
    let view = show(&store, &publish(&store, "sharded", &[], made).await).await.unwrap().unwrap();
    assert_eq!(sums(&view.parameters.unwrap()), [(ModelPart::Norms, 1, 4, 16), (ModelPart::Head, 1, 40, 160)]);
    let made = output(&store, ArtifactKind::Model, &[("weights.bin", b"x".to_vec())], None).await;
    let view = show(&store, &publish(&store, "other", &[], made).await).await.unwrap().unwrap();
    assert_eq!((view.parameters, view.architecture, view.unreadable), (None, None, Vec::new()));
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_and_damaged_files_are_listed_and_the_rest_is_shown() {
    let store = memory().await;
    let cut = whole()[..40].to_vec();
    let files = [
        ("config.json", b"{half".to_vec()),
        ("model.safetensors", cut),
        ("tokenizer.json", br#"{"version": "1.0"}"#.to_vec()),
        ("tokenizer_config.json", br#"{"chat_template": "{{ messages }}"}"#.to_vec()),
    ];
    let made = output(&store, ArtifactKind::Model, &files, None).await;
    let mut found = publish(&store, "damaged", &[], made).await;
    let view = show(&store, &found).await.unwrap().unwrap();
    assert_eq!(view.template.unwrap().file, "tokenizer_config.json");
    let paths: Vec<&str> = view.unreadable.iter().map(|file| file.path.as_str()).collect();
    assert_eq!(paths, ["config.json", "model.safetensors", "tokenizer.json"]);
    for (file, why) in view.unreadable.iter().zip(["not valid JSON", "not a complete safetensors", "not a tokenizer"]) {
        let start = format!("file `{}`: {why}", file.path);
        assert!(file.why.starts_with(&start), "{}", file.why);
    }
    found.manifest.outputs.get_mut("out").unwrap().files[1].digest = Digest::of(b"never stored");
    let view = show(&store, &found).await.unwrap().unwrap();
    assert!(view.unreadable[1].why.starts_with("file `model.safetensors`: "), "{:?}", view.unreadable);
    assert_eq!((view.parameters, view.unreadable.len()), (None, 3));
}

#[tokio::test(flavor = "multi_thread")]
async fn inputs_whose_manifests_are_gone_are_named_by_digest() {
    let store = memory().await;
    let base_output = output(&store, ArtifactKind::Model, &whole_files(), None).await;
    let elsewhere = memory().await;
    let same_output = output(&elsewhere, ArtifactKind::Model, &whole_files(), None).await;
    let manifest = publish(&elsewhere, "base", &[], same_output).await.manifest;
    let gone = ResolvedOutput { manifest, port: "out".into() };
    let found = publish(&store, "sft", &[("model", &gone)], base_output).await;
    let view = show(&store, &found).await.unwrap().unwrap();
    let input = &view.made_from[0].inputs[0];
    let name = format!("{}/out", gone.manifest.stage_digest.short());
    assert_eq!((view.made_from.len(), &input.artifact, input.is_stored), (1, &name, false));
}
