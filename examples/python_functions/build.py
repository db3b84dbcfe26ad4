"""The workflow of workflow.yaml, built in Python: functions stand where a file names them.

Run it:  python examples/python_functions/build.py
"""

from __future__ import annotations

from functions import ask_politely, is_friendly, measure, shorten, without_quotes

import roundel

SCRIPT = {
    "Writer": [
        '"Close the door behind you when you leave the house at night"',
        '"Close the door"',
        '"Please close the door"',
    ]
}


def build() -> roundel.Graph:
    models = {"default": {"model": "openai:gpt-4o"}}
    graph = roundel.Graph("python_functions", start="Writer", end="Sign", models=models)
    graph.node("Writer", "agent", role="Write a sign of a few words. Answer with the sign alone.")
    graph.node("Measure", "python", function=measure, ports=["fits", "too_long"])
    graph.node("Polite", "python", function=ask_politely)
    graph.node("Guard", "loop_counter", max_iterations=5, message="Nothing was short and friendly enough.")
    graph.node("Sign", "passthrough")
    graph.edge("Writer", "Measure", process=without_quotes)
    graph.edge("Measure", "Writer", port="too_long", process=shorten)
    graph.edge("Measure", "Sign", port="fits", condition=is_friendly)
    graph.edge("Measure", "Polite", port="fits")
    graph.edge("Polite", "Writer")
    graph.edge("Measure", "Guard")
    graph.edge("Guard", "Writer")
    graph.edge("Guard", "Sign")
    return graph


def main() -> None:
    result = roundel.run(build(), "a sign for the door", script=SCRIPT)
    print(f"{result.status} after {result.loops['Writer']['rounds']} rounds: {result.output}")


if __name__ == "__main__":
    main()
