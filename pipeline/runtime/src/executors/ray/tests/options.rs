//! Tests that options are validated before any request is sent.

use super::ray;
use crate::executors::ray::RayOptions;
use serde_json::{Value, json};
use std::time::Duration;
use trainyard_core::ErrorKind;

fn refused(options: Value) -> String {
    let error = ray("http://127.0.0.1:8265", options).err().unwrap();
    assert_eq!(error.kind, ErrorKind::Invalid);
    error.to_string()
}

fn read(options: Value) -> RayOptions {
    serde_json::from_value(options).unwrap()
}

#[test]
fn address_is_the_only_required_option() {
    let options = read(json!({"address": "http://127.0.0.1:8265/"}));
    assert_eq!(options.address().unwrap(), "http://127.0.0.1:8265");
    assert_eq!(options.interval().unwrap(), Duration::from_secs(2));
    assert_eq!(options.token_variable().unwrap(), None);
    assert!(!options.autoscaling && !options.shared_filesystem);
    assert!(serde_json::from_value::<RayOptions>(json!({})).is_err(), "without an address there is no cluster");
    assert!(serde_json::from_value::<RayOptions>(json!({"address": "http://a", "adress": 1})).is_err());
}

#[test]
fn address_path_is_kept() {
    assert_eq!(read(json!({"address": "https://gate.example/ray/"})).address().unwrap(), "https://gate.example/ray");
}

#[test]
fn invalid_addresses_are_reported() {
    for (address, part) in [
        ("127.0.0.1:8265", "is not an address"),
        ("ray://127.0.0.1:10001", "has the scheme `ray`"),
        ("http://127.0.0.1:8265/?x=1", "must not have a query or a fragment"),
    ] {
        let error = read(json!({"address": address})).address().unwrap_err().to_string();
        assert!(error.contains(part) && error.contains("http://127.0.0.1:8265"), "{error}");
    }
}

#[test]
fn token_in_the_file_is_refused_and_not_printed() {
    for token in ["hunter2", "env:"] {
        let error = refused(json!({"token": token}));
        assert!(error.contains("token: env:NAME") && !error.contains("hunter2"), "{error}");
    }
}

#[test]
fn invalid_resources_are_reported() {
    for (resources, part) in [
        (json!({"GPU": 1}), "GPU, which is not a custom resource"),
        (json!({"memory": 1}), "memory, which is not a custom resource"),
        (json!({"h100": 0}), "requests 0 of h100"),
        (json!({"h100": -1}), "requests -1 of h100"),
    ] {
        let error = refused(json!({"resources": resources}));
        assert!(error.contains(part), "{error}");
    }
    let options = read(json!({"address": "http://a", "resources": {"h100": 2, "accelerator_type:H100": 0.001}}));
    assert_eq!(options.custom_resources().unwrap().to_string(), "accelerator_type:H100: 0.001, h100: 2");
}

#[test]
fn pool_variables_override_runtime_environment() {
    let options = read(json!({
        "address": "http://a", "runtime_env": {"env_vars": {"A": "1", "B": "2"}}, "environment": {"B": "3"}
    }));
    let variables: Vec<(String, String)> = options.variables().unwrap().into_iter().collect();
    assert_eq!(variables, [("A".to_string(), "1".to_string()), ("B".to_string(), "3".to_string())]);
    assert!(refused(json!({"runtime_env": {"env_vars": {"A": 1}}})).contains("must map names to texts"));
    assert!(refused(json!({"runtime_env": {"env_vars": ["A"]}})).contains("must map names to texts"));
}

#[test]
fn poll_intervals_are_validated() {
    assert!(refused(json!({"poll": "2"})).contains("is not a duration"));
    assert!(refused(json!({"poll": "1ms"})).contains("too short"));
}
