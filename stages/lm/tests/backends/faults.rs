//! Tests servers that fail, return incorrect values or are unreachable.

use crate::kit::{PLAIN, open, options, refusal, request, turn};
use serde_json::{Value, json};
use std::time::Duration;
use trainyard_core::{ErrorKind, SecretName, Secrets};
use trainyard_lm::backend::conformance::model;
use trainyard_lm::backend::endpoint::{Endpoint, EndpointBackend, InferenceServerKind};
use trainyard_lm::backend::{Backend as _, SamplerOptions};
use trainyard_testkit_lm::{MODEL, MockModelServer, MockServerFault, MockServerOptions};

fn served(server: InferenceServerKind) -> MockModelServer {
    MockModelServer::start(server, &model(), MockServerOptions::default()).unwrap()
}

fn edit(change: impl Fn(&mut Value) + Send + 'static) -> MockServerFault {
    MockServerFault::Edit(Box::new(change))
}

const TURNS: [(InferenceServerKind, &str); 3] = [
    (InferenceServerKind::Vllm, "/v1/completions"),
    (InferenceServerKind::Sglang, "/generate"),
    (InferenceServerKind::LlamaCpp, "/completion"),
];

#[test]
fn transient_faults_are_retried_without_effect() {
    for (server, path) in TURNS {
        let served = served(server);
        let mut sampler = open(options(server, &served.url()), &model()).unwrap();
        let expected = turn(&mut *sampler, request(PLAIN, 5)).unwrap();
        let faults = [
            MockServerFault::Status(429, vec![("retry-after", "1")], r#"{"error": {"message": "slow down"}}"#.into()),
            MockServerFault::Status(503, vec![], "loading".into()),
            MockServerFault::Close,
            MockServerFault::Cut,
            MockServerFault::Half,
            MockServerFault::Drip(Duration::from_millis(2)),
            MockServerFault::Late(Duration::from_millis(200)),
        ];
        for fault in faults {
            served.inject_fault(path, fault);
            assert_eq!(turn(&mut *sampler, request(PLAIN, 5)).unwrap().token_ids, expected.token_ids);
        }
    }
}

#[test]
fn persistent_faults_end_the_attempt_as_retryable() {
    let served = served(InferenceServerKind::Vllm);
    let mut sampler = open(options(InferenceServerKind::Vllm, &served.url()), &model()).unwrap();
    for _ in 0..2 {
        served.inject_fault(
            "/v1/completions",
            MockServerFault::Status(500, vec![], r#"{"detail": "out of\nmemory"}"#.into()),
        );
    }
    let error = turn(&mut *sampler, request(PLAIN, 5)).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Retryable);
    assert!(error.message.contains("returned status 500: out of memory (2 attempts)"), "{error}");

    let mut sampler = open(options(InferenceServerKind::Vllm, &served.url()), &model()).unwrap();
    served.inject_fault("/v1/completions", MockServerFault::Status(429, vec![("retry-after", "86400")], String::new()));
    let error = turn(&mut *sampler, request(PLAIN, 5)).unwrap_err();
    assert!(error.kind == ErrorKind::Retryable && error.message.contains("requested delay: 86400 s"), "{error}");

    let quick = Endpoint { timeout: "1500ms".into(), attempts: 1, ..options(InferenceServerKind::Vllm, &served.url()) };
    let mut sampler = open(quick, &model()).unwrap();
    served.inject_fault("/v1/completions", MockServerFault::Late(Duration::from_secs(5)));
    let error = turn(&mut *sampler, request(PLAIN, 5)).unwrap_err();
    assert!(error.kind == ErrorKind::Retryable && error.message.contains("did not answer within 1.5s"), "{error}");

    let unreachable = Endpoint { attempts: 1, ..options(InferenceServerKind::Vllm, "http://127.0.0.1:9") };
    let error = refusal(unreachable, &model());
    assert!(error.kind == ErrorKind::Retryable && error.message.contains("cannot be reached"), "{error}");
}

#[test]
fn responses_without_requested_fields_are_rejected_by_name() {
    type Change = fn(&mut Value);
    let cases: [(InferenceServerKind, &str, Change, &str); 9] = [
        (InferenceServerKind::Vllm, "/v1/completions", |a| a["choices"][0]["token_ids"] = Value::Null, "`token_ids`"),
        (
            InferenceServerKind::Vllm,
            "/v1/completions",
            |a| a["choices"][0]["logprobs"] = Value::Null,
            "`logprobs.token_logprobs`",
        ),
        (InferenceServerKind::Vllm, "/v1/completions", |a| a["choices"] = json!([]), "`choices.0`"),
        (
            InferenceServerKind::Vllm,
            "/v1/completions",
            |a| a["choices"][0]["logprobs"]["token_logprobs"] = json!([]),
            "token_logprobs",
        ),
        (
            InferenceServerKind::Vllm,
            "/v1/completions",
            |a| a["choices"][0]["logprobs"]["token_logprobs"][0] = json!(3.5),
            "3.5",
        ),
        (
            InferenceServerKind::Sglang,
            "/generate",
            |a| a["meta_info"]["output_token_logprobs"] = Value::Null,
            "output_token_logprobs",
        ),
        (InferenceServerKind::Sglang, "/generate", |a| a["output_ids"] = json!([1, 2]), "`output_ids`"),
        (InferenceServerKind::LlamaCpp, "/completion", |a| a["tokens"] = Value::Null, "`tokens`"),
        (InferenceServerKind::LlamaCpp, "/completion", |a| a["truncated"] = json!(true), "truncated the prompt"),
    ];
    for (server, path, change, named) in cases {
        let served = served(server);
        // The first request is the probe's.
        served.inject_fault(path, edit(change));
        let error = refusal(options(server, &served.url()), &model());
        assert!(error.kind == ErrorKind::Data && error.to_string().contains(named), "{named}: {error}");
    }
}

#[test]
fn tokens_outside_the_vocabulary_are_rejected() {
    let served = served(InferenceServerKind::Vllm);
    let mut sampler = open(options(InferenceServerKind::Vllm, &served.url()), &model()).unwrap();
    served.inject_fault("/v1/completions", edit(|a| a["choices"][0]["token_ids"][0] = json!(100_000)));
    let error = turn(&mut *sampler, request(PLAIN, 3)).unwrap_err();
    assert!(error.kind == ErrorKind::Data && error.to_string().contains("100000"), "{error}");
}

#[test]
fn repeated_empty_responses_are_an_error() {
    let served = served(InferenceServerKind::Sglang);
    let mut sampler = open(options(InferenceServerKind::Sglang, &served.url()), &model()).unwrap();
    for _ in 0..3 {
        served.inject_fault(
            "/generate",
            edit(|a| {
                a["output_ids"] = json!([]);
                a["meta_info"]["output_token_logprobs"] = json!([]);
            }),
        );
    }
    let error = turn(&mut *sampler, request(PLAIN, 3)).unwrap_err();
    assert!(error.message.contains("without a token"), "{error}");
}

#[test]
fn other_http_servers_are_rejected() {
    let served = served(InferenceServerKind::Vllm);
    served.inject_fault("/v1/models", MockServerFault::Text("<html>It works!</html>".into()));
    let error = refusal(options(InferenceServerKind::Vllm, &served.url()), &model());
    assert!(error.kind == ErrorKind::Data && error.message.contains("invalid JSON"), "{error}");
    served.inject_fault(
        "/v1/models",
        MockServerFault::Status(302, vec![("location", "http://example.org/")], String::new()),
    );
    let error = refusal(options(InferenceServerKind::Vllm, &served.url()), &model());
    assert!(error.kind == ErrorKind::Invalid && error.message.contains("redirects the request"), "{error}");
}

#[test]
fn server_with_another_model_is_rejected() {
    let served = served(InferenceServerKind::Vllm);
    let named = |name: &str| Endpoint { model: Some(name.into()), ..options(InferenceServerKind::Vllm, &served.url()) };
    assert!(open(named(MODEL), &model()).is_ok());
    let error = refusal(named("qwen"), &model());
    assert!(error.message.contains("does not serve the model `qwen`") && error.help.unwrap().contains(MODEL));

    served.inject_fault("/v1/models", edit(|a| a["data"] = json!([{"id": "a"}, {"id": "b"}])));
    let error = refusal(options(InferenceServerKind::Vllm, &served.url()), &model());
    assert!(error.help.unwrap().contains("set `model` to one of them; it serves a, b"), "{}", error.message);

    for server in [InferenceServerKind::Vllm, InferenceServerKind::Sglang, InferenceServerKind::LlamaCpp] {
        let served = MockModelServer::start(server, &model(), MockServerOptions::default()).unwrap();
        for _ in 0..8 {
            // Texts are compared in pairs; the end tokens alone are shorter.
            served.inject_fault(
                "/tokenize",
                edit(|a| {
                    if let Some(token) = a["tokens"].get_mut(2) {
                        *token = json!(token.as_u64().unwrap() + 1);
                    }
                }),
            );
        }
        let error = refusal(options(server, &served.url()), &model());
        assert_eq!(error.kind, ErrorKind::Invalid);
        assert!(error.message.contains("differs from the model's: token 2 of a test text"), "{error}");
    }
}

#[test]
fn api_key_is_sent_and_a_missing_one_is_reported() {
    let server_options = MockServerOptions { key: Some("sesame".into()), ..MockServerOptions::default() };
    let served = MockModelServer::start(InferenceServerKind::Vllm, &model(), server_options).unwrap();
    let error = refusal(options(InferenceServerKind::Vllm, &served.url()), &model());
    assert!(error.kind == ErrorKind::Invalid && error.help.as_ref().unwrap().contains("{secret: NAME}"), "{error}");
    let api_key = Some(SecretName { secret: "LLM".into() });
    let options = Endpoint { api_key, ..options(InferenceServerKind::Vllm, &served.url()) };
    let with = |value: &str| {
        let secrets = Secrets::new([("LLM".to_string(), value.to_string())]);
        EndpointBackend::new(options.clone(), &secrets).sampler(&model(), &SamplerOptions { threads: 1 }).map(|_| ())
    };
    with("sesame").unwrap();
    assert_eq!(with("open").unwrap_err().kind, ErrorKind::Invalid);
    let error = refusal(options, &model());
    assert!(error.message.contains("was not given the secret `LLM`"), "{error}");
}
