"""An agent of the package `langgraph`: nothing in it knows that it is trained."""

import os

from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from langgraph.prebuilt import create_react_agent

from calculator import compute


@tool
def calculator(expression: str) -> str:
    """Evaluates one arithmetic expression."""
    return compute(expression)


agent = create_react_agent(ChatOpenAI(model="gpt-5-mini"), tools=[calculator])
question = {"role": "user", "content": os.environ["TRAINYARD_QUESTION"]}
print(agent.invoke({"messages": [question]})["messages"][-1].content)
