"""Training steps in PyTorch, eager and compiled, on the shapes of src/bin/train_step.rs.

Needs torch; takes the Llama of transformers where it is installed, besides the plain one below, and peft for LoRA.
Usage: python train_step.py [seconds per shape] [threads] [shape] [eager,compiled]
"""

import statistics
import sys
import time

import torch
import torch.nn.functional as F

SHAPES = [
    # name, vocabulary, hidden, intermediate, layers, heads, key-value heads, rank of LoRA, sequences, length
    ("quickstart (96 wide, 3 layers, 32 x 64)", 493, 96, 256, 3, 4, 4, 0, 32, 64),
    ("small (128 wide, 4 layers, 64 x 96)", 256, 128, 344, 4, 4, 4, 0, 64, 96),
    ("135m (SmolLM2-135M, 4 x 512)", 49152, 576, 1536, 30, 9, 3, 0, 4, 512),
    ("lora-135m (SmolLM2-135M, LoRA of rank 16, 4 x 512)", 49152, 576, 1536, 30, 9, 3, 16, 4, 512),
]
LINEAR = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]


class RMSNorm(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(width))

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight


class Layer(torch.nn.Module):
    def __init__(self, hidden, inner, heads):
        super().__init__()
        linear = lambda a, b: torch.nn.Linear(a, b, bias=False)
        self.heads = heads
        self.norm1, self.norm2 = RMSNorm(hidden), RMSNorm(hidden)
        self.q, self.k, self.v, self.o = (linear(hidden, hidden) for _ in range(4))
        self.gate, self.up, self.down = linear(hidden, inner), linear(hidden, inner), linear(inner, hidden)

    def forward(self, x, cos, sin):
        batch, length, hidden = x.shape
        split = lambda t: t.view(batch, length, self.heads, -1).transpose(1, 2)

        def rotate(t):
            a, b = t.chunk(2, -1)
            return t * cos + torch.cat((-b, a), -1) * sin

        h = self.norm1(x)
        q, k, v = split(self.q(h)), split(self.k(h)), split(self.v(h))
        a = F.scaled_dot_product_attention(rotate(q), rotate(k), v, is_causal=True)
        x = x + self.o(a.transpose(1, 2).reshape(batch, length, hidden))
        h = self.norm2(x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))


class Plain(torch.nn.Module):
    def __init__(self, vocabulary, hidden, inner, layers, heads):
        super().__init__()
        self.embed = torch.nn.Embedding(vocabulary, hidden)
        self.layers = torch.nn.ModuleList(Layer(hidden, inner, heads) for _ in range(layers))
        self.norm = RMSNorm(hidden)
        self.dim = hidden // heads

    def forward(self, tokens):
        rates = 10000.0 ** (-torch.arange(0, self.dim, 2) / self.dim)
        angles = torch.outer(torch.arange(tokens.shape[1]), rates)
        angles = torch.cat((angles, angles), -1)
        x = self.embed(tokens)
        for layer in self.layers:
            x = layer(x, angles.cos(), angles.sin())
        return F.linear(self.norm(x), self.embed.weight)


def models(vocabulary, hidden, inner, layers, heads, keys, rank):
    if heads == keys and rank == 0:
        yield "plain torch", Plain(vocabulary, hidden, inner, layers, heads), lambda m, t: m(t)
    try:
        from transformers import LlamaConfig, LlamaForCausalLM
    except ImportError:
        return
    config = LlamaConfig(
        vocab_size=vocabulary, hidden_size=hidden, intermediate_size=inner, num_hidden_layers=layers,
        num_attention_heads=heads, num_key_value_heads=keys, tie_word_embeddings=True, use_cache=False,
        max_position_embeddings=8192,
    )
    model = LlamaForCausalLM(config)
    if rank == 0:
        yield "transformers", model, lambda m, t: m(t).logits
        return
    from peft import LoraConfig, get_peft_model

    model = get_peft_model(model, LoraConfig(r=rank, lora_alpha=32, target_modules=LINEAR))
    yield "peft", model, lambda m, t: m(t).logits


def step(model, forward, optimizer, tokens):
    logits = forward(model, tokens)[:, :-1]
    loss = F.cross_entropy(logits.reshape(-1, logits.shape[-1]), tokens[:, 1:].reshape(-1))
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()


def measure(model, forward, tokens, seconds):
    """The median time of a step, and the number of steps."""
    learned = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(learned, lr=1e-3)
    for _ in range(2):
        step(model, forward, optimizer, tokens)
    times, start = [], time.perf_counter()
    while time.perf_counter() - start < seconds or len(times) < 3:
        begin = time.perf_counter()
        step(model, forward, optimizer, tokens)
        times.append(time.perf_counter() - begin)
    return statistics.median(times), len(times)


def main():
    argument = lambda i, default: sys.argv[i] if len(sys.argv) > i else default
    seconds, prefix, modes = float(argument(1, 5.0)), argument(3, ""), argument(4, "eager,compiled").split(",")
    torch.set_num_threads(int(argument(2, 2)))
    torch.manual_seed(1)
    for name, vocabulary, hidden, inner, layers, heads, keys, rank, sequences, length in SHAPES:
        if not name.startswith(prefix):
            continue
        tokens = torch.randint(vocabulary, (sequences, length))
        for mode in modes:
            for kind, model, forward in models(vocabulary, hidden, inner, layers, heads, keys, rank):
                if mode == "compiled":
                    model.compile()
                median, steps = measure(model, forward, tokens, seconds)
                rate = sequences * length / median
                print(f"{name}, {kind}, {mode}: {rate:.0f} tokens/s, {median * 1e3:.1f} ms a step (median of {steps})")


if __name__ == "__main__":
    main()
