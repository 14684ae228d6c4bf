use super::{AdamW, AdamWConfig, Decay, Gradients, LearningRateSchedule};
use candle_core::{Device, Tensor, Var};
use std::collections::BTreeMap;

fn parameters(values: &[(&str, f32, &[usize])]) -> BTreeMap<String, Var> {
    let fill = |(name, value, shape): &(&str, f32, &[usize])| {
        let n = shape.iter().product();
        (name.to_string(), Var::from_vec(vec![*value; n], *shape, &Device::Cpu).unwrap())
    };
    values.iter().map(fill).collect()
}

fn gradients(parameters: &BTreeMap<String, Var>, value: f32) -> Gradients {
    Gradients { values: parameters.iter().map(|(n, v)| (n.clone(), vec![value; v.elem_count()])).collect() }
}

fn first(v: &Var) -> f32 {
    v.flatten_all().unwrap().to_vec1::<f32>().unwrap()[0]
}

#[test]
fn the_first_steps_are_those_of_the_formula() {
    // with a constant gradient the corrected moments are g and g², so each step is the rate, after decay of matrices
    // by 1 - 0.1 · 0.1
    let p = parameters(&[("matrix", 1.0, &[1, 1]), ("vector", 1.0, &[1])]);
    let mut optimizer = AdamW::new(&p, AdamWConfig { weight_decay: 0.1, max_norm: None, ..AdamWConfig::default() });
    optimizer.step(&gradients(&p, 0.5), 0.1).unwrap();
    assert!((first(&p["matrix"]) - 0.89).abs() < 1e-6 && (first(&p["vector"]) - 0.9).abs() < 1e-6);
    optimizer.step(&gradients(&p, 0.5), 0.1).unwrap();
    assert!((first(&p["matrix"]) - 0.7811).abs() < 1e-6 && (first(&p["vector"]) - 0.8).abs() < 1e-6);
}

/// Returns the state as it is read back from its file.
fn saved(optimizer: &AdamW) -> BTreeMap<String, Tensor> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("optimizer.safetensors");
    optimizer.save(&path).unwrap();
    crate::checkpoint::load_tensors(&path).unwrap()
}

#[test]
fn clipping_scales_the_whole_gradient() {
    let p = parameters(&[("a", 0.0, &[2, 2]), ("b", 0.0, &[5])]);
    let g = gradients(&p, 2.0); // norm √(9 · 4) = 6
    assert!((g.global_norm() - 6.0).abs() < 1e-12);
    let mut optimizer = AdamW::new(&p, AdamWConfig { max_norm: Some(1.5), ..AdamWConfig::default() });
    let report = optimizer.step(&g, 0.1).unwrap();
    assert!((report.gradient_norm - 6.0).abs() < 1e-12 && (report.clip - 0.25).abs() < 1e-6);
    let moments = saved(&optimizer);
    let m = moments["first.a"].flatten_all().unwrap().to_vec1::<f32>().unwrap()[0];
    assert!((m - 0.1 * 0.5).abs() < 1e-7, "{m}");
}

#[test]
fn non_finite_gradient_is_reported_and_changes_nothing() {
    let p = parameters(&[("good", 1.0, &[2]), ("bad", 1.0, &[2])]);
    let mut g = gradients(&p, 0.5);
    g.values.get_mut("bad").unwrap()[1] = f32::NAN;
    let mut optimizer = AdamW::new(&p, AdamWConfig::default());
    let error = optimizer.step(&g, 0.1).unwrap_err();
    assert!(error.message.contains("`bad`") && error.kind == trainyard_core::ErrorKind::Data);
    assert_eq!((first(&p["good"]), optimizer.steps()), (1.0, 0));
}

#[test]
fn state_reloads_and_foreign_state_is_rejected() {
    let p = parameters(&[("a", 1.0, &[2, 3])]);
    let mut optimizer = AdamW::new(&p, AdamWConfig::default());
    optimizer.step(&gradients(&p, 0.5), 0.1).unwrap();
    let state = saved(&optimizer);
    let mut other = AdamW::new(&p, AdamWConfig::default());
    other.load(&state).unwrap();
    assert_eq!(other.steps(), 1);
    for (name, tensor) in saved(&other) {
        assert_eq!(
            tensor.to_dtype(candle_core::DType::F32).unwrap().flatten_all().unwrap().to_vec1::<f32>().unwrap(),
            state[&name].to_dtype(candle_core::DType::F32).unwrap().flatten_all().unwrap().to_vec1::<f32>().unwrap()
        );
    }

    let mut incomplete = state.clone();
    incomplete.remove("second.a");
    assert!(other.load(&incomplete).unwrap_err().message.contains("second.a"));
    let mut misshapen = state;
    misshapen.insert("first.a".into(), Tensor::zeros((3, 2), candle_core::DType::F32, &Device::Cpu).unwrap());
    assert!(other.load(&misshapen).unwrap_err().message.contains("[3, 2]"));
}

#[test]
fn schedules_match_at_their_boundaries() {
    let at = |decay, step| LearningRateSchedule { decay, warmup: 4, total: 12, floor: 0.1 }.rate(2.0, step);
    for decay in [Decay::Constant, Decay::Linear, Decay::Cosine] {
        assert_eq!((at(decay, 0), at(decay, 3), at(decay, 4)), (0.5, 2.0, 2.0));
    }
    assert_eq!(at(Decay::Constant, 1_000), 2.0);
    assert!((at(Decay::Linear, 8) - 1.1).abs() < 1e-12 && (at(Decay::Cosine, 8) - 1.1).abs() < 1e-12);
    assert!((at(Decay::Linear, 12) - 0.2).abs() < 1e-12 && (at(Decay::Cosine, 99) - 0.2).abs() < 1e-12);
    let none = LearningRateSchedule { decay: Decay::Cosine, warmup: 0, total: 0, floor: 0.0 };
    assert_eq!(none.rate(1.0, 0), 1.0);
}
