"""An agent of the standard library: a loop of calls and their results."""

import http.client
import json
import os
from urllib.parse import urlsplit

from calculator import compute

TOOL = {
    "name": "calculator",
    "description": "Evaluates one arithmetic expression.",
    "parameters": {"type": "object", "properties": {"expression": {"type": "string"}}, "required": ["expression"]},
}
server = urlsplit(os.environ["OPENAI_BASE_URL"])
connection = http.client.HTTPConnection(server.hostname, server.port)
headers = {"authorization": "Bearer " + os.environ["OPENAI_API_KEY"], "content-type": "application/json"}
messages = json.load(open(os.environ["TRAINYARD_PROBLEM"]))["prompt"]
while True:
    body = {"model": "policy", "messages": messages, "tools": [{"type": "function", "function": TOOL}]}
    connection.request("POST", server.path + "/chat/completions", json.dumps(body), headers)
    choice = json.load(connection.getresponse())["choices"][0]
    said = choice["message"]
    messages.append(said)
    if choice["finish_reason"] == "length" or not said.get("tool_calls"):
        break
    for call in said["tool_calls"]:
        expression = json.loads(call["function"]["arguments"]).get("expression", "")
        messages.append({"role": "tool", "tool_call_id": call["id"], "content": compute(str(expression))})
# A turn that was cut off is no answer.
print(json.dumps({"correct": False} if choice["finish_reason"] == "length" else {"answer": said["content"]}))
