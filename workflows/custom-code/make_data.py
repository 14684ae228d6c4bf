#!/usr/bin/env python3
"""Makes the data of workflows/custom-code.yaml, in the form of chat logs: python3 make_data.py

Customers of a fruit shop ask what some items cost. The clerk looks up each price and adds them up. Every file is
written again with the same content each time. Standard library only.
"""
import json
import pathlib
import random

from shop_tools import PRICES, add, price

FOLDER = pathlib.Path(__file__).parent


def plural(item, count):
    if count == 1:
        return f"1 {item}"
    return f"{count} {item[:-1] + 'ies' if item.endswith('y') else item + 'es' if item.endswith('ch') else item + 's'}"


def orders(chance, how_many):
    """Different orders of one to three items, in a random order."""
    found = {}
    while len(found) < how_many:
        items = chance.sample(sorted(PRICES), chance.choice([1, 2, 2, 3]))
        found[tuple((item, chance.randint(1, 9)) for item in items)] = None
    return list(found)


def question(order):
    parts = [plural(item, count) for item, count in order]
    text = parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
    return f"How much for {text}?"


def chat(order):
    messages = [{"role": "user", "content": question(order)}]

    def call(name, result, **arguments):
        number = f"call_{len(messages)}"
        function = {"name": name, "arguments": json.dumps(arguments)}
        messages.append({"role": "assistant", "content": None,
                         "tool_calls": [{"id": number, "type": "function", "function": function}]})
        messages.append({"role": "tool", "tool_call_id": number, "content": str(result)})
        return result

    amounts = [call("price", price(item, count), item=item, count=count) for item, count in order]
    if len(amounts) > 1:
        call("add", add(amounts), amounts=amounts)
    messages.append({"role": "assistant", "content": str(sum(amounts))})
    return {"messages": messages}


def write(name, rows):
    (FOLDER / name).write_text("".join(json.dumps(row) + "\n" for row in rows))


def main():
    every = orders(random.Random(7), 1100)
    problems = [{"question": question(order), "answer": chat(order)["messages"][-1]["content"]} for order in every]
    write("chats.jsonl", [chat(order) for order in every[:400]])
    write("practice.jsonl", problems[400:900])
    write("test.jsonl", problems[900:])


if __name__ == "__main__":
    main()
