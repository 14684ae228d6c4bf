"""A server of tools that misbehaves as its arguments say, in plain Python."""
import json
import os
import sys
import time

how = sys.argv[1] if len(sys.argv) > 1 else ""
mark = sys.argv[2] if len(sys.argv) > 2 else ""
count = 0


def again():
    """Whether another server of this test has run before."""
    if os.path.exists(mark):
        return True
    open(mark, "w").close()
    return False


second = bool(mark) and again()
text = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
tools = [
    {"name": name, "description": f"Does {name}.", "inputSchema": text}
    for name in ("echo", "count", "fail", "die", "hang", "flood", "spew", "random", "ask")
]
if how == "changes" and second:
    tools = tools[1:]
    tools[0] = {**tools[0], "inputSchema": {"type": "object"}}


def say(message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def call(name, said):
    global count
    if name == "echo":
        return {"content": [{"type": "text", "text": said}]}
    if name == "count":
        count += 1
        return {"content": [{"type": "text", "text": f"{count} {said}"}]}
    if name == "fail":
        return {"content": [{"type": "text", "text": f"cannot {said}"}], "isError": True}
    if name == "die" and not os.path.exists("died"):
        open("died", "w").close()
        os._exit(3)
    if name == "hang":
        time.sleep(100)
    if name == "spew":
        while True:
            print("nothing that is a message")
    if name == "flood":
        return {"content": [{"type": "text", "text": "x" * 100000}]}
    if name == "random":
        return {"content": [{"type": "text", "text": os.urandom(8).hex()}]}
    if name == "ask":
        say({"id": "q", "method": "roots/list"})
        answer = json.loads(sys.stdin.readline())
        return {"content": [], "structuredContent": answer["result"]}
    return {"content": [{"type": "text", "text": "survived"}]}


if how == "noise":
    print("Welcome to the server!", flush=True)
for line in sys.stdin:
    message = json.loads(line)
    method, ident = message.get("method"), message.get("id")
    if method == "initialize":
        version = "1999-01-01" if how == "old" else message["params"]["protocolVersion"]
        capabilities = {} if how == "none" else {"tools": {"listChanged": True}}
        say({"id": ident, "result": {"protocolVersion": version, "capabilities": capabilities,
                                     "serverInfo": {"name": "fake", "version": "0"}}})
    elif method == "tools/list":
        at = int(message.get("params", {}).get("cursor", 0))
        page = {"tools": tools[at:at + 3]}
        if at + 3 < len(tools):
            page["nextCursor"] = str(at + 3)
        say({"id": ident, "result": page})
    elif method == "tools/call":
        name, said = message["params"]["name"], message["params"]["arguments"].get("text")
        if said is None:
            say({"id": ident, "error": {"code": -32602, "message": "text is missing"}})
            continue
        if how == "turns" and name == "count":
            tools = tools[1:]
            say({"method": "notifications/tools/list_changed"})
        say({"id": ident, "result": call(name, said)})
