"""Lets `wandb sync` upload the offline run that `tracking.rs` has written, to a server that keeps what it is told."""

import gzip
import http.server
import json
import math
import os
import pathlib
import subprocess
import sys
import threading

asked = []


def answer(query):
    """What the client needs of GraphQL."""
    given = query.get("variables", {})
    if query.get("operationName") == "UpsertBucket":
        project = {"id": "1", "name": given.get("project"), "entity": {"id": "2", "name": "me"}}
        bucket = {"id": "3", "name": given.get("name"), "displayName": given.get("displayName"), "project": project}
        return {"upsertBucket": {"bucket": bucket, "inserted": True}}
    if query.get("operationName") == "CreateRunFiles":
        address = f"http://127.0.0.1:{server.server_port}/upload/"
        files = [{"name": name, "uploadUrl": address + name} for name in given["files"]]
        return {"createRunFiles": {"runID": "3", "uploadHeaders": [], "files": files}}
    return {}


class Handler(http.server.BaseHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        if self.headers.get("content-encoding") == "gzip":
            body = gzip.decompress(body)
        asked.append((self.path, body))
        said = {"data": answer(json.loads(body))} if self.path == "/graphql" else {}
        text = json.dumps(said).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    do_GET = do_PUT = do_POST


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
threading.Thread(target=server.serve_forever, daemon=True).start()
[run] = pathlib.Path("wandb").glob("offline-run-*")
home = pathlib.Path("wandb-home")
home.mkdir()
address = {
    "WANDB_BASE_URL": f"http://127.0.0.1:{server.server_port}", "WANDB_API_KEY": "0" * 40, "HOME": str(home.absolute()),
}
command = [str(pathlib.Path(sys.executable).parent / "wandb"), "sync", str(run)]
ended = subprocess.run(command, env={**os.environ, **address}, capture_output=True, text=True, timeout=120)
assert ended.returncode == 0, ended.stdout + ended.stderr

told = [json.loads(body) for path, body in asked if path == "/graphql" and b"UpsertBucket" in body][0]["variables"]
assert told["project"] == "followed" and told["displayName"] == told["groupName"] == told["name"], told
assert json.loads(told["config"])["steps"]["value"] == 4, told
rows, summary, last = [], {}, {}
for path, body in asked:
    if path.endswith("/file_stream"):
        last = json.loads(body)
        files = last.get("files", {})
        rows += [json.loads(line) for line in files.get("wandb-history.jsonl", {}).get("content", [])]
        for line in files.get("wandb-summary.json", {}).get("content", []):
            summary = json.loads(line)
assert [row["_step"] for row in rows] == list(range(len(rows))), rows
loss = [(row["sft/step"], row["sft/loss"]) for row in rows if "sft/loss" in row]
assert [step for step, _ in loss] == [0, 1, 2, 3] and all(math.isfinite(value) for _, value in loss), loss
assert summary["sft/loss"] == loss[-1][1] and any(key.startswith("sft/final/") for key in summary), summary
assert last["complete"] and last["exitcode"] == 0, last
