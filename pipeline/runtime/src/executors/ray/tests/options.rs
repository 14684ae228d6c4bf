//! Options are validated before any request is sent.

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
fn an_address_is_enough() {
    let options = read(json!({"address": "http://127.0.0.1:8265/"}));
    assert_eq!(options.address().unwrap(), "http://127.0.0.1:8265");
    assert_eq!(options.interval().unwrap(), Duration::from_secs(2));
    assert_eq!(options.token_variable().unwrap(), None);
    assert!(!options.autoscaling && !options.shared_filesystem);
    assert!(serde_json::from_value::<RayOptions>(json!({})).is_err(), "without an address there is no cluster");
    assert!(serde_json::from_value::<RayOptions>(json!({"address": "http://a", "adress": 1})).is_err());
}

#[test]
fn an_address_behind_a_path_is_kept() {
    assert_eq!(read(json!({"address": "https://gate.example/ray/"})).address().unwrap(), "https://gate.example/ray");
}

#[test]
fn wrong_addresses_are_named() {
    for (address, says) in [
        ("127.0.0.1:8265", "is not an address"),
        ("ray://127.0.0.1:10001", "has the scheme `ray`"),
        ("http://127.0.0.1:8265/?x=1", "must end with its path"),
    ] {
        let error = read(json!({"address": address})).address().unwrap_err().to_string();
        assert!(error.contains(says) && error.contains("http://127.0.0.1:8265"), "{error}");
    }
}

#[test]
fn a_token_in_the_file_is_refused_and_not_printed() {
    for token in ["hunter2", "env:"] {
        let error = refused(json!({"token": token}));
        assert!(error.contains("token: env:NAME") && !error.contains("hunter2"), "{error}");
    }
}

#[test]
fn resources_are_those_that_ray_takes() {
    for (resources, says) in [
        (json!({"GPU": 1}), "GPU, which is no custom resource"),
        (json!({"memory": 1}), "memory, which is no custom resource"),
        (json!({"h100": 0}), "asks for 0 of h100"),
        (json!({"h100": -1}), "asks for -1 of h100"),
    ] {
        let error = refused(json!({"resources": resources}));
        assert!(error.contains(says), "{error}");
    }
    let options = read(json!({"address": "http://a", "resources": {"h100": 2, "accelerator_type:H100": 0.001}}));
    assert_eq!(options.custom_resources().unwrap().to_string(), "accelerator_type:H100: 0.001, h100: 2");
}

#[test]
fn variables_of_the_pool_win_over_those_of_the_runtime_environment() {
    let options = read(json!({
        "address": "http://a", "runtime_env": {"env_vars": {"A": "1", "B": "2"}}, "environment": {"B": "3"}
    }));
    let variables: Vec<(String, String)> = options.variables().unwrap().into_iter().collect();
    assert_eq!(variables, [("A".to_string(), "1".to_string()), ("B".to_string(), "3".to_string())]);
    assert!(refused(json!({"runtime_env": {"env_vars": {"A": 1}}})).contains("must map names to texts"));
    assert!(refused(json!({"runtime_env": {"env_vars": ["A"]}})).contains("must map names to texts"));
}

#[test]
fn intervals_are_durations() {
    assert!(refused(json!({"poll": "2"})).contains("is not a duration"));
    assert!(refused(json!({"poll": "1ms"})).contains("too short"));
}
