"""An agent of the package `openai-agents`: nothing in it knows that it is trained."""

import os

from agents import Agent, Runner, function_tool

from calculator import compute


@function_tool
def calculator(expression: str) -> str:
    """Evaluates one arithmetic expression."""
    return compute(expression)


solver = Agent(name="solver", model="gpt-5-mini", tools=[calculator])
print(Runner.run_sync(solver, os.environ["TRAINYARD_QUESTION"]).final_output)
