"""Workflows with scripts, one for each state in which a page shows a run."""

from __future__ import annotations

import json
from typing import Any

import yaml
from msgspec import Struct


class Sample(Struct, frozen=True):
    """A workflow, and how it is started."""

    text: str
    input: str
    script: dict[str, Any]
    more: dict[str, Any] = {}
    answers: tuple[str, ...] = ()
    """What a person answers at first; the next question stays open."""


def _reply(
    text: Any, delay: float = 0.0, *, tokens: tuple[int, int] = (120, 40), **more: Any
) -> dict[str, Any]:
    """A reply of a script. One that takes time is also streamed."""
    shown = text if isinstance(text, str) else json.dumps(text)
    stream = {"delay": delay, "stream": True} if delay else {}
    return {"text": shown, "tokens": {"input": tokens[0], "output": tokens[1]}, **stream, **more}


def _text(graph: dict[str, Any], **more: Any) -> str:
    return yaml.safe_dump({"version": "0.1.0", "graph": graph, **more}, sort_keys=False, allow_unicode=True)


def _agent(name: str, role: str, **config: Any) -> dict[str, Any]:
    return {"id": name, "type": "agent", "config": {"role": role, **config}}


_LINES = [
    "Our tea is very good.",
    "Our tea is picked before the sun is up.",
    "Tea! Picked early! Drink it now!",
    "Picked before the sun is up. Yours by four.",
]
_SCORES = [(58, "Says nothing. Give me a picture."), (84, "A picture. Now let me want it.")]
_SCORES += [(61, "It shouts. Go back to the picture."), (93, "Yes.")]

_POLISH_GRAPH = {
    "id": "polish",
    "nodes": [
        _agent("Writer", "Write a line that sells tea."),
        _agent("Critic", "Score the line from 0 to 100."),
        {
            "id": "Gate",
            "type": "loop",
            "config": {"max_rounds": 10, "exit_on_score": 90, "patience": 6, "min_delta": 1},
        },
        {"id": "Final", "type": "passthrough"},
    ],
    "edges": [
        {"from": "Writer", "to": "Critic"},
        {"from": "Critic", "to": "Gate"},
        {"from": "Gate", "to": "Writer", "port": "continue"},
        {"from": "Gate", "to": "Final", "port": "exit"},
    ],
    "start": "Writer",
    "end": "Final",
}


_POLISH = Sample(
    _text(_POLISH_GRAPH, limits={"tokens": 6000}),
    "a line that sells tea, at most twelve words",
    {
        "Writer": [_reply(line) for line in _LINES],
        "Critic": [_reply({"score": score, "note": note}) for score, note in _SCORES],
    },
)
_HOLD = {"hold": {"python": "tests.web.tools:hold"}}


def _hold(gate: str) -> dict[str, Any]:
    """A reply that calls the tool which waits until the test opens the gate."""
    return {"tool_calls": [{"name": "hold", "arguments": {"gate": gate}}]}


def held_polish(gate: str) -> Sample:
    """A run of "polish" that stays in each round until the test opens the gate: `GATE-1` to `GATE-4`."""
    writer, critic, *others = _POLISH_GRAPH["nodes"]
    critic = _agent("Critic", "Score the line from 0 to 100.", tools=["hold"])
    script = dict(_POLISH.script)
    script["Critic"] = [
        reply
        for number, answer in enumerate(_POLISH.script["Critic"], 1)
        for reply in (_hold(f"{gate}-{number}"), answer)
    ]
    graph = {**_POLISH_GRAPH, "nodes": [writer, critic, *others]}
    return Sample(_text(graph, tools=_HOLD, limits={"tokens": 6000}), _POLISH.input, script)


_MANY_LINES = " ".join(f"line {number}" for number in range(1, 101))
_STREAM = Sample(
    _text({"id": "stream", "nodes": [_agent("Writer", "Write a lot.")], "start": "Writer", "end": "Writer"}),
    "a long text",
    {"Writer": [_reply(f"It begins. {_MANY_LINES} It ends.", 60)]},
)
"""A text that a model writes for a minute; its first words appear at once."""


_PARSER = """UNIT = {{"s": 1, "m": 60, "h": 3600, "d": 86400{unit}}}

def parse(text):
    total = 0
    for n, unit in re.findall({pattern}, {source}):
        total += {number}(n) * UNIT[unit]
    return {result}"""
_DRAFTS = [
    _PARSER.format(unit="", pattern='r"(\\d+)([smhd])"', source="text", number="int", result="total"),
    _PARSER.format(unit="", pattern='r"(\\d+)\\s*([smhd])"', source="text", number="int", result="total"),
    _PARSER.format(
        unit=', "w": 604800',
        pattern='r"(\\d+(?:\\.\\d+)?)\\s*([smhdw])"',
        source="text.lower()",
        number="float",
        result="round(total)",
    ),
]

_NESTED_GRAPH = {
    "id": "duration_parser",
    "nodes": [
        _agent("Planner", "Say what the parser has to accept next."),
        _agent("Coder", "Write the parser."),
        _agent("Tester", "Run the tests, and score the parser.", tools=["run_tests"]),
        {"id": "Test Gate", "type": "loop", "config": {"max_rounds": 10, "exit_on_score": 95}},
        {"id": "Reviewer", "type": "human", "config": {"description": "SHIP, or what is missing?"}},
        {"id": "Review Guard", "type": "loop_counter", "config": {"max_iterations": 3}},
        {"id": "Final", "type": "passthrough"},
    ],
    "edges": [
        {"from": "Planner", "to": "Coder"},
        {"from": "Coder", "to": "Tester"},
        {"from": "Tester", "to": "Test Gate"},
        {"from": "Test Gate", "to": "Coder", "port": "continue"},
        {"from": "Test Gate", "to": "Reviewer", "port": "exit"},
        {"from": "Reviewer", "to": "Final", "condition": {"type": "keyword", "config": {"any": ["SHIP"]}}},
        {"from": "Reviewer", "to": "Planner", "condition": {"type": "keyword", "config": {"none": ["SHIP"]}}},
        {
            "from": "Reviewer",
            "to": "Review Guard",
            "condition": {"type": "keyword", "config": {"none": ["SHIP"]}},
        },
        {"from": "Review Guard", "to": "Planner"},
        {"from": "Review Guard", "to": "Final"},
    ],
    "start": "Planner",
    "end": "Final",
}


def _nested(slow: float) -> Sample:
    scores = [31, 54, 69, 97, 62, 74, 85, 88, 90, 96]
    notes = [
        "Only one unit is read; 2h30m gives two hours.",
        "Spaces between number and unit are not accepted.",
        "Text in capitals is not accepted; 5M fails.",
        "All tests pass.",
        "Fractions are cut off: 1.5 d is one day.",
        "Weeks are missing, and PT15M has another form.",
        "Empty text and words must raise ValueError; -5m loses its sign.",
        "Words are rejected now; the sign is still lost.",
        "Only the ISO form is missing.",
        "Everything passes.",
    ]
    call = {"name": "run_tests", "arguments": {"path": "tests/test_duration.py", "timeout": 20}}
    tester: list[dict[str, Any]] = []
    for number, score in enumerate(scores):
        delay = slow if number > 6 else 0
        tester += [
            {"tool_calls": [call], "tokens": {"input": 1900, "output": 24}, "delay": delay},
            _reply({"score": score, "note": notes[number]}, delay, tokens=(2431, 88)),
        ]
    return Sample(
        _text(
            _NESTED_GRAPH,
            tools={"run_tests": {"python": "tests.web.tools:run_tests"}},
            limits={"tokens": 120_000, "cost_usd": 5},
        ),
        "parse durations such as 2h30m, 1.5 d or PT15M into seconds",
        {
            "Planner": [
                _reply("Accept seconds, minutes, hours and days.", tokens=(300, 30)),
                _reply("Accept fractions and weeks; keep what passes.", tokens=(420, 32)),
            ],
            "Coder": [
                _reply(
                    f"{_DRAFTS[min(number % 4, 2)]}  # {notes[number]}",
                    slow if number > 6 else 0,
                    tokens=(1204, 188),
                )
                for number in range(10)
            ],
            "Tester": tester,
        },
        answers=("Accept fractions and weeks as well.",),
    )


_NOTES_GRAPH = {
    "id": "release_notes",
    "nodes": [
        _agent("Writer", "Write the release notes."),
        _agent("Reviewer", "Accept the notes, or say what is missing."),
        {"id": "Loop Guard", "type": "loop_counter", "config": {"max_iterations": 10}},
        {"id": "Final", "type": "passthrough"},
    ],
    "edges": [
        {"from": "Writer", "to": "Reviewer"},
        {"from": "Writer", "to": "Final", "trigger": False, "clear_context": True},
        {"from": "Reviewer", "to": "Final", "condition": {"type": "keyword", "config": {"any": ["ACCEPT"]}}},
        {
            "from": "Reviewer",
            "to": "Writer",
            "condition": {"type": "keyword", "config": {"none": ["ACCEPT"]}},
        },
        {
            "from": "Reviewer",
            "to": "Loop Guard",
            "condition": {"type": "keyword", "config": {"none": ["ACCEPT"]}},
        },
        {"from": "Loop Guard", "to": "Writer"},
        {"from": "Loop Guard", "to": "Final"},
    ],
    "start": "Writer",
    "end": "Final",
}
_CLAIM = (
    "Attempt {number} of the notes: version 2.4 makes search faster, results for 40,000 files come in under "
    "80 ms, because the index is kept between sessions. Old indexes are converted when they are opened."
)
_CIRCLES = Sample(
    _text(_NOTES_GRAPH),
    "release notes for 2.4",
    {
        "Writer": [
            _reply("Version 2.4 makes search faster and repairs the export of tables.", tokens=(180, 22)),
            _reply(
                "Version 2.4 makes search faster, because the index is kept between sessions.",
                tokens=(240, 28),
            ),
            _reply(_CLAIM.format(number=3), tokens=(300, 52)),
            _reply(_CLAIM.format(number=4), tokens=(380, 52)),
            _reply(_CLAIM.format(number=5), tokens=(460, 52)),
            _reply("Measured by bench/search on 14 November: 80 ms for 40,000 files.", tokens=(500, 40)),
        ],
        "Reviewer": [
            _reply("How much faster, and why?", tokens=(200, 12)),
            _reply("Give a figure.", tokens=(260, 9)),
            _reply("State the source of the 80 ms figure before this can go out.", tokens=(320, 18)),
            _reply("State the source of the 80 ms figure before this can go out.", tokens=(400, 18)),
            _reply("State the source of the 80 ms figure before this can go out.", tokens=(480, 18)),
            _reply("ACCEPT", tokens=(520, 3)),
        ],
    },
)

_LETTER_GRAPH = {
    "id": "human_review",
    "nodes": [
        _agent("Writer", "Write what is asked for. Change it as the editor says."),
        {
            "id": "Editor",
            "type": "human",
            "config": {"description": "Say what to change, or write OK.", "timeout": 7200, "default": "OK"},
        },
        {"id": "Patience", "type": "loop_counter", "config": {"max_iterations": 5}},
        {"id": "Final", "type": "passthrough"},
    ],
    "edges": [
        {"from": "Writer", "to": "Editor"},
        {"from": "Writer", "to": "Final", "trigger": False, "clear_context": True},
        {"from": "Editor", "to": "Writer", "condition": {"cel": 'text != "OK"'}},
        {"from": "Editor", "to": "Patience", "condition": {"cel": 'text != "OK"'}},
        {"from": "Editor", "to": "Final", "condition": {"cel": 'text == "OK"'}},
        {"from": "Patience", "to": "Writer"},
        {"from": "Patience", "to": "Final"},
    ],
    "start": "Writer",
    "end": "Final",
}
_LETTER = Sample(
    _text(_LETTER_GRAPH),
    "an invitation to tea",
    {
        "Writer": [
            _reply("Come to tea."),
            _reply("Please come to tea on Sunday at four."),
            _reply("Please come to tea on Sunday at four; there will be cake until six."),
        ],
    },
    answers=("Say when.",),
)

_ANALYST_GRAPH = {
    "id": "analyst",
    "nodes": [
        _agent(
            "Analyst",
            "Compare the offers. Ask suppliers for what is missing.",
            tools=["read_offer", "send_mail"],
            approval=["send_mail"],
            max_tool_calls=10,
        ),
        {"id": "Analyst Gate", "type": "loop", "config": {"max_rounds": 8, "exit_on_score": 90}},
        {"id": "Report", "type": "passthrough"},
    ],
    "edges": [
        {"from": "Analyst", "to": "Analyst Gate"},
        {"from": "Analyst Gate", "to": "Analyst", "port": "continue"},
        {"from": "Analyst Gate", "to": "Report", "port": "exit"},
    ],
    "start": "Analyst",
    "end": "Report",
}
_MAIL = {
    "name": "send_mail",
    "arguments": {
        "to": "sales@example.com",
        "subject": "Offer 1183",
        "body": "Your offer 1183 does not name the price of delivery. Could you add it today?",
        "attach": [],
    },
}
_ANALYST = Sample(
    _text(
        _ANALYST_GRAPH,
        tools={
            "read_offer": {"python": "tests.web.tools:read_offer"},
            "send_mail": {"python": "tests.web.tools:send_mail"},
        },
    ),
    "compare the offers of three suppliers",
    {
        "Analyst": [
            _reply({"score": 44, "note": "two offers read"}, tokens=(2000, 200)),
            {
                "tool_calls": [{"name": "read_offer", "arguments": {"id": 1183}}],
                "tokens": {"input": 2400, "output": 40},
            },
            {
                "text": "The offer of the third supplier lacks the price of delivery. I ask for it first.",
                "tool_calls": [_MAIL, {"name": "read_offer", "arguments": {"id": 1190}}],
                "tokens": {"input": 2600, "output": 120},
            },
            _reply({"score": 93, "note": "ranked"}, tokens=(3000, 90)),
        ],
    },
)

_FAILING = Sample(
    _text(_POLISH_GRAPH),
    "compare last quarter with the plan",
    {
        "Writer": [
            _reply("Our tea is very good.", tokens=(2870, 40)),
            {
                "error": "429 Too Many Requests: limit of 30,000 tokens a minute reached",
                "type": "RateLimited",
            },
        ],
        "Critic": [_reply({"score": 52, "note": "Weak."}, tokens=(400, 20))],
    },
)

_REVIEW_GRAPH = {
    "id": "patch_review",
    "nodes": [
        _agent("Author", "Write the patch."),
        _agent("Security", "Look for holes."),
        _agent("Style", "Look at the style."),
        {"id": "Gate", "type": "loop", "config": {"max_rounds": 6, "exit_on_score": 90}},
        {"id": "Final", "type": "passthrough"},
    ],
    "edges": [
        {"from": "Author", "to": "Security"},
        {"from": "Author", "to": "Style"},
        {"from": "Author", "to": "Final", "trigger": False, "clear_context": True},
        {"from": "Security", "to": "Gate"},
        {"from": "Style", "to": "Gate"},
        {"from": "Gate", "to": "Author", "port": "continue"},
        {"from": "Gate", "to": "Final", "port": "exit"},
    ],
    "start": "Author",
    "end": "Final",
}
_PATCHES = [
    "def load(path):\n    return yaml.load(open(path))",
    "def load(path):\n    path = Path(path).resolve()\n    return yaml.load(open(path))",
    "def load(path):\n    path = Path(path).resolve()\n    if not path.is_relative_to(ROOT):\n"
    "        raise ValueError(path)\n    return yaml.safe_load(path.read_text())",
    "def load(path):\n    path = Path(path).resolve()\n    if not path.is_relative_to(ROOT):\n"
    "        raise PermissionError(path)\n    return yaml.safe_load(path.read_text())",
]
_PATCH = Sample(
    _text(_REVIEW_GRAPH),
    "review the loader before the release",
    {
        "Author": [_reply(patch, tokens=(900, 120)) for patch in _PATCHES],
        "Security": [
            _reply({"score": score, "note": "a path may leave the folder; yaml.load runs code"})
            for score in (58, 71, 84, 95)
        ],
        "Style": [_reply({"score": score, "note": "fine"}) for score in (60, 72, 86, 95)],
    },
    {"breakpoints": ["Author[4]", {"cel": 'node == "Security" && round >= 3'}]},
)

_BATCH = Sample(
    _text(
        {
            "id": "batch_translate",
            "nodes": [
                {
                    "id": "Translator",
                    "type": "loop_agent",
                    "config": {
                        "strategy": {"mode": "array", "max_parallel": 4},
                        "body": {"id": "Translate", "type": "agent", "config": {"role": "Translate it."}},
                    },
                }
            ],
            "start": "Translator",
        }
    ),
    json.dumps(
        ["Teapot, 1.2 l", "Green tea, 250 g", "Matcha set, 6 parts", "Samovar, 3 l", "Filter papers", "Cup"]
    ),
    {"Translate": _reply("Teekanne", 0.4)},
)

_DEBATE = Sample(
    _text(
        {
            "id": "debate",
            "nodes": [
                {
                    "id": "Council",
                    "type": "debate",
                    "config": {
                        "participants": [
                            {"id": "Librarian", "type": "agent", "config": {"role": "You run the library."}},
                            {"id": "Neighbour", "type": "agent", "config": {"role": "You live next door."}},
                            {"id": "Treasurer", "type": "agent", "config": {"role": "You pay."}},
                        ],
                        "max_rounds": 6,
                        "exit_condition": "consensus",
                    },
                }
            ],
            "start": "Council",
        }
    ),
    "Should the library open on Sundays?",
    {
        "Librarian": [
            "Two Sundays a month, volunteers.",
            "Close at five; bikes in the yard.",
            "I agree: every 2nd Sunday.",
        ],
        "Neighbour": ["Noise until eight, and the bikes.", "Five is fine. Who locks the yard?", "I agree."],
        "Treasurer": [
            "The heating alone is 4,100 a year.",
            "4,100 only if both floors are open.",
            "I agree.",
        ],
    },
)


def held_nested(gate: str) -> Sample:
    """A run of "nested" that stays in `Planner[2].Coder[4]` until the test opens `GATE-4`, and then in
    `Planner[2].Coder[5]` until it opens `GATE-5`."""
    plain = SAMPLES["nested"]
    workflow = yaml.safe_load(plain.text)
    workflow["tools"] |= _HOLD
    tester = next(node for node in workflow["graph"]["nodes"] if node["id"] == "Tester")
    tester["config"]["tools"].append("hold")
    replies = list(plain.script["Tester"])
    # Each round has two replies, and four rounds come before those of Planner[2].
    for number in (5, 4):
        replies.insert(2 * (4 + number - 1), _hold(f"{gate}-{number}"))
    text = yaml.safe_dump(workflow, sort_keys=False, allow_unicode=True)
    return Sample(text, plain.input, {**plain.script, "Tester": replies}, answers=plain.answers)


def _long(rounds: int) -> Sample:
    """A loop with so many rounds: scores that rise and fall."""
    graph = {
        "id": "tuner",
        "nodes": [
            _agent("Tuner", "Try other settings."),
            {"id": "Gate", "type": "loop", "config": {"max_rounds": 1200, "exit_on_score": 1000}},
            {"id": "Final", "type": "passthrough"},
        ],
        "edges": [
            {"from": "Tuner", "to": "Gate"},
            {"from": "Gate", "to": "Tuner", "port": "continue"},
            {"from": "Gate", "to": "Final", "port": "exit"},
        ],
        "start": "Tuner",
        "end": "Final",
    }
    replies = [
        _reply({"score": round(40 + 50 * number / rounds + 7 * ((number * 37) % 11) / 11), "try": number})
        for number in range(rounds - 1)
    ]
    replies.append(_reply({"score": 1000, "try": rounds}))
    return Sample(_text(graph, breaker=False, limits={"rounds": 1200}), "tune it", {"Tuner": replies})


SAMPLES = {
    "polish": _POLISH,
    "stream": _STREAM,
    "nested": _nested(0),
    "nested-slow": _nested(3),
    "circles": _CIRCLES,
    "letter": _LETTER,
    "analyst": _ANALYST,
    "failing": _FAILING,
    "patch": _PATCH,
    "batch": _BATCH,
    "debate": _DEBATE,
    "long": _long(300),
}
