"""Practice with the stage, for GRPOTrainer: `trl_engine.py` imports this.

The standard input is one end of a socket. Lines of JSON go both ways: the stage plays episodes in its own environment
and scores them, and asks in between for the next turns, which TRL's model says.
"""
import copy
import json
import os
import socket
import sys

from trl_vllm import VllmTurns

STATE = "trainyard_rewards.json"


class Stage:
    """The other end of the standard input."""

    def __init__(self):
        own = socket.socket(fileno=os.dup(0))
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.close(nothing)
        self.lines = own.makefile("rw", encoding="utf-8", newline="\n")

    def ask(self, **question):
        """Writes a line and reads the answer."""
        try:
            self.lines.write(json.dumps(question) + "\n")
            self.lines.flush()
            line = self.lines.readline()
        except OSError:
            line = ""
        if not line.endswith("\n"):
            sys.exit("the stage has gone")
        return json.loads(line)


class Practice:
    """What GRPOTrainer is given: a rollout function, reward functions, arguments."""

    def __init__(self, options):
        self.stage = Stage()
        opened = self.stage.ask(open={})["opened"]
        self.components, self.stop = opened["rewards"], opened["stop"]
        self.rollout = options["rollout"]
        self.vllm = VllmTurns(options["vllm"], self.stop) if options.get("vllm") else None
        self.round = (-1, 0)

    def arguments(self):
        names = ("temperature", "top_p", "top_k")
        chosen = {name: self.rollout[name] for name in names} | {
            "num_generations": self.rollout["group_size"],
            "max_completion_length": self.rollout["max_episode_tokens"],
            "reward_weights": [weight for _, weight in self.components],
        }
        return chosen | (self.vllm.arguments() if self.vllm else {})

    def play(self, prompts, trainer):
        """The rollout function. A prompt is the name of its problem."""
        size = trainer.num_generations
        groups = prompts[::size]
        if len(prompts) % size or prompts != [problem for problem in groups for _ in range(size)]:
            sys.exit("TRL has split a group of episodes: run it in one process, with whole groups in a step")
        step, round = self.round
        self.round = (step, round + 1) if step == trainer.state.global_step else (trainer.state.global_step, 0)
        step, round = self.round
        if self.vllm:
            self.vllm.forget()
        heard = self.stage.ask(play={"step": step, "round": round, "problems": groups, "members": size})
        while "say" in heard:
            heard = self.stage.ask(said=self.say(heard["say"], trainer))
        episodes, self.metrics = heard["played"]["episodes"], heard["played"]["metrics"]
        return {
            "prompt_ids": [one["prompt"] for one in episodes],
            "completion_ids": [one["completion"] for one in episodes],
            "logprobs": [self.vllm.logprobs(one) for one in episodes] if self.vllm else None,
            "env_mask": [one["mask"] for one in episodes],
            "scored": [one["rewards"] for one in episodes],
        }

    def say(self, turns, trainer):
        """The next turns of sequences, drawn together."""
        if self.vllm:
            return self.vllm.say(turns, trainer, self.cut)
        import torch
        from trl.models import unwrap_model_for_generation

        config = copy.deepcopy(trainer.generation_config)
        config.max_new_tokens = max(turn["most"] for turn in turns)
        config.eos_token_id, config.pad_token_id = self.stop, self.stop[0]
        longest = max(len(turn["tokens"]) for turn in turns)
        ids, mask = [], []
        for turn in turns:
            padding = longest - len(turn["tokens"])
            ids.append([self.stop[0]] * padding + turn["tokens"])
            mask.append([0] * padding + [1] * len(turn["tokens"]))
        device = trainer.accelerator.device
        inputs = {"input_ids": torch.tensor(ids, device=device), "attention_mask": torch.tensor(mask, device=device)}
        unwrapped = unwrap_model_for_generation(
            trainer.model_wrapped, trainer.accelerator,
            gather_deepspeed3_params=trainer.args.ds3_gather_for_generation,
            gradient_checkpointing_kwargs=trainer.args.gradient_checkpointing_kwargs,
        )
        with unwrapped as model, torch.no_grad():
            drawn = model.generate(**inputs, generation_config=config)[:, longest:].tolist()
        return [self.cut(tokens[: turn["most"]]) for tokens, turn in zip(drawn, turns)]

    def cut(self, tokens):
        """A turn ends with its first stop token."""
        ends = (at + 1 for at, token in enumerate(tokens) if token in self.stop)
        return tokens[: next(ends, len(tokens))]

    def rewards(self):
        """A reward function for each component, which hands over what the stage has computed."""

        def function(name):
            def reward(scored, log_metric, **others):
                for metric, value in self.metrics.items():
                    log_metric(metric, value)
                self.metrics = {}
                return [one.get(name) for one in scored]

            reward.__name__ = name
            return reward

        return [function(name) for name, _ in self.components]

    def save(self, folder):
        """What the stage keeps across steps goes into the checkpoint."""
        with open(os.path.join(folder, STATE), "w") as file:
            json.dump(self.stage.ask(save={})["state"], file)
