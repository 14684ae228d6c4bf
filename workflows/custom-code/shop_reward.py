"""A custom reward: customers wait while a clerk looks up the same price twice."""
import trainyard_bridge as ty


@ty.reward
def no_repeats(episode: ty.Episode) -> float:
    calls = [str(call) for message in episode.messages for call in message.tool_calls]
    return -0.2 * (len(calls) - len(set(calls)))


ty.run()
