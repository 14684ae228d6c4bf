"""Batched decoding by Hugging Face `generate`, on the shapes of src/bin/decode.rs. Needs torch and transformers.

Usage: python decode.py [seconds per shape] [threads] [shape]
"""

import statistics
import sys
import time

import torch
from transformers import LlamaConfig, LlamaForCausalLM

SHAPES = [
    # name, vocabulary, hidden, intermediate, layers, heads, key-value heads, batch, prompt, new
    ("quickstart (96 wide, 3 layers)", 493, 96, 256, 3, 4, 4, 64, 24, 48),
    ("small (128 wide, 4 layers)", 256, 128, 344, 4, 4, 4, 64, 24, 48),
    ("middle (512 wide, 8 layers)", 1024, 512, 1376, 8, 8, 8, 16, 256, 48),
    ("135m-1 (SmolLM2-135M)", 49152, 576, 1536, 30, 9, 3, 1, 24, 48),
    ("135m-8 (SmolLM2-135M)", 49152, 576, 1536, 30, 9, 3, 8, 24, 48),
    ("135m-32 (SmolLM2-135M)", 49152, 576, 1536, 30, 9, 3, 32, 24, 48),
]


def main():
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 5.0
    torch.set_num_threads(int(sys.argv[2]) if len(sys.argv) > 2 else 2)
    prefix = sys.argv[3] if len(sys.argv) > 3 else ""
    torch.manual_seed(1)
    for name, vocabulary, hidden, inner, layers, heads, keys, batch, prompt, new in SHAPES:
        if not name.startswith(prefix):
            continue
        config = LlamaConfig(
            vocab_size=vocabulary, hidden_size=hidden, intermediate_size=inner, num_hidden_layers=layers,
            num_attention_heads=heads, num_key_value_heads=keys, tie_word_embeddings=True,
            bos_token_id=None, eos_token_id=None, pad_token_id=0,
        )
        model = LlamaForCausalLM(config).eval()
        tokens = torch.randint(1, vocabulary, (batch, prompt))
        mask = torch.ones_like(tokens)

        def run():
            with torch.inference_mode():
                out = model.generate(
                    tokens, attention_mask=mask, do_sample=True, temperature=1.0, top_k=0, top_p=1.0,
                    min_new_tokens=new, max_new_tokens=new,
                )
            assert out.shape == (batch, prompt + new)

        run()
        times, start = [], time.perf_counter()
        while time.perf_counter() - start < seconds or len(times) < 3:
            begin = time.perf_counter()
            run()
            times.append(time.perf_counter() - begin)
        median = statistics.median(times)
        sampled = batch * new
        print(
            f"{name}, batch {batch}, {prompt} + {new} tokens: {sampled / median:.0f} tokens/s "
            f"[{sampled / max(times):.0f} to {sampled / min(times):.0f}], "
            f"{median * 1e3:.1f} ms a run (median of {len(times)})"
        )


if __name__ == "__main__":
    main()
