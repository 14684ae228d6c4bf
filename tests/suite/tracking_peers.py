"""What TensorBoard and OpenLineage's own classes read of the files that `tracking.rs` has written."""

import glob
import json
import math

from openlineage.client.event_v2 import InputDataset, Job, OutputDataset, Run, RunEvent, RunState
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

[folder] = glob.glob("curves/followed/*/sft")
events = EventAccumulator(folder).Reload()
tags = events.Tags()["scalars"]
assert "loss" in tags, tags
loss = events.Scalars("loss")
assert [point.step for point in loss] == [0, 1, 2, 3], loss
assert all(math.isfinite(point.value) and point.wall_time > 1e9 for point in loss)
assert any(tag.startswith("final/") for tag in tags), tags

states = []
for line in open("openlineage.jsonl"):
    given = json.loads(line)
    # The classes refuse ids that are no UUIDs, times that are none, and addresses of schemas.
    event = RunEvent(
        eventType=RunState(given["eventType"]),
        eventTime=given["eventTime"],
        run=Run(runId=given["run"]["runId"]),
        job=Job(namespace=given["job"]["namespace"], name=given["job"]["name"]),
        producer=given["producer"],
        inputs=[InputDataset(namespace=d["namespace"], name=d["name"]) for d in given["inputs"]],
        outputs=[OutputDataset(namespace=d["namespace"], name=d["name"]) for d in given["outputs"]],
    )
    states.append(event.eventType)
assert states.count(RunState.START) == states.count(RunState.COMPLETE) == 4, states
