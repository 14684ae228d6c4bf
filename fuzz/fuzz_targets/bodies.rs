//! Any bytes as the body of a request, in every API: no panic; a request that is accepted gets a response, and a stream
//! of events that a client can parse.
#![no_main]

use libfuzzer_sys::fuzz_target;
use serde_json::Value;
use trainyard_model_api::apis::{self, ResponseIdentity, ServerSentEvent};
use trainyard_model_api::{
    ApiFinishReason, ApiKind, ApiToolCall, ChoiceDelta, ModelRequest, ModelResponse, ResponseChoice, SampledToken,
    TopLogprob, Usage,
};
use trainyard_tables::Message;

const APIS: [ApiKind; 4] = [ApiKind::Chat, ApiKind::Completions, ApiKind::Responses, ApiKind::Messages];
/// Maximum choices of a response; each API has a lower or equal limit.
const CHOICES: usize = 1 << 10;

fn choice(request: &ModelRequest, number: usize) -> ResponseChoice {
    let top = vec![TopLogprob { id: 7, text: "\u{fffd}".into(), logprob: f32::NEG_INFINITY }];
    let token = SampledToken { id: 7, text: "é".into(), logprob: Some(-0.5), top };
    let call = |tool: &str| ApiToolCall { id: "abcdefghi".into(), name: tool.into(), arguments: "{\"a\": 1}".into() };
    let calls: Vec<ApiToolCall> = request.visible_tools().iter().take(1).map(|tool| call(&tool.name)).collect();
    let finish = match (number % 3, calls.is_empty()) {
        (_, false) => ApiFinishReason::Calls,
        (0, true) => ApiFinishReason::End,
        (1, true) => ApiFinishReason::Length,
        _ => ApiFinishReason::Text("stop".into()),
    };
    ResponseChoice { thinking: "I add.\n".into(), text: "2\r\n\n\u{2028}".into(), calls, tokens: vec![token], finish }
}

/// Returns the data of one event as a client parses it.
fn parse(event: &ServerSentEvent) -> Option<Value> {
    let text = event.text();
    let lines = text.strip_suffix("\n\n").expect("an empty line ends an event");
    let data: Vec<&str> = lines.split(['\n', '\r']).filter_map(|line| line.strip_prefix("data: ")).collect();
    let [data] = data[..] else { panic!("{text:?} has {} lines of data", data.len()) };
    (data != "[DONE]").then(|| serde_json::from_str(data).unwrap_or_else(|e| panic!("{e}: {data}")))
}

fn respond(request: &ModelRequest) {
    assert!((1..=CHOICES).contains(&request.n), "{} choices", request.n);
    let identity = ResponseIdentity { id: "resp_1".into(), created: 1_700_000_000 };
    let choices: Vec<ResponseChoice> = (0..request.n.min(3)).map(|number| choice(request, number)).collect();
    let deltas: Vec<ChoiceDelta> = choices.iter().enumerate().map(|(i, choice)| choice.to_delta(i)).collect();
    let usage = Usage { prompt: 3, sampled: 2, thinking: 1 };
    let response = ModelResponse { choices, prompt_ids: vec![1, 2], prompt_logprobs: None, usage };
    assert!(apis::write(request, &response, &identity).is_object());
    let mut writer = apis::stream(request, &identity);
    let mut events = writer.begin();
    events.extend(deltas.iter().flat_map(|delta| writer.write_delta(delta)));
    events.extend(writer.end(&response));
    for event in &events {
        assert_eq!(parse(event).is_some(), event.data.is_some());
    }
}

fuzz_target!(|data: &[u8]| {
    let Ok(body) = serde_json::from_slice::<Value>(data) else { return };
    let past = |_: &str| Some(vec![Message::new("user", "1+1?"), Message::new("assistant", "2")]);
    for api in APIS {
        match apis::read(api, &body, &past) {
            Ok(request) => respond(&request),
            Err(refusal) => {
                assert!((400..500).contains(&refusal.status), "{refusal:?}");
                assert!(!refusal.body(api)["error"]["message"].as_str().unwrap_or_default().is_empty());
            }
        }
    }
    let _ = apis::read_count(&body);
});
