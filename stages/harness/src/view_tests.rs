use super::*;
use trainyard_model_api::ApiKind;
use trainyard_tables::AnswerForm;

fn request(
    model_request: &serving::ModelRequest,
    format: &str,
    describe: bool,
) -> Result<EpisodeRequest, ModelApiError> {
    RequestReader { toolbox: &Toolbox::standard(), format, describe }.read(model_request)
}

fn tool() -> serving::ApiTool {
    let parameters = json!({"type": "object", "properties": {"code": {"type": "string"}}, "required": ["code"]});
    serving::ApiTool { name: "python".into(), description: "Runs.".into(), parameters }
}

fn call(id: &str, code: &str) -> Value {
    let arguments = json!({"code": code}).to_string();
    json!({"id": id, "type": "function", "function": {"name": "python", "arguments": arguments}})
}

fn model_request(messages: Vec<Message>, tools: Vec<serving::ApiTool>) -> serving::ModelRequest {
    serving::ModelRequest {
        tools,
        ..serving::ModelRequest::new(ApiKind::Chat, "policy", ModelPrompt::Messages(messages))
    }
}

fn round() -> Vec<Message> {
    let calls = json!([call("a", "1+1"), call("b", "2+2")]).to_string();
    let result = |id: &str, text: &str| Message { tool_call_id: Some(id.into()), ..Message::new("tool", text) };
    let assistant = Message { tool_calls: Some(calls), ..Message::new("assistant", "So:\n") };
    vec![Message::new("user", "?"), assistant, result("b", "4"), result("a", "2")]
}

#[test]
fn results_are_ordered_by_calls() {
    let read = request(&model_request(round(), vec![tool()]), "hermes", true).unwrap().turn_request;
    let roles: Vec<&str> = read.messages.iter().map(|m| m.role.as_str()).collect();
    assert_eq!(roles, ["system", "user", "assistant", "tool", "tool"]);
    assert!(
        read.messages[0].content.contains("\"python\"") && read.tools.is_none(),
        "the system message describes them"
    );
    assert_eq!((read.messages[3].content.as_str(), &read.messages[3].tool_call_id), ("2", &None));
    let calls: Value = serde_json::from_str(read.messages[2].tool_calls.as_deref().unwrap()).unwrap();
    assert_eq!(calls[1], json!({"name": "python", "arguments": {"code": "2+2"}}));
    assert_eq!(read.messages[2].content, "So:\n");
    assert!(
        read.template_messages[2].content.starts_with("So:\n<tool_call>\n{\"name\": \"python\""),
        "{:?}",
        read.template_messages[2]
    );
    let native = request(&model_request(round(), vec![tool()]), "hermes", false).unwrap().turn_request;
    assert_eq!(native.messages.len(), 4);
    assert!(native.tools.unwrap().starts_with("[{\"type\": \"function\", \"function\": {\"name\": \"python\""));
}

#[test]
fn turn_is_converted_for_program() {
    let of = |text: &str, stop: &[&str], tools: Vec<serving::ApiTool>| {
        let mut sent = model_request(vec![Message::new("user", "?")], tools);
        sent.stop = stop.iter().map(ToString::to_string).collect();
        let request = request(&sent, "code", false).unwrap();
        let read = request.turn(text, None);
        let tokens =
            TurnTokens { ids: vec![1], texts: vec!["x".into()], logprobs: vec![-1.0], ..TurnTokens::default() };
        let response = request.answer(&read, &tokens, 3);
        (read, response.choices[0].clone())
    };
    let (read, choice) = of("<think>hm</think>I run it.\n<tool_call>1+1</tool_call>", &[], vec![tool()]);
    assert_eq!(
        (choice.thinking.as_str(), choice.text.as_str(), &choice.finish),
        ("hm", "I run it.", &ApiFinishReason::Calls)
    );
    assert_eq!((choice.calls[0].id.as_str(), choice.calls[0].arguments.as_str()), ("call_3_0", "{\"code\":\"1+1\"}"));
    assert_eq!((choice.tokens[0].id, choice.tokens[0].logprob), (1, Some(-1.0)));
    assert_eq!(read.turn.calls.len(), 1);
    // The returned message is the one that was sent.
    let back =
        Message { tool_calls: serving::response::calls_text(&choice.calls), ..Message::new("assistant", choice.text) };
    let again = ordered(&[back]);
    assert_eq!(
        again[0].tool_calls.as_deref().map(|t| serde_json::from_str::<Value>(t).unwrap()),
        read.message.tool_calls.as_deref().map(|t| serde_json::from_str::<Value>(t).unwrap())
    );
    let (read, choice) = of("a <tool_call>1+1", &[], vec![tool()]);
    assert!(read.turn.calls[0].is_err() && choice.calls.is_empty(), "an unreadable call is text");
    assert_eq!((choice.text.as_str(), choice.finish), ("a <tool_call>1+1", ApiFinishReason::End));
    let (read, choice) = of("It is 7. END more", &["END"], Vec::new());
    assert_eq!((choice.text.as_str(), choice.finish), ("It is 7. ", ApiFinishReason::Text("END".into())));
    assert_eq!((read.message.role.as_str(), read.turn.text.as_str()), (CUT_ROLE, "It is 7. END more"));
    assert_eq!(
        of("<tool_call>1</tool_call>", &[], Vec::new()).1.text,
        "<tool_call>1</tool_call>",
        "no tools, no calls"
    );
}

#[test]
fn unsupported_fields_are_rejected() {
    let user = || vec![Message::new("user", "?")];
    let good = model_request(user(), Vec::new());
    for (sent, param) in [
        (serving::ModelRequest { n: 2, ..good.clone() }, "n"),
        (serving::ModelRequest { stop_tokens: vec![1], ..good.clone() }, "stop_token_ids"),
        (serving::ModelRequest { ignore_end: true, ..good.clone() }, "ignore_eos"),
        (serving::ModelRequest { prompt: ModelPrompt::Text("x".into()), ..good.clone() }, "prompt"),
        (model_request(vec![Message::new("user", "?"), Message::new("assistant", "So")], Vec::new()), "messages"),
    ] {
        let refusal = request(&sent, "hermes", true).err().unwrap();
        assert_eq!((refusal.status, refusal.param.as_deref()), (400, Some(param)));
    }
    assert!(!request(&good, "hermes", true).unwrap().ignored);
    assert!(request(&serving::ModelRequest { temperature: Some(0.0), ..good }, "hermes", true).unwrap().ignored);
    let two = vec![tool(), serving::ApiTool { name: "other".into(), ..tool() }];
    let refusal = request(&model_request(user(), two), "code", true).err().unwrap();
    assert_eq!(refusal.status, 400, "{}", refusal.message);
}

#[test]
fn requested_form_goes_to_the_sampling_loop() {
    let other = serving::ApiTool { name: "other".into(), ..tool() };
    let base = model_request(vec![Message::new("user", "?")], vec![tool(), other]);
    let form = |sent: &serving::ModelRequest| request(sent, "hermes", true).unwrap().turn_request.form;
    let names = |form: &TurnForm| -> Vec<(String, usize)> {
        let tools = form.calls.iter().flat_map(|calls| &calls.tools);
        tools.map(|tool| (tool.name.clone(), tool.number)).collect()
    };
    assert_eq!(form(&base), None);
    let required = serving::ModelRequest { tool_choice: serving::ApiToolChoice::Required, ..base.clone() };
    let found = form(&required).unwrap();
    assert_eq!(names(&found), [("python".to_string(), 0), ("other".to_string(), 1)]);
    assert!(found.answer.is_none() && found.calls.as_ref().unwrap().several);
    assert_eq!(found.calls.unwrap().syntax.open, "<tool_call>\n");
    let single = form(&serving::ModelRequest { parallel_calls: false, ..required }).unwrap();
    assert!(!single.calls.unwrap().several);
    let choice = serving::ApiToolChoice::Named("other".into());
    let named = form(&serving::ModelRequest { tool_choice: choice, ..base.clone() }).unwrap();
    assert_eq!(names(&named), [("other".to_string(), 1)]);
    assert!(!named.calls.unwrap().several, "a named tool is called once");
    let output = serving::OutputForm::Schema(json!({"enum": ["yes"]}));
    let answer = form(&serving::ModelRequest { output: output.clone(), ..base.clone() }).unwrap();
    assert_eq!(names(&answer).len(), 2, "the model may call, too");
    assert_eq!(answer.answer, Some(AnswerForm::Schema(json!({"enum": ["yes"]}))));
    let hidden = serving::ModelRequest { tool_choice: serving::ApiToolChoice::None, output, ..base };
    assert_eq!(form(&hidden).unwrap().calls, None);
}

#[test]
fn calls_that_are_no_json_cannot_be_forced() {
    let base = model_request(vec![Message::new("user", "?")], vec![tool()]);
    let required = serving::ModelRequest { tool_choice: serving::ApiToolChoice::Required, ..base.clone() };
    let output = serving::ModelRequest { output: serving::OutputForm::JsonObject, ..base };
    for (sent, param) in [(&required, "tool_choice"), (&output, "response_format")] {
        let refusal = request(sent, "code", true).err().unwrap();
        assert_eq!((refusal.status, refusal.param.as_deref()), (400, Some(param)));
        assert!(refusal.message.contains("`format: hermes`"), "{}", refusal.message);
    }
    let without_tools = serving::ModelRequest { tools: Vec::new(), ..output };
    let form = request(&without_tools, "code", true).unwrap().turn_request.form.unwrap();
    assert_eq!(form, TurnForm { calls: None, answer: Some(AnswerForm::Object) });
}
