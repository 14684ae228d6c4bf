"""GRPO steps of TRL's GRPOTrainer on the work of src/bin/rl_step.rs: same shapes, same token counts, KV cache, no vLLM.

Needs trl (written for 1.16), with torch, transformers and datasets. Nothing is downloaded: the model is random, the
tokenizer has one token per character.
Usage: python trl_grpo.py [seconds] [threads] [vocabulary]
"""

import os
import resource
import statistics
import sys
import tempfile
import time

THREADS = int(sys.argv[2]) if len(sys.argv) > 2 else 2
# Read when the libraries start.
os.environ["OMP_NUM_THREADS"] = os.environ["MKL_NUM_THREADS"] = str(THREADS)
os.environ["HF_HUB_OFFLINE"] = os.environ["TRANSFORMERS_OFFLINE"] = os.environ["HF_DATASETS_OFFLINE"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"

import torch
from datasets import Dataset
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast, TrainerCallback
from trl import GRPOConfig, GRPOTrainer

HIDDEN, INNER, LAYERS, HEADS = 128, 344, 4, 4
PROMPTS, SAMPLES, PROMPT, NEW = 8, 8, 24, 48
SEQUENCES, LENGTH = PROMPTS * SAMPLES, PROMPT + NEW
LETTER = "e"
WARM_UP = 2


def character_tokenizer(vocabulary):
    tokens = {"<pad>": 0, "<eos>": 1} | {chr(i): i for i in range(2, vocabulary)}
    tokenizer = Tokenizer(models.WordLevel(tokens, unk_token="<pad>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), behavior="isolated")
    tokenizer.decoder = decoders.Fuse()
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="<pad>", eos_token="<eos>", padding_side="left",
        clean_up_tokenization_spaces=False,
    )


def share_of_letter(completions, **_):
    return [text.count(LETTER) / NEW for text in completions]


class Clock(TrainerCallback):
    """Seconds of every step by its parts. A step lasts from the end of the one before it to its own end."""

    def __init__(self, seconds):
        self.seconds = seconds
        self.steps, self.generation, self.sampling = [], 0.0, 0.0
        self.start = self.end = None

    def on_step_end(self, args, state, control, **_):
        now = time.perf_counter()
        if self.start is not None:
            total, scoring = now - self.start, self.sampling - self.generation
            self.steps.append((total, self.generation, scoring, total - self.sampling))
        if state.global_step == WARM_UP:
            self.end = now + self.seconds
            self.steps.clear()
        if self.end is not None and now >= self.end and len(self.steps) >= 3:
            control.should_training_stop = True
        self.generation = self.sampling = 0.0
        self.start = time.perf_counter()
        return control


class TimedTrainer(GRPOTrainer):
    """Times generation with its scoring, and checks that every completion has its full length."""

    def _generate_and_score_completions(self, inputs):
        begin = time.perf_counter()
        batch = super()._generate_and_score_completions(inputs)
        self.clock.sampling += time.perf_counter() - begin
        assert batch["completion_mask"].sum().item() == SEQUENCES * NEW, "completions of another length"
        assert batch["prompt_ids"].shape == (SEQUENCES, PROMPT)
        return batch


def timed_generate(model, clock):
    """Times `model.generate`. The first call checks that the cache is on: one token per forward after the prompt."""
    generate, lengths = model.generate, []

    def hook(_, args, kwargs):
        ids = kwargs.get("input_ids", args[0] if args else None)
        ids = kwargs["inputs_embeds"] if ids is None else ids
        lengths.append(ids.shape[1])

    handle = model.model.register_forward_pre_hook(hook, with_kwargs=True)

    def wrapped(*args, **kwargs):
        begin = time.perf_counter()
        out = generate(*args, **kwargs)
        clock.generation += time.perf_counter() - begin
        if lengths:
            handle.remove()
            assert lengths == [PROMPT] + [1] * (NEW - 1), f"no KV cache: {lengths}"
            lengths.clear()
        return out

    model.generate = wrapped


def operations(vocabulary):
    """Of (generation, update): those that rl_step.rs counts, where a prompt is computed once for its group."""
    head = vocabulary * HIDDEN
    body = LAYERS * (4 * HIDDEN * HIDDEN + 3 * HIDDEN * INNER)
    width, decoded = LAYERS * HIDDEN, SEQUENCES * (NEW - 1)
    pairs = lambda length: length * (length + 1) // 2
    attended = PROMPTS * pairs(PROMPT) + SEQUENCES * (pairs(LENGTH - 1) - pairs(PROMPT))
    generation = 2 * body * (PROMPTS * PROMPT + decoded) + 2 * head * (PROMPTS + decoded) + 4 * width * attended
    update = 6 * body * SEQUENCES * LENGTH + 6 * head * SEQUENCES * NEW + 12 * width * SEQUENCES * pairs(LENGTH)
    return generation, update


def measured_peak():
    """Largest rate of float32 products of torch, in operations per second."""
    m, n, k = 6144, 344, 128
    a, b, out = torch.full((m, k), 0.5), torch.full((k, n), 0.25), torch.empty(m, n)
    best = 0.0
    for _ in range(60):
        begin = time.perf_counter()
        torch.mm(a, b, out=out)
        best = max(best, 2.0 * m * n * k / (time.perf_counter() - begin))
    return best


def main():
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 10.0
    vocabulary = int(sys.argv[3]) if len(sys.argv) > 3 else 128
    torch.set_num_threads(THREADS)
    torch.manual_seed(1)
    peak = measured_peak()
    config = LlamaConfig(
        vocab_size=vocabulary, hidden_size=HIDDEN, intermediate_size=INNER, num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
        num_key_value_heads=HEADS, tie_word_embeddings=True, bos_token_id=None, eos_token_id=1, pad_token_id=0,
    )
    model = LlamaForCausalLM(config)
    # More steps than the seconds allow; the clock ends the training.
    most = WARM_UP + 3 + int(seconds * 50)
    draws = torch.randint(ord("a"), ord("z") + 1, (most * PROMPTS, PROMPT)).tolist()
    prompts = ["".join(map(chr, row)) for row in draws]
    clock = Clock(seconds)
    timed_generate(model, clock)
    with tempfile.TemporaryDirectory() as folder:
        args = GRPOConfig(
            output_dir=folder, per_device_train_batch_size=SEQUENCES, gradient_accumulation_steps=1,
            num_generations=SAMPLES,
            max_completion_length=NEW, max_steps=most, shuffle_dataset=False, seed=1,
            # The end token is masked until the last token, so all completions are equally long.
            generation_kwargs={"min_new_tokens": NEW, "use_cache": True}, temperature=1.0, top_p=1.0, top_k=0,
            beta=0.0, epsilon=0.2, num_iterations=1, learning_rate=1e-4, lr_scheduler_type="constant",
            max_grad_norm=1.0,
            use_cpu=True, bf16=False, fp16=False, gradient_checkpointing=False, use_vllm=False,
            save_strategy="no", logging_strategy="no", report_to="none", disable_tqdm=True, dataloader_pin_memory=False,
        )
        trainer = TimedTrainer(
            model=model, reward_funcs=share_of_letter, args=args, train_dataset=Dataset.from_dict({"prompt": prompts}),
            processing_class=character_tokenizer(vocabulary), callbacks=[clock],
        )
        trainer.clock = clock
        torch.set_num_threads(THREADS)
        print(f"{torch.get_num_threads()} threads, matrix products {peak / 1e9:.1f} GFLOP/s")
        trainer.train()
    steps = sorted(clock.steps)
    total, generation, scoring, update = steps[len(steps) // 2]
    sampled = SEQUENCES * NEW
    print(
        f"TRL, {HIDDEN} wide, {LAYERS} layers, vocabulary {vocabulary}, {PROMPTS} prompts x {SAMPLES} samples, "
        f"{PROMPT} + {NEW} tokens, {THREADS} threads:"
    )
    print(f"  {total:.4f} s a step [{steps[0][0]:.4f} to {steps[-1][0]:.4f}] (median of {len(steps)})")
    part = lambda name, s: f"{name} {s:.4f} s ({100 * s / total:.0f}%)"
    print(f"  {part('generation', generation)}, {part('update and the rest', update)}, {part('scoring', scoring)}")
    print(
        f"  {sampled} tokens a step: {sampled / generation:.0f} tokens/s generated, "
        f"{sampled / total:.0f} tokens/s end to end; update {SEQUENCES * LENGTH / update:.0f} positions/s"
    )
    generated, updated = operations(vocabulary)
    rate = lambda count, s: f"{count / s / 1e9:.1f} GFLOP/s ({100 * count / s / peak:.0f}% of the peak)"
    print(
        f"  generation {rate(generated, generation)}, update {rate(updated, update)}, "
        f"step {rate(generated + updated, total)}"
    )
    print(f"  {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MiB at most")
    print(
        f"  median of generation {statistics.median(s[1] for s in steps):.4f} s, "
        f"of update {statistics.median(s[3] for s in steps):.4f} s"
    )


if __name__ == "__main__":
    main()
