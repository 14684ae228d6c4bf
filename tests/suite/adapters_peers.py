"""Reads folders of `adapters.rs` with torch, transformers and peft. Usage: python peers.py compare | make | merged"""

import json
import sys

import torch
from peft import LoraConfig, PeftModel, get_peft_model
from transformers import AutoModelForCausalLM


def base():
    return AutoModelForCausalLM.from_pretrained("base", dtype=torch.float32).eval()


def compare():
    """Every token that was sampled greedily with the adapter is the likeliest of PEFT's model, ties aside."""
    model = PeftModel.from_pretrained(base(), "rl").eval()
    checked = 0
    for row in map(json.loads, open("played.jsonl")):
        if not row["id"].startswith("evaluate/rl/"):
            continue
        with torch.no_grad():
            logits = model(torch.tensor([row["token_ids"]])).logits[0]
        for place, (token, sampled) in enumerate(zip(row["token_ids"], row["loss_mask"])):
            if sampled:
                off = (logits[place - 1].max() - logits[place - 1, token]).item()
                assert off < 1e-3, (row["id"], place, off)
                checked += 1
    assert checked > 40, checked


def make():
    torch.manual_seed(3)
    options = LoraConfig(r=5, lora_alpha=9, target_modules=["k_proj", "down_proj"], task_type="CAUSAL_LM")
    model = get_peft_model(base(), options)
    for name, parameter in model.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(parameter, std=0.1)
    model.save_pretrained("theirs")


def merged():
    theirs = PeftModel.from_pretrained(base(), "theirs").eval()
    ours = AutoModelForCausalLM.from_pretrained("whole", dtype=torch.float32).eval()
    tokens = torch.tensor([[5, 9, 3, 14, 20, 7, 7, 1, 30, 12]])
    with torch.no_grad():
        off = (theirs(tokens).logits - ours(tokens).logits).abs().max().item()
    assert off < 1e-4, off


{"compare": compare, "make": make, "merged": merged}[sys.argv[1]]()
