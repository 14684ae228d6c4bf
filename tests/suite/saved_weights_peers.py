"""What transformers says of the folder `shards` of `saved_weights.rs`: its type, and that every token which was sampled
greedily is the likeliest, ties aside."""

import json

import torch
from transformers import AutoModelForCausalLM

assert AutoModelForCausalLM.from_pretrained("shards", dtype="auto").dtype == torch.bfloat16
model = AutoModelForCausalLM.from_pretrained("shards", dtype=torch.float32).eval()
checked = 0
for row in map(json.loads, open("played.jsonl")):
    with torch.no_grad():
        logits = model(torch.tensor([row["token_ids"]])).logits[0]
    for place, (token, sampled) in enumerate(zip(row["token_ids"], row["loss_mask"])):
        if sampled:
            off = (logits[place - 1].max() - logits[place - 1, token]).item()
            assert off < 1e-3, (row["id"], place, off)
            checked += 1
assert checked > 40, checked
