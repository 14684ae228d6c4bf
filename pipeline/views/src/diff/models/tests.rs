use super::*;
use half::{bf16, f16};
use safetensors::tensor::{TensorView, serialize};
use trainyard_core::ErrorKind;
use trainyard_store::StoreOptions;

/// Tensor of a test: name, type, shape, bytes.
type Tensor = (&'static str, Dtype, Vec<usize>, Vec<u8>);

fn floats(name: &'static str, values: &[f32]) -> Tensor {
    (name, Dtype::F32, vec![values.len()], values.iter().flat_map(|value| value.to_le_bytes()).collect())
}
fn brain(name: &'static str, values: &[f32]) -> Tensor {
    let bytes = values.iter().flat_map(|value| bf16::from_f32(*value).to_le_bytes()).collect();
    (name, Dtype::BF16, vec![values.len()], bytes)
}
fn halves(name: &'static str, values: &[f32]) -> Tensor {
    let bytes = values.iter().flat_map(|value| f16::from_f32(*value).to_le_bytes()).collect();
    (name, Dtype::F16, vec![values.len()], bytes)
}
fn integers(name: &'static str, values: &[i64]) -> Tensor {
    (name, Dtype::I64, vec![values.len()], values.iter().flat_map(|value| value.to_le_bytes()).collect())
}

fn file(tensors: &[Tensor]) -> Vec<u8> {
    let view = |(name, dtype, shape, bytes): &'_ Tensor| -> (String, Dtype, Vec<usize>, Vec<u8>) {
        ((*name).to_string(), *dtype, shape.clone(), bytes.clone())
    };
    let owned: Vec<_> = tensors.iter().map(view).collect();
    let views = owned
        .iter()
        .map(|(name, dtype, shape, bytes)| (name.as_str(), TensorView::new(*dtype, shape.clone(), bytes).unwrap()));
    serialize(views, None).unwrap()
}

async fn stored(store: &Store, files: &[(&str, Vec<u8>)]) -> Vec<FileEntry> {
    let mut entries = Vec::new();
    for (path, bytes) in files {
        let (digest, size) = store.put_object(bytes.clone().into()).await.unwrap();
        entries.push(FileEntry { path: (*path).to_string(), digest, size });
    }
    entries
}

/// Compares two models of one file each, in a store on a disk and in one that is read by ranges.
async fn compared(a: &[Tensor], b: &[Tensor]) -> TensorsDiff {
    let folder = tempfile::tempdir().unwrap();
    let on_disk = format!("file://{}", folder.path().join("store").display());
    let mut found = Vec::new();
    for url in ["memory://", &on_disk] {
        let store = Store::open(url, StoreOptions::default()).await.unwrap();
        let a = stored(&store, &[("model.safetensors", file(a)), ("config.json", b"{}".to_vec())]).await;
        let b = stored(&store, &[("model.safetensors", file(b))]).await;
        found.push(in_thread(store, a, b).await.unwrap());
    }
    assert_eq!(found[0], found[1]);
    found.remove(0)
}

async fn in_thread(store: Store, a: Vec<FileEntry>, b: Vec<FileEntry>) -> Result<TensorsDiff> {
    let runtime = Handle::current();
    let work = move || compare_tensors(&store, ("r/a/model", &a), ("r/b/model", &b), &runtime);
    tokio::task::spawn_blocking(work).await.unwrap()
}

fn names(tensors: &[ChangedTensor]) -> Vec<&str> {
    tensors.iter().map(|tensor| tensor.name.as_str()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn relative_norms_are_sorted_and_the_rest_is_listed() {
    let a = [floats("w", &[3.0, 4.0]), floats("small", &[10.0, 0.0]), floats("same", &[1.0]), floats("gone", &[1.0])];
    let b = [floats("w", &[3.0, 9.0]), floats("small", &[10.0, 1.0]), floats("same", &[1.0]), floats("new", &[1.0])];
    let found = compared(&a, &b).await;
    assert_eq!(
        (found.equal, found.only_a.as_slice(), found.only_b.as_slice()),
        (1, &["gone".into()][..], &["new".into()][..])
    );
    assert_eq!(names(&found.changed), ["w", "small"]);
    assert_eq!((found.changed[0].relative, found.changed[0].norm), (Some(1.0), Some(5.0)));
    assert_eq!((found.changed[1].relative, found.changed[1].norm), (Some(0.1), Some(1.0)));
    // ‖a‖² = 25 + 100 + 1, ‖a−b‖² = 25 + 1.
    assert_eq!(found.relative, Some((26.0_f64 / 126.0).sqrt()));
}

#[tokio::test(flavor = "multi_thread")]
async fn types_shapes_and_integers_differ() {
    let mut matrix = floats("m", &[1.0, 2.0]);
    matrix.2 = vec![2, 1];
    let a = [floats("exact", &[0.5, 2.0]), halves("h", &[1.0, 3.0]), integers("i", &[1, 2]), floats("m", &[1.0, 2.0])];
    let b = [brain("exact", &[0.5, 2.0]), halves("h", &[1.0, 3.5]), integers("i", &[1, 3]), matrix];
    let found = compared(&a, &b).await;
    assert_eq!(found.reshaped, [ReshapedTensor { name: "m".into(), a: vec![2], b: vec![2, 1] }]);
    assert_eq!(names(&found.changed), ["i", "h", "exact"], "those without a number are first");
    assert_eq!((found.changed[0].relative, found.changed[0].norm), (None, None));
    assert_eq!(found.changed[1].norm, Some(0.5));
    let exact = &found.changed[2];
    assert_eq!((exact.dtype_a.as_str(), exact.dtype_b.as_str(), exact.relative), ("F32", "BF16", Some(0.0)));
}

#[tokio::test(flavor = "multi_thread")]
async fn values_without_a_norm_have_no_relative_difference() {
    let a = [floats("zero", &[0.0, 0.0]), floats("nan", &[f32::NAN]), floats("empty", &[])];
    let found = compared(&a, &[floats("zero", &[0.0, 2.0]), floats("nan", &[1.0]), floats("empty", &[])]).await;
    assert_eq!((found.equal, names(&found.changed)), (1, vec!["nan", "zero"]));
    assert_eq!((found.changed[0].relative, found.changed[0].norm), (None, None));
    assert_eq!((found.changed[1].relative, found.changed[1].norm), (None, Some(2.0)));
    assert_eq!(compared(&a, &a).await.equal, 3, "equal bytes are equal, also of a NaN");
}

#[tokio::test(flavor = "multi_thread")]
async fn tensors_of_several_parts_and_files_are_compared() {
    let long: Vec<f32> = vec![1.0; PART as usize + 7];
    let mut other = long.clone();
    other[PART as usize + 6] = 3.0;
    let store = Store::open("memory://", StoreOptions::default()).await.unwrap();
    let one = stored(&store, &[("model.safetensors", file(&[floats("w", &long), floats("x", &[1.0])]))]).await;
    let parts = [("1.safetensors", file(&[floats("x", &[1.0])])), ("2.safetensors", file(&[floats("w", &other)]))];
    let found = in_thread(store.clone(), one, stored(&store, &parts).await).await.unwrap();
    assert_eq!((found.equal, found.changed[0].norm), (1, Some(2.0)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_file_is_named() {
    let store = Store::open("memory://", StoreOptions::default()).await.unwrap();
    let good = file(&[floats("w", &[1.0, 2.0])]);
    let cut = good[..good.len() - 1].to_vec();
    let mut long = good.clone();
    long[..8].copy_from_slice(&u64::MAX.to_le_bytes());
    for bytes in [cut, long, b"abc".to_vec(), b"\x02\0\0\0\0\0\0\0[]".to_vec()] {
        let whole = stored(&store, &[("model.safetensors", good.clone())]).await;
        let damaged = stored(&store, &[("model.safetensors", bytes)]).await;
        let error = in_thread(store.clone(), whole, damaged).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Data, "{error}");
        assert!(
            error.message.starts_with("r/b/model: file `model.safetensors`: not a complete safetensors"),
            "{error}"
        );
    }
}
