"""Reads exports of one artifact as logs of Inspect or documents of ATIF, and compares them with the rows.

usage: traces.py inspect|atif NAME    reads NAME.eval or NAME.jsonl, NAME-rows.jsonl and NAME-tokens.jsonl
"""

import json
import math
import sys


def table(name):
    """Returns the rows by id, with the values of their tokens."""

    def lines(part):
        with open(f"{name}-{part}.jsonl", encoding="utf-8") as file:
            return [json.loads(line) for line in file]

    rows = {row["id"]: row for row in lines("rows")}
    for tokens in lines("tokens"):
        rows[tokens["id"]].update(tokens)
    return rows


def equal(found, expected, what):
    assert found == expected, f"{what}: {found!r} is not {expected!r}"


def calls_of(message):
    """Returns the name and the arguments of each call of a stored message."""
    stored = [call.get("function", call) for call in json.loads(message.get("tool_calls") or "[]")]
    texts = [(call["name"], call.get("arguments") or {}) for call in stored]
    parsed = [(name, json.loads(given) if isinstance(given, str) else given) for name, given in texts]
    return [(name, given if isinstance(given, dict) else {"value": given}) for name, given in parsed]


def inspect(name):
    from inspect_ai.log import read_eval_log, read_eval_log_sample, read_eval_log_sample_summaries

    path, rows = f"{name}.eval", table(name)
    log = read_eval_log(path)
    equal((log.status, log.version, log.results.total_samples), ("success", 2, len(rows)), "header")
    equal({sample.metadata["id"] for sample in log.samples}, set(rows), "rows")
    equal(len({(sample.id, sample.epoch) for sample in log.samples}), len(rows), "pairs of an id and an epoch")
    equal(set(log.eval.dataset.sample_ids), {sample.id for sample in log.samples}, "problems")
    for sample in log.samples:
        compare_sample(sample, rows[sample.metadata["id"]])
    for score in log.results.scores:
        values = [sample.scores[score.name].value for sample in log.samples if score.name in sample.scores]
        numbers = [{"C": 1.0, "I": 0.0}[value] if isinstance(value, str) else value for value in values]
        (metric,) = score.metrics.values()
        assert math.isclose(metric.value, sum(numbers) / len(numbers), abs_tol=1e-9), score
    keys = {(sample.id, sample.epoch, sample.uuid) for sample in log.samples}
    summaries = read_eval_log_sample_summaries(path)
    equal({(one.id, one.epoch, one.uuid) for one in summaries}, keys, "summaries")
    last = log.samples[-1]
    equal(read_eval_log_sample(path, last.id, last.epoch).metadata, last.metadata, "one sample")


def compare_sample(sample, row):
    equal(sample.id, row["problem_id"] or row["id"], "id")
    assert sample.epoch > row["sample"]
    equal([one.role for one in sample.messages], [one["role"] for one in row["messages"]], "roles")
    called = set()
    for found, message in zip(sample.messages, row["messages"]):
        if found.role == "assistant":
            calls = found.tool_calls or []
            equal([(call.function, call.arguments) for call in calls], calls_of(message), "calls")
            called.update(call.id for call in calls)
        else:
            equal(found.text, message["content"], "text")
        if found.role == "tool":
            assert found.tool_call_id is None or found.tool_call_id in called, found
    last = [one for one in sample.messages if one.role == "assistant"][-1]
    equal(sample.output.message, last, "output")
    compare_scores(sample, row)


def compare_scores(sample, row):
    scores = dict(sample.scores)
    if row.get("verifier"):
        correct = scores.pop("correct")
        equal((correct.value, sample.target), ("C" if row["correct"] else "I", row["expected"]), "verdict")
        assert row["expected"] in correct.explanation
    if row["rewards"] or row["reward"]:
        equal(scores.pop("reward").value, row["reward"], "reward")
    for component in row["rewards"]:
        taken = component["name"]
        taken = f"reward_{taken}" if taken in ("correct", "reward") else taken
        equal(scores.pop(taken).value, component["value"], taken)
    equal(scores, {}, "other scores")


def atif(name):
    from atif import Trajectory

    with open(f"{name}.jsonl", encoding="utf-8") as file:
        documents = [Trajectory.model_validate_json(line) for line in file]
    rows = table(name)
    equal([document.trajectory_id for document in documents], list(rows), "ids")
    for document in documents:
        compare_document(document, rows[document.trajectory_id])


def compare_document(document, row):
    sources = {"assistant": "agent", "user": "user", "system": "system"}
    spoken = [message for message in row["messages"] if message["role"] != "tool"]
    equal([step.source for step in document.steps], [sources[message["role"]] for message in spoken], "sources")
    for step, message in zip(document.steps, spoken):
        if step.source == "agent":
            calls = [(call.function_name, call.arguments) for call in step.tool_calls or []]
            equal(calls, calls_of(message), "calls")
        else:
            equal(step.message, message["content"], "text")
    results = [one.content for step in document.steps if step.observation for one in step.observation.results]
    equal(results, [message["content"] for message in row["messages"] if message["role"] == "tool"], "results")
    compare_tokens([step.metrics for step in document.steps if step.metrics], row)
    equal(document.final_metrics.total_steps, len(document.steps), "steps")
    equal((document.final_metrics.extra or {}).get("reward", 0.0), row["reward"], "reward")
    check = document.extra.get("answer_check")
    equal(check and check["correct"], row.get("correct"), "verdict")


def compare_tokens(metrics, row):
    places = [place for place, is_sampled in enumerate(row["loss_mask"]) if is_sampled]
    completions = [token for one in metrics for token in one.completion_token_ids]
    equal(completions, [row["token_ids"][place] for place in places], "tokens")
    if row["logprobs"] and all(one.logprobs is not None for one in metrics):
        found = [value for one in metrics for value in one.logprobs]
        expected = [row["logprobs"][place] for place in places]
        assert all(math.isclose(a, b, rel_tol=1e-6, abs_tol=1e-9) for a, b in zip(found, expected, strict=True))
    for one in metrics:
        equal(one.prompt_tokens, len(one.prompt_token_ids), "prompt")
        equal(one.completion_tokens, len(one.completion_token_ids), "completion")


if __name__ == "__main__":
    {"inspect": inspect, "atif": atif}[sys.argv[1]](sys.argv[2])
