//! Tests constraints by the texts that they permit, and by those that random models write under them.

use super::{Grammar, GrammarBuilder, GrammarConstraint, SchemaCompiler, TokenBytes};
use crate::ModelConfig;
use crate::decoder::Decoder;
use crate::generate::{DrawKey, Generator, SequenceFinish, SequenceId, SequenceRequest, TokenConstraint as _};
use crate::tokenizer::{Tokenizer, character_tokenizer, train_bpe};
use serde_json::{Value, json};
use std::sync::Arc;
use trainyard_core::{Chance, Result};
use trainyard_tables::SamplingParams;

fn grammar(schema: &Value) -> Result<Arc<Grammar>> {
    let mut builder = GrammarBuilder::new(&[]);
    let start = SchemaCompiler::new(&mut builder, schema).compile()?;
    Ok(Arc::new(builder.build(start)))
}

fn tokenizer() -> Tokenizer {
    character_tokenizer(["é"], &["<|end|>", "<tool_call>"]).unwrap()
}

fn constraint(tokenizer: &Tokenizer, schema: &Value) -> GrammarConstraint {
    let tokens = Arc::new(TokenBytes::new(tokenizer).unwrap());
    GrammarConstraint::new(tokens, grammar(schema).unwrap(), &[tokenizer.token_id("<|end|>").unwrap()]).unwrap()
}

/// Returns whether the constraint permits a text as a whole turn.
fn accepts(tokenizer: &Tokenizer, schema: &Value, text: &str) -> bool {
    let mut constraint = constraint(tokenizer, schema);
    let mut ids = tokenizer.encode(text).unwrap();
    ids.extend(tokenizer.token_id("<|end|>"));
    ids.into_iter().all(|id| {
        let allowed = constraint.allowed().contains(&id);
        constraint.advance(id);
        allowed
    })
}

#[test]
fn only_values_of_the_schema_are_permitted() {
    let person = json!({"type": "object", "required": ["name"], "properties": {
        "name": {"type": "string", "minLength": 1}, "age": {"type": "integer", "minimum": 0, "maximum": 150}}});
    let tree = json!({"$ref": "#/$defs/node", "$defs": {"node": {"type": "object", "required": ["children"],
        "properties": {"children": {"type": "array", "items": {"$ref": "#/$defs/node"}}}}}});
    let pair = json!({"type": "array", "prefixItems": [{"type": "integer"}, {"type": "boolean"}], "items": false,
        "minItems": 2});
    let counts = json!({"type": "object", "additionalProperties": {"type": "integer"}, "maxProperties": 2});
    let shape = json!({"oneOf": [
        {"type": "object", "required": ["k"], "properties": {"k": {"const": "a"}, "x": {"type": "null"}}},
        {"type": "object", "required": ["k"], "properties": {"k": {"const": "b"}}}]});
    let cases: [(&Value, &[&str], &[&str]); 9] = [
        (
            &person,
            &["{\"name\": \"Ann\", \"age\": 30}", "{\"age\":3,\"name\":\"é\"}", "{\n  \"name\": \"x\"\n}"],
            &[
                "{}",
                "{\"name\": \"\"}",
                "{\"name\": 3}",
                "{\"name\": \"a\", \"age\": 151}",
                "{\"name\": \"a\",}",
                "{\"name\": \"a\", \"name\": \"b\"}",
                "{\"name\": \"a\", \"x\": 1}",
                "[]",
                " {\"name\": \"a\"}",
            ],
        ),
        (&tree, &["{\"children\": []}", "{\"children\": [{\"children\": []}]}"], &["{\"children\": [1]}", "{}"]),
        (&pair, &["[1, true]"], &["[1]", "[true, 1]", "[1, true, 2]"]),
        (&counts, &["{}", "{\"a\": 1, \"b\": 2}"], &["{\"a\": 1, \"b\": 2, \"c\": 3}", "{\"a\": \"x\"}"]),
        (
            &shape,
            &["{\"k\": \"b\"}", "{\"x\": null, \"k\": \"a\"}"],
            &["{\"k\": \"c\"}", "{\"k\": \"b\", \"x\": null}"],
        ),
        (&json!({"type": ["string", "null"]}), &["null", "\"\""], &["1", "nul"]),
        (&json!({"enum": ["red", 3, null], "type": ["string", "integer"]}), &["\"red\"", "3"], &["null", "\"blue\""]),
        (
            &json!({"type": "string", "format": "date-time"}),
            &["\"2024-02-28T23:59:00Z\""],
            &["\"2024-13-01T00:00:00Z\"", "\"x\""],
        ),
        (&json!(true), &["[{\"a\": [1.5, null]}, \"x\"]", "-3"], &["[1", "{1: 2}", "tru"]),
    ];
    let tokenizer = tokenizer();
    for (schema, good, bad) in cases {
        for text in good {
            assert!(accepts(&tokenizer, schema, text), "{schema}: {text}");
        }
        for text in bad {
            assert!(!accepts(&tokenizer, schema, text), "{schema}: {text}");
        }
    }
}

#[test]
fn tokens_of_several_bytes_are_permitted_where_their_text_is() {
    let tokenizer = train_bpe(["{\"name\": \"name\", \"name\": \"name\"}"; 4], 300, &["<|end|>"]).unwrap();
    let schema = json!({"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}}});
    for text in ["{\"name\": \"name\"}", "{\"name\": \"☃ é\"}"] {
        assert!(accepts(&tokenizer, &schema, text), "{text}");
    }
    let mut constraint = constraint(&tokenizer, &schema);
    let ids = tokenizer.encode("{\"name\": \"").unwrap();
    assert!(ids.len() < 8, "merges: {ids:?}");
    ids.iter().for_each(|id| constraint.advance(*id));
    let end = tokenizer.token_id("<|end|>").unwrap();
    let colon = tokenizer.token_id("\":").unwrap();
    let allowed = constraint.allowed();
    assert!(!allowed.contains(&end) && !allowed.contains(&colon));
    assert!(
        allowed.contains(&tokenizer.token_id("\"}").unwrap()),
        "the end of the text and of the object in one token"
    );
}

#[test]
fn added_tokens_are_permitted_only_where_the_grammar_names_them() {
    let tokenizer = tokenizer();
    let marker = tokenizer.token_id("<tool_call>").unwrap();
    let mut inside = constraint(&tokenizer, &json!({"type": "string"}));
    inside.advance(tokenizer.token_id("\"").unwrap());
    assert!(!inside.allowed().contains(&marker));
    let mut builder = GrammarBuilder::new(&["<tool_call>", "</tool_call>"]);
    let open = builder.literal("<tool_call>");
    let value = SchemaCompiler::any_object(&mut builder);
    let start = builder.sequence(&[open, value]);
    let tokens = Arc::new(TokenBytes::new(&tokenizer).unwrap());
    let mut call = GrammarConstraint::new(tokens, Arc::new(builder.build(start)), &[0]).unwrap();
    assert!(call.allowed().contains(&marker));
    call.advance(marker);
    let allowed = call.allowed();
    assert_eq!(allowed, [tokenizer.token_id("{").unwrap()]);
}

#[test]
fn unsupported_schemas_are_refused_with_their_place() {
    for (schema, place) in [
        (json!({"type": "string", "pattern": "a+"}), "/pattern"),
        (
            json!({"type": "object", "properties": {"a": {"type": "array", "uniqueItems": true}}}),
            "/properties/a/uniqueItems",
        ),
        (json!({"type": "object", "properties": {"a": {"$ref": "#/$defs/b"}}}), "/properties/a/$ref"),
        (json!({"type": "integer", "multipleOf": 3}), "/multipleOf"),
        (json!({"allOf": [{"type": "string"}, {"minLength": 3}]}), "/allOf"),
        (json!({"oneOf": [{"type": "integer"}, {"type": "number"}]}), "/oneOf"),
        (json!({"type": "string", "format": "email"}), "/format"),
        (json!({"type": "integer", "minimum": 3, "maximum": 2}), "bounds"),
        (json!({"not": {"type": "string"}}), "/not"),
        (json!({"type": "thing"}), "/type"),
        (json!(false), "no schema"),
        (json!({"type": "string", "description": "x".repeat(70_000)}), "70"),
    ] {
        let error = grammar(&schema).unwrap_err();
        assert!(error.to_string().contains(place), "{schema}: {error}");
    }
    let endless = grammar(&json!({"$ref": "#"})).unwrap();
    let tokens = Arc::new(TokenBytes::new(&tokenizer()).unwrap());
    assert!(GrammarConstraint::new(tokens, endless, &[0]).unwrap_err().to_string().contains("no value"));
}

const PLAIN: SamplingParams = SamplingParams { temperature: 1.0, top_p: 1.0, top_k: 0 };

fn generator(tokenizer: &Tokenizer) -> Generator {
    let config = ModelConfig {
        max_position_embeddings: 1024,
        ..ModelConfig::llama(tokenizer.vocabulary_size(), 16, 32, 1, 2, 2)
    };
    let weights = Decoder::initialize(&config, &Chance::new(3)).unwrap().weights().unwrap();
    Generator::new(&config, &weights, 1).unwrap()
}

fn begin(
    generator: &mut Generator,
    constraint: Option<GrammarConstraint>,
    seed: u64,
    sampling: SamplingParams,
) -> SequenceId {
    let draw = DrawKey { chance: Chance::new(seed), problem: 0, sample: 0 };
    let request = SequenceRequest { tokens: vec![5, 6], draw, sampling, stop_tokens: vec![0], max_new_tokens: 900 };
    let id = generator.add(request).unwrap();
    if let Some(constraint) = constraint {
        generator.constrain(id, Box::new(constraint));
    }
    id
}

fn bounded_schema() -> Value {
    json!({"type": "object", "required": ["name", "tags", "score"], "additionalProperties": false, "properties": {
        "name": {"type": "string", "minLength": 2, "maxLength": 8},
        "tags": {"type": "array", "items": {"enum": ["a", "b"]}, "maxItems": 3},
        "score": {"type": "number", "minimum": 0, "maximum": 1},
        "at": {"anyOf": [{"type": "string", "format": "date"}, {"type": "null"}]},
    }})
}

fn assert_valid(text: &str) {
    let value: Value = serde_json::from_str(text).unwrap_or_else(|e| panic!("{text}: {e}"));
    let map = value.as_object().unwrap();
    assert!(map.keys().all(|key| ["name", "tags", "score", "at"].contains(&key.as_str())), "{text}");
    let length = value["name"].as_str().unwrap().chars().count();
    assert!((2..=8).contains(&length), "{text}");
    let tags = value["tags"].as_array().unwrap();
    assert!(tags.len() <= 3 && tags.iter().all(|tag| tag == "a" || tag == "b"), "{text}");
    assert!((0.0..=1.0).contains(&value["score"].as_f64().unwrap()), "{text}");
    assert!(map.get("at").is_none_or(|at| at.is_null() || at.as_str().is_some_and(|at| at.len() == 10)), "{text}");
}

#[test]
fn random_models_write_valid_values() {
    let characters = tokenizer();
    let bytes = train_bpe(["{\"name\": \"abc\", \"tags\": [\"a\"], \"score\": 0.5}"; 4], 300, &["<|end|>"]).unwrap();
    for tokenizer in [characters, bytes] {
        let mut generator = generator(&tokenizer);
        let constraint = constraint(&tokenizer, &bounded_schema());
        for seed in 0..50 {
            let greedy = SamplingParams { temperature: 0.0, ..PLAIN };
            let truncated = SamplingParams { top_p: 0.7, top_k: 20, ..PLAIN };
            let sampling = [PLAIN, truncated, greedy][seed as usize % 3];
            let id = begin(&mut generator, Some(constraint.clone()), seed, sampling);
            generator.run().unwrap();
            let state = generator.remove(id);
            assert_eq!(state.finish, Some(SequenceFinish::Stop(0)), "seed {seed}");
            let end = state.token_ids.len() - 1;
            assert_valid(&tokenizer.decode(&state.token_ids[2..end]).unwrap());
        }
    }
}

#[test]
fn probabilities_are_those_among_permitted_tokens() {
    let tokenizer = tokenizer();
    let mut generator = generator(&tokenizer);
    let mut rule = constraint(&tokenizer, &bounded_schema());
    let id = begin(&mut generator, Some(rule.clone()), 1, PLAIN);
    generator.list_top(id, tokenizer.vocabulary_size());
    generator.run().unwrap();
    let listed = generator.top(id).to_vec();
    let state = generator.remove(id);
    for (at, (top, token)) in listed.iter().zip(&state.token_ids[2..]).enumerate() {
        let mut ids: Vec<u32> = top.iter().map(|(id, _)| *id).collect();
        ids.sort_unstable();
        assert_eq!(ids, rule.allowed(), "token {at}");
        let total: f64 = top.iter().map(|(_, logprob)| f64::from(*logprob).exp()).sum();
        assert!((total - 1.0).abs() < 1e-4, "token {at}: {total}");
        let own = top.iter().find(|(id, _)| id == token).unwrap().1;
        assert_eq!(own, state.logprobs[2 + at]);
        rule.advance(*token);
    }
}

#[test]
fn neighbors_of_a_constrained_sequence_are_unchanged() {
    let tokenizer = tokenizer();
    let mut generator = generator(&tokenizer);
    let alone = begin(&mut generator, None, 7, PLAIN);
    generator.run().unwrap();
    let alone = generator.remove(alone);
    let rule = constraint(&tokenizer, &bounded_schema());
    let free = begin(&mut generator, None, 7, PLAIN);
    let bound = begin(&mut generator, Some(rule), 7, PLAIN);
    generator.run().unwrap();
    assert_ne!(generator.remove(bound).token_ids, alone.token_ids);
    assert_eq!(generator.remove(free), alone);
}

#[test]
fn turn_ends_where_no_token_can_follow() {
    let tokenizer = tokenizer();
    let mut generator = generator(&tokenizer);
    let tokens = Arc::new(TokenBytes::new(&tokenizer).unwrap());
    let rule = GrammarConstraint::new(tokens, grammar(&json!({"const": "ab"})).unwrap(), &[]).unwrap();
    let id = begin(&mut generator, Some(rule), 1, PLAIN);
    generator.run().unwrap();
    let state = generator.remove(id);
    assert_eq!(state.finish, Some(SequenceFinish::Length));
    assert_eq!(tokenizer.decode(&state.token_ids[2..]).unwrap(), "\"ab\"");
}
