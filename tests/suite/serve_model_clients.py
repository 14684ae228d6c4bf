"""What the official clients make of a served model; the model itself is a small random one, so its words are noise."""

import sys

import anthropic
import openai

base = sys.argv[1]
client = openai.OpenAI(base_url=base + "/v1", api_key="none", max_retries=0, timeout=60)
question = [{"role": "user", "content": "2+2?"}]
common = {"model": "agent", "temperature": 1.0}

assert [model.id for model in client.models.list()] == ["agent"]

answer = client.chat.completions.create(
    messages=question, max_completion_tokens=12, seed=5, logprobs=True, top_logprobs=3, n=2,
    extra_body={"return_token_ids": True}, **common)
assert len(answer.choices) == 2 and answer.choices[0].finish_reason in ("stop", "length"), answer
first = answer.choices[0]
assert len(first.logprobs.content) == len(first.model_extra["token_ids"]), first
assert all(token.logprob <= 0 and len(token.top_logprobs) == 3 for token in first.logprobs.content)
assert answer.usage.prompt_tokens == len(answer.model_extra["prompt_token_ids"])
print("chat: ok")

chunks = list(client.chat.completions.create(
    messages=question, max_completion_tokens=12, seed=5, stream=True, stream_options={"include_usage": True}, **common))
text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
assert text == first.message.content, (text, first.message.content)
assert chunks[-1].usage.completion_tokens == len(first.logprobs.content)
with client.chat.completions.stream(messages=question, max_completion_tokens=12, seed=5, **common) as stream:
    for _ in stream:
        pass
    # The helper refuses to give an answer as final that was cut at its limit.
    assert stream.current_completion_snapshot.choices[0].message.content == text
print("stream: ok")

tools = [{"type": "function", "function": {
    "name": "sum", "description": "Adds.", "parameters": {"type": "object", "properties": {"a": {"type": "integer"}}}}}]
call = {"id": "call_1", "type": "function", "function": {"name": "sum", "arguments": '{"a": 2}'}}
history = question + [
    {"role": "assistant", "content": None, "tool_calls": [call]},
    {"role": "tool", "tool_call_id": "call_1", "content": "4"},
]
offered = client.chat.completions.create(messages=history, tools=tools, max_completion_tokens=4, **common)
hidden = client.chat.completions.create(
    messages=history, tools=tools, tool_choice="none", max_completion_tokens=4, **common)
assert offered.usage.prompt_tokens > hidden.usage.prompt_tokens
print("tools: ok")

response = client.responses.create(input="2+2?", instructions="Be brief.", max_output_tokens=12, **common)
assert response.status in ("completed", "incomplete") and isinstance(response.output_text, str), response
later = client.responses.create(
    input=[{"role": "user", "content": "And 3+3?"}], previous_response_id=response.id, max_output_tokens=4, **common)
assert later.usage.input_tokens > 0 and later.previous_response_id == response.id
with client.responses.stream(input="2+2?", max_output_tokens=12, extra_body={"seed": 5}, **common) as stream:
    events = list(stream)
kinds, final = [event.type for event in events], events[-1].response
assert kinds[0] == "response.created" and kinds[-1] in ("response.completed", "response.incomplete"), kinds
assert final.output_text == client.responses.create(
    input="2+2?", max_output_tokens=12, extra_body={"seed": 5}, **common).output_text
items = [
    {"role": "user", "content": "2+2?"},
    {"type": "function_call", "call_id": "a", "name": "sum", "arguments": '{"a": 2}'},
    {"type": "function_call_output", "call_id": "a", "output": "4"},
]
flat = [{"type": "function", "strict": False, **tools[0]["function"]}]
assert client.responses.create(input=items, tools=flat, max_output_tokens=4, **common).output
print("responses: ok")

plain = client.completions.create(prompt="2+2", max_tokens=5, logprobs=2, seed=5, **common)
assert len(plain.choices[0].logprobs.token_logprobs) <= 5, plain
parts = list(client.completions.create(prompt="2+2", max_tokens=5, seed=5, stream=True, **common))
assert "".join(part.choices[0].text for part in parts if part.choices) == plain.choices[0].text
print("completions: ok")

messages_api = anthropic.Anthropic(base_url=base, api_key="none", max_retries=0, timeout=60)
schema = [{"name": "sum", "description": "Adds.", "input_schema": {"type": "object", "properties": {}}}]
turns = question + [
    {"role": "assistant", "content": [{"type": "tool_use", "id": "toolu_1", "name": "sum", "input": {"a": 2}}]},
    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "4"}]},
]
# A version of the client may know neither the option nor another name for it.
sampling = {"model": "agent", "extra_body": {"seed": 5, "temperature": 1.0}}
message = messages_api.messages.create(max_tokens=12, system="Be brief.", messages=turns, tools=schema, **sampling)
assert message.stop_reason in ("end_turn", "max_tokens", "tool_use") and message.usage.output_tokens > 0, message
with messages_api.messages.stream(
        max_tokens=12, system="Be brief.", messages=turns, tools=schema, **sampling) as stream:
    for _ in stream:
        pass
    streamed = stream.get_final_message()
assert [block.text for block in streamed.content] == [block.text for block in message.content], (streamed, message)
counted = messages_api.messages.count_tokens(model="agent", system="Be brief.", messages=turns, tools=schema)
assert counted.input_tokens == message.usage.input_tokens, (counted, message.usage)
print("anthropic: ok")


def refused(kind, call):
    try:
        call()
    except kind as error:
        return error
    raise AssertionError(f"no {kind.__name__}")


error = refused(openai.NotFoundError, lambda: client.chat.completions.create(model="gpt", messages=question))
assert error.code == "model_not_found", error
error = refused(openai.BadRequestError, lambda: client.chat.completions.create(messages=history[2:], **common))
assert "tool call" in str(error), error
error = refused(
    openai.BadRequestError,
    lambda: client.chat.completions.create(messages=question, response_format={"type": "json_schema"}, **common))
assert error.param == "response_format.schema", error
refused(anthropic.BadRequestError, lambda: messages_api.messages.create(model="agent", max_tokens=5, messages=[]))
print("errors: ok")
