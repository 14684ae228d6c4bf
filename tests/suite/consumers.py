"""Reads exports with other programs: one check per name on the command line, in the folder of `consumers.rs`. A missing
package skips its checks and prints a line that begins with `skipped`."""

import importlib.util
import json
import os
import sys
from pathlib import Path

os.environ.update(HF_HUB_OFFLINE="1", TOKENIZERS_PARALLELISM="false", WANDB_MODE="disabled", CUDA_VISIBLE_DEVICES="")


def need(*packages):
    missing = [name for name in packages if importlib.util.find_spec(name) is None]
    if missing:
        print("skipped: this Python has no", ", ".join(missing))
        sys.exit(0)


def rows(path):
    return [json.loads(line) for line in open(path)]


def as_they_are():
    """Every table artifact loads without options, and rewards are there by name."""
    need("datasets", "polars", "pandas", "duckdb")
    import datasets, duckdb, pandas, polars

    for path in sorted(Path("artifacts").glob("*/data.parquet")):
        found = datasets.load_dataset("parquet", data_files=str(path), cache_dir="cache")["train"]
        count = len(found)
        assert count > 0 and found[0], path
        assert polars.read_parquet(path).height == count, path
        assert len(pandas.read_parquet(path)) == count, path
        assert duckdb.sql(f"select count(*) from '{path}'").fetchall() == [(count,)], path
        if "rewards" in found.column_names:
            sql = f"select list_extract(list_filter(rewards, lambda x: x.name = 'answer'), 1).value from '{path}'"
            by_name = {item["name"]: item["value"] for item in found[0]["rewards"]}
            assert by_name.get("answer") == duckdb.sql(sql).fetchall()[0][0], path


def folders():
    """A folder with its card is what the hub expects: `load_dataset(folder)` finds the rows."""
    need("datasets")
    import datasets

    for folder in ["trl-sft", "verl-prompts"]:
        found = datasets.load_dataset(folder, cache_dir="cache")
        assert list(found) == ["train"] and len(found["train"]) > 0, folder


def model_and_data(form, kind="json"):
    need("torch", "transformers", "trl", "datasets")
    import datasets
    from transformers import AutoModelForCausalLM, AutoTokenizer

    model = AutoModelForCausalLM.from_pretrained("model")
    tokenizer = AutoTokenizer.from_pretrained("model")
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token or tokenizer.convert_ids_to_tokens(0)
    path = f"{form}/train.{'parquet' if kind == 'parquet' else 'jsonl'}"
    return model, tokenizer, datasets.load_dataset(kind, data_files=path, cache_dir="cache")["train"], path


STEPS = dict(
    max_steps=2, per_device_train_batch_size=2, report_to=[], save_strategy="no", use_cpu=True, bf16=False, fp16=False,
    logging_steps=1, disable_tqdm=True, gradient_checkpointing=False, output_dir="trained",
)


def learned(trainer):
    trainer.train()
    losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    assert losses and all(loss == loss and loss >= 0 for loss in losses), losses
    return losses


def sft():
    """Conversations with `assistant_only_loss`: each call is rendered once, and mistakes are out of the loss."""
    model, tokenizer, data, path = model_and_data("trl-sft")
    from trl import SFTConfig, SFTTrainer

    trainer = SFTTrainer(
        model=model, processing_class=tokenizer, train_dataset=data,
        args=SFTConfig(assistant_only_loss=True, max_length=None, loss_type="nll", **STEPS),
    )
    given = rows(path)
    theirs = list(trainer.train_dataset)
    assert len(theirs) == len(given), (len(theirs), len(given))
    for row, found in zip(given, theirs):
        said = [m for m in row["messages"] if m["role"] == "assistant"]
        learned_text = tokenizer.decode([token for token in found["labels"] if token >= 0])
        examples = [m for m in said if m.get("weight") != 0]
        assert learned_text.count("<|im_end|>") == len(examples), (learned_text, said)
        calls = sum(len(m.get("tool_calls", [])) for m in examples)
        assert learned_text.count("<tool_call>") == calls, learned_text
        for message in said:
            if message.get("weight") != 0:
                assert message["content"] in learned_text, learned_text
    weights = [m.get("weight") for row in rows(path) for m in row["messages"]]
    assert 0 in weights, "no mistake was demonstrated: the check would say nothing"
    learned(trainer)


def tokens():
    """Token ids with our labels."""
    model, tokenizer, data, _ = model_and_data("trl-tokens")
    from trl import SFTConfig, SFTTrainer

    trainer = SFTTrainer(
        model=model, processing_class=tokenizer, train_dataset=data,
        args=SFTConfig(max_length=None, loss_type="nll", **STEPS),
    )
    assert trainer.train_dataset[0]["labels"] == data[0]["labels"]
    learned(trainer)


def dpo():
    model, tokenizer, data, _ = model_and_data("trl-preference")
    from trl import DPOConfig, DPOTrainer

    learned(DPOTrainer(model=model, processing_class=tokenizer, train_dataset=data, args=DPOConfig(**STEPS)))


def grpo():
    """A reward sees the answer and the verifier of each prompt."""
    model, tokenizer, data, _ = model_and_data("trl-prompts")
    from trl import GRPOConfig, GRPOTrainer

    seen = []

    def reward(completions, answer, verifier, **columns):
        seen.extend(zip(answer, verifier))
        return [float(a in c[0]["content"]) + 0.01 * len(c[0]["content"]) for a, c in zip(answer, completions)]

    args = GRPOConfig(num_generations=2, max_completion_length=8, **STEPS)
    trainer = GRPOTrainer(model=model, processing_class=tokenizer, train_dataset=data, reward_funcs=reward, args=args)
    trainer.train()
    known = {(row["answer"], row["verifier"]) for row in rows("trl-prompts/train.jsonl")}
    assert seen and set(seen) <= known


def steps():
    """TRL's stepwise form; its trainer where this version of TRL has one."""
    need("datasets")
    import datasets

    data = datasets.load_dataset("json", data_files="trl-steps/train.jsonl", cache_dir="cache")["train"]
    types = {name: str(kind) for name, kind in data.features.items()}
    assert types == {
        "prompt": "Value('string')", "completions": "List(Value('string'))", "labels": "List(Value('bool'))"
    }, types
    assert all(len(row["completions"]) == len(row["labels"]) > 0 for row in data)
    try:
        from trl.experimental.prm import PRMConfig, PRMTrainer
    except ImportError:
        print("skipped: this TRL has no PRMTrainer; its columns were checked")
        return
    from transformers import AutoModelForTokenClassification, AutoTokenizer

    model = AutoModelForTokenClassification.from_pretrained("model", num_labels=2)
    tokenizer = AutoTokenizer.from_pretrained("model")
    learned(PRMTrainer(model=model, processing_class=tokenizer, train_dataset=data, args=PRMConfig(**STEPS)))


def prm():
    """The scoring head loads without a missing or unexpected tensor, and scores as ours do."""
    need("torch", "transformers")
    import torch
    from transformers import AutoModelForTokenClassification

    model, info = AutoModelForTokenClassification.from_pretrained("prm", output_loading_info=True)
    assert not info["missing_keys"] and not info["unexpected_keys"], info
    checked = 0
    for row in rows("scored.jsonl"):
        with torch.no_grad():
            scores = torch.sigmoid(model(torch.tensor([row["token_ids"]])).logits[0, :, 0])
        for end, score in zip(row["step_ends"], row["step_scores"]):
            assert abs(scores[end - 1].item() - score) < 1e-4, (row["id"], end)
            checked += 1
    assert checked > 4, checked


def verl():
    """verl's datasets read what was written for them."""
    need("verl", "torch", "transformers", "omegaconf", "pandas")
    from omegaconf import OmegaConf
    from transformers import AutoTokenizer

    try:
        from verl.utils.dataset.multiturn_sft_dataset import MultiTurnSFTDataset
        from verl.utils.dataset.rl_dataset import RLHFDataset
    except ImportError as error:
        print("skipped: verl cannot be imported here:", error)
        return
    tokenizer = AutoTokenizer.from_pretrained("model")
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.convert_ids_to_tokens(0)
    config = OmegaConf.create({"max_prompt_length": 4096, "filter_overlong_prompts": True, "cache_dir": "cache/verl"})
    found = RLHFDataset(data_files="verl-prompts/train.parquet", tokenizer=tokenizer, config=config)
    first = found[0]
    assert len(found) > 0 and first["reward_model"]["ground_truth"] and first["data_source"], first
    config = OmegaConf.create({"max_length": 8192, "truncation": "error", "pad_mode": "no_padding"})
    found = MultiTurnSFTDataset(parquet_files="verl-sft/train.parquet", tokenizer=tokenizer, config=config)
    assert len(found) > 0 and int(found[0]["loss_mask"].sum()) > 0


if __name__ == "__main__":
    for name in sys.argv[1:]:
        globals()[name]()
        print("done:", name)
