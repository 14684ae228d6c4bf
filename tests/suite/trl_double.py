"""A double of TRL 1.16, for the part that `engine/trl` uses: GRPOTrainer that draws by vLLM. The other packages that
the program of the stage imports (torch, transformers, datasets) lead here too.

It refuses options of vLLM that GRPOConfig does not have, prints its configuration, and checks that the log-probability
of each sampled token is the one that vLLM gave for it in its context.
"""
import json
import os
from types import SimpleNamespace

__version__ = "1.16.0"
float32 = "float32"
cuda = SimpleNamespace(is_available=lambda: False)
TrainerCallback = object
VLLM = {
    "mode", "model_impl", "enable_sleep_mode", "structured_outputs_regex", "server_base_url", "server_host",
    "server_port", "server_timeout", "group_port", "gpu_memory_utilization", "max_model_length",
    "tensor_parallel_size", "importance_sampling_correction", "importance_sampling_mode",
    "importance_sampling_clip_max", "importance_sampling_clip_min",
}


def set_num_threads(count):
    pass


def set_seed(seed):
    pass


def load_dataset(kind, data_files, split):
    with open(data_files) as rows:
        return [json.loads(line) for line in rows]


class AutoTokenizer:
    pad_token = "<pad>"

    @classmethod
    def from_pretrained(cls, folder):
        return cls()


class AutoModelForCausalLM:
    def __init__(self, folder):
        self.name_or_path = folder

    @classmethod
    def from_pretrained(cls, folder, dtype):
        return cls(folder)


class GRPOConfig:
    def __init__(self, **options):
        unknown = [name for name in options if name.startswith("vllm_") and name[5:] not in VLLM]
        if unknown:
            raise TypeError(f"unexpected arguments: {unknown}")
        self.options = options
        shown = {name: value for name, value in options.items() if "vllm" in name or name == "generation_kwargs"}
        print("GRPOConfig", json.dumps(shown, sort_keys=True), flush=True)


def likelihood(context, token):
    return -(len(context) + 1 + token % 11) / 64.0


class VllmGeneration:
    """Draws until the limit of the longest turn, with a stop token in every second turn."""

    def __init__(self, folder, stop):
        with open(os.path.join(folder, "config.json")) as file:
            self.vocabulary = json.load(file)["vocab_size"]
        self.stop = stop
        self.max_completion_length = 10**6

    def generate(self, prompts, images, num_generations, profiler=None):
        assert images is None and num_generations == 1
        drawn, scores = [], []
        for number, prompt in enumerate(prompts):
            tokens = [(len(prompt) + 3 * number + 5 * i) % self.vocabulary for i in range(self.max_completion_length)]
            if number % 2:
                tokens = tokens[:3] + [self.stop[0]]
            context, of_turn = list(prompt), []
            for token in tokens:
                of_turn.append([likelihood(context, token)])
                context.append(token)
            drawn.append(tokens)
            scores.append(of_turn)
        return prompts, drawn, scores, None


class GRPOTrainer:
    def __init__(self, model, processing_class, train_dataset, args, callbacks, reward_funcs, rollout_func):
        options = args.options
        assert options["use_vllm"] and processing_class.pad_token
        self.model, self.args, self.callbacks = model, SimpleNamespace(output_dir=options["output_dir"]), callbacks
        self.rows, self.rewards, self.rollout = train_dataset, reward_funcs, rollout_func
        self.num_generations, self.steps = options["num_generations"], options["max_steps"]
        self.groups = options["per_device_train_batch_size"] * options["gradient_accumulation_steps"]
        self.groups //= self.num_generations
        self.state = SimpleNamespace(global_step=0, max_steps=self.steps)
        stop = options["generation_kwargs"]["stop_token_ids"]
        self.vllm_generation = VllmGeneration(model.name_or_path, stop)

    def train(self, resume_from_checkpoint):
        for step in range(self.steps):
            chosen = [self.rows[(step * self.groups + at) % len(self.rows)]["prompt"] for at in range(self.groups)]
            prompts = [prompt for prompt in chosen for _ in range(self.num_generations)]
            out = self.rollout(prompts, self)
            checked = sum(self.check(*one) for one in zip(*[out[name] for name in (
                "prompt_ids", "completion_ids", "logprobs", "env_mask")], strict=True))
            assert checked, "no token was sampled"
            metrics = {}
            for function in self.rewards:
                scored = function(scored=out["scored"], log_metric=metrics.__setitem__)
                assert len(scored) == len(prompts)
            self.state.global_step = step + 1
            logs = {"loss": 1.0 / (step + 1), "checked_tokens": checked} | metrics
            for callback in self.callbacks:
                callback.on_log(self.args, self.state, None, logs=logs)

    def check(self, prompt, completion, logprobs, mask):
        """Returns the number of sampled tokens."""
        tokens = prompt + completion
        assert len(completion) == len(logprobs) == len(mask)
        for at, (score, sampled) in enumerate(zip(logprobs, mask), start=len(prompt)):
            wanted = likelihood(tokens[:at], tokens[at]) if sampled else 0.0
            assert score == wanted, (at, score, wanted)
        return sum(mask)

    def save_model(self, folder):
        with open(os.path.join(self.model.name_or_path, "model.safetensors"), "rb") as file:
            weights = bytearray(file.read())
        weights[-4:] = bytes(4)
        with open(os.path.join(folder, "model.safetensors"), "wb") as file:
            file.write(weights)
