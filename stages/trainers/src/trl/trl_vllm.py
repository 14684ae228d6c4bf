"""Draws turns by vLLM inside of TRL, for `trl_practice.py`.

TRL weighs sampled tokens by the ratio between its probabilities and vLLM's. So each turn is kept with vLLM's
log-probabilities until its episode is complete.
"""
import sys


class VllmTurns:
    """Turns of one request for episodes, by the tokens that they continue."""

    def __init__(self, options, stop):
        self.options, self.stop = options, stop
        self.drawn = {}

    def arguments(self):
        """Keys of GRPOConfig."""
        named = {f"vllm_{name}": value for name, value in self.options.items()}
        return {"use_vllm": True, "generation_kwargs": {"stop_token_ids": list(self.stop)}} | named

    def forget(self):
        """Drops the turns of earlier episodes."""
        self.drawn = {}

    def say(self, turns, trainer, cut):
        """The next turns of sequences, drawn together. TRL has given vLLM the current weights."""
        source = trainer.vllm_generation
        source.max_completion_length = max(turn["most"] for turn in turns)
        contexts = [turn["tokens"] for turn in turns]
        _, drawn, likelihoods, _ = source.generate(prompts=contexts, images=None, num_generations=1)
        said = []
        for turn, tokens, likelihood in zip(turns, drawn, likelihoods):
            kept = cut(list(tokens)[: turn["most"]])
            # Of each token, the first number is that of the sampled one.
            scores = [of_token[0] for of_token in likelihood[: len(kept)]]
            self.drawn.setdefault(tuple(turn["tokens"]), []).append((kept, scores))
            said.append(kept)
        return said

    def logprobs(self, episode):
        """Log-probabilities of the completion's tokens; 0 where the environment wrote them."""
        start, tokens = len(episode["prompt"]), episode["prompt"] + episode["completion"]
        scores, at = [0.0] * len(episode["completion"]), start
        while at < len(tokens):
            turn = next((turn for turn in self.drawn.get(tuple(tokens[:at]), []) if begins(tokens, at, turn[0])), None)
            if turn:
                scores[at - start : at - start + len(turn[0])] = turn[1]
                at += len(turn[0])
            elif episode["mask"][at - start]:
                sys.exit(f"token {at} of an episode was sampled, but vLLM did not draw it")
            else:
                at += 1
        return scores


def begins(tokens, at, turn):
    """Whether a turn that is not empty continues the first `at` tokens."""
    return bool(turn) and tokens[at : at + len(turn)] == turn
