"""Stores for the measurements of pages, made by the program as in benches/views."""
import json

import stores

FAN_OUTS = 50  # Fan-outs of the graph, each after the one before.
LONG_STEPS = 400  # Steps of the run that is watched.
BEATS = 40  # Stages of the run whose events are timed.
TOKENS = 20  # Tokens of a long rollout for each of its messages.
# Imported messages have no tokens: those of a rollout are the numbers of the rows of a table.
SAMPLED = (
    "select chats.* replace (ids as token_ids, mask as loss_mask, turns_of as turn, probabilities as logprobs) "
    "from chats cross join (select array_agg(cast(answer as integer)) as ids, "
    "array_agg(cast(answer as integer) % 2 = 1) as mask, "
    "array_agg(cast(floor(cast(answer as integer) / {turn}) as integer)) as turns_of, "
    "array_agg(cast(answer as float) / -{tokens}.0) as probabilities from numbers) tokens"
)


def graph(program, folder, nodes):
    """A store with a finished run whose stages are fan-outs."""
    stages, each = {}, nodes // FAN_OUTS
    for at in range(FAN_OUTS):
        stage = {"uses": "noop", "matrix": {"n": list(range(each))}, "with": {"value": "${{ matrix.n }}"}}
        stages[f"f{at:02}"] = stage | ({"needs": [f"f{at - 1:02}"]} if at else {})
    text = stores.workflow("graph", stages)
    return stores.made(program, folder / "graph", text, {}, lambda place: None)


def many_runs(program, folder, count):
    """A store with this many runs, all but the first from the cache. A later call makes those that are missing."""
    place = folder / "runs"
    stores.written(place, stores.workflow("small", {"one": {"uses": "noop", "with": {"value": 1}}}))
    known = 0
    if (place / "store").exists():
        known = sum(1 for _ in place.glob("store/runs/*/*"))
    for at in range(known, count):
        if at % 1_000 == 0:
            print(f"run {at:,} of {count:,} …", flush=True)
        program.printed(place, "run", "workflow.yaml", "--no-pages")
    return place


def trained(place, steps):
    """A workflow that trains for these steps on every core, without an artifact in the cache."""
    stages = {
        "problems": {
            "uses": "data/synthesize",
            "with": {"method": "procedural", "seed": 1,
                     "splits": {"rl": {"levels": {"1": 40}}, "demonstrations": {"levels": {"1": 20}}}},
        },
        "base": {
            "uses": "model/init",
            "with": {"problems": ["${{ stages.problems.problems }}"], "hidden_size": 64, "layers": 2, "heads": 2,
                     "intermediate_size": 128},
        },
        "rl": {
            "uses": "rl",
            "with": {"model": "${{ stages.base.model }}", "problems": "${{ stages.problems.problems_rl }}",
                     "filters": [], "steps": steps, "problems_per_step": 4,
                     "rollout": {"group_size": 4, "max_turn_tokens": 24}},
        },
    }
    stores.written(place, stores.workflow("watched", stages))


def beating(place):
    """A workflow of short stages, one after another."""
    stages = {}
    for at in range(BEATS):
        stage = {"run": ["sleep", "0.5"], "env": {"NUMBER": str(at)}, "cache": False}
        stages[f"beat{at:03}"] = stage | ({"needs": [f"beat{at - 1:03}"]} if at else {})
    stores.written(place, stores.workflow("beating", stages))


def message(n, count):
    """A message of a long rollout: a question, calls with their results in turn, and at the end an answer."""
    if n == 0:
        return {"role": "user", "content": "Which file has the mistake?"}
    if n == count - 1:
        return {"role": "assistant", "content": f"The answer of message {n}."}
    if n % 2 == 1:
        function = {"name": "read_file", "arguments": json.dumps({"path": f"src/{n}.rs"})}
        call = {"id": f"c{n}", "type": "function", "function": function}
        step = f"Step {n}. " + 20 * "Now look at the next file. "
        return {"role": "assistant", "content": step, "tool_calls": [call]}
    content = f"The contents of file {n}.\n" + 20 * "let next = file.lines().next();\n"
    return {"role": "tool", "name": "read_file", "tool_call_id": f"c{n - 1}", "content": content}


def long_rollout(program, folder, count):
    """A store with one rollout of this number of messages, `latest/long/trajectories`."""
    inputs = {"chats": "${{ stages.chats.trajectories }}", "numbers": "${{ stages.numbers.problems }}"}
    sql = SAMPLED.format(turn=2 * TOKENS, tokens=TOKENS * count)
    stages = {
        "chats": stores.imported("long.jsonl"),
        "numbers": stores.imported("numbers.jsonl"),
        "long": {"uses": "data/frame", "with": inputs | {"output": "trajectories", "sql": sql}},
    }

    def write(place):
        messages = [message(n, count) for n in range(count)]
        (place / "long.jsonl").write_text(json.dumps({"messages": messages}) + "\n")
        numbers = ({"id": f"n{n}", "question": f"n{n}", "answer": str(n)} for n in range(TOKENS * count))
        (place / "numbers.jsonl").write_text("".join(json.dumps(row) + "\n" for row in numbers))

    return stores.made(program, folder / "rollout", stores.workflow("rollout", stages), {"messages": count}, write)
