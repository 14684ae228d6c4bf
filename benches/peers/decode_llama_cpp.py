"""Batched decoding by llama.cpp on the SmolLM2-135M shapes of src/bin/decode.rs, in float32: random weights as GGUF.

Needs numpy, gguf and xllamacpp, which brings llama.cpp's server; requests go to it over the loopback.
Usage: python decode_llama_cpp.py [seconds per shape] [threads] [batch ...]
"""

import json
import os
import statistics
import sys
import tempfile
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor

import gguf
import numpy as np
import xllamacpp

VOCABULARY, HIDDEN, INNER, LAYERS, HEADS, KEYS = 49152, 576, 1536, 30, 9, 3
PROMPT, NEW = 24, 48


def write(path):
    """A random model of the shape, with a vocabulary of single letters and made-up tokens."""
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(8192)
    writer.add_embedding_length(HIDDEN)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(INNER)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KEYS)
    writer.add_rope_dimension_count(HIDDEN // HEADS)
    writer.add_rope_freq_base(1e5)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(VOCABULARY)
    writer.add_file_type(gguf.LlamaFileType.ALL_F32)
    tokens = [chr(ord("a") + i) for i in range(26)] + ["ab"] + [f"t{i}" for i in range(27, VOCABULARY)]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list(tokens)
    writer.add_token_types([gguf.TokenType.NORMAL] * VOCABULARY)
    writer.add_token_merges(["a b"])
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(1)
    draws = np.random.default_rng(1)

    def matrix(name, rows, columns):
        writer.add_tensor(name, draws.normal(0, 0.02, (rows, columns)).astype(np.float32))

    matrix("token_embd.weight", VOCABULARY, HIDDEN)
    writer.add_tensor("output_norm.weight", np.ones(HIDDEN, np.float32))
    width = HIDDEN // HEADS * KEYS
    for layer in range(LAYERS):
        for norm in ["attn_norm", "ffn_norm"]:
            writer.add_tensor(f"blk.{layer}.{norm}.weight", np.ones(HIDDEN, np.float32))
        for name, rows, columns in [
            ("attn_q", HIDDEN, HIDDEN), ("attn_k", width, HIDDEN), ("attn_v", width, HIDDEN),
            ("attn_output", HIDDEN, HIDDEN), ("ffn_gate", INNER, HIDDEN), ("ffn_up", INNER, HIDDEN),
            ("ffn_down", HIDDEN, INNER),
        ]:
            matrix(f"blk.{layer}.{name}.weight", rows, columns)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def serve(path, threads, batch):
    params = xllamacpp.CommonParams()
    params.model.path = path
    params.port = 0
    params.n_parallel = batch
    params.n_ctx = 256 * batch
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = threads
    params.warmup = True
    return xllamacpp.Server(params)


def measure(server, batch, seconds):
    draws = np.random.default_rng(2)
    prompts = draws.integers(30, VOCABULARY, (batch, PROMPT)).tolist()

    def request(prompt):
        body = {
            "prompt": prompt, "n_predict": NEW, "ignore_eos": True, "temperature": 1.0, "samplers": ["temperature"],
            "cache_prompt": False,
        }
        data = json.dumps(body).encode()
        call = urllib.request.Request(
            f"{server.listening_address}/completion", data, {"content-type": "application/json"}
        )
        with urllib.request.urlopen(call) as answer:
            assert json.load(answer)["tokens_predicted"] == NEW

    with ThreadPoolExecutor(batch) as pool:

        def run():
            begin = time.perf_counter()
            list(pool.map(request, prompts))
            return time.perf_counter() - begin

        run()
        times, start = [], time.perf_counter()
        while time.perf_counter() - start < seconds or len(times) < 3:
            times.append(run())
    return times


def main():
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 5.0
    threads = int(sys.argv[2]) if len(sys.argv) > 2 else 2
    batches = [int(batch) for batch in sys.argv[3:]] or [1, 8, 32]
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "random.gguf")
        write(path)
        for batch in batches:
            server = serve(path, threads, batch)
            times = measure(server, batch, seconds)
            median, sampled = statistics.median(times), batch * NEW
            print(
                f"135m-{batch}, llama.cpp F32, {PROMPT} + {NEW} tokens: {sampled / median:.0f} tokens/s "
                f"[{sampled / max(times):.0f} to {sampled / min(times):.0f}], {median * 1e3:.1f} ms a run "
                f"(median of {len(times)})",
                flush=True,
            )
            del server


if __name__ == "__main__":
    main()
