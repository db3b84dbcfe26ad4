"""`loop_timer`: gives no output until enough time has passed since its first trigger, then emits a
message.

It measures the working time of the run, as the limit `seconds` does: the time in which the run waits for
people, is paused, or is executed by no process does not count (docs/decisions/0052). Whether the timer
emitted is a fact in the journal, so a replay does not depend on a clock.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

from roundel.kernel.commands import Call
from roundel.kernel.facts import Outcome
from roundel.nodes.services import Behaviour, Services
from roundel.workflow.description import Description, Field
from roundel.workflow.graph import Node
from roundel.workflow.message import NOTICE, Message
from roundel.workflow.node_type import Bound, NodeType

_SECONDS = {"seconds": 1, "minutes": 60, "hours": 3600}


class Config(Struct, frozen=True, omit_defaults=True):
    max_duration: Annotated[float, Meta(gt=0)] = 60
    duration_unit: Literal["seconds", "minutes", "hours"] = "seconds"
    reset_on_emit: bool = True
    message: str = ""
    passthrough: bool = False
    """Whether the input goes to the targets inside the loop while the limit is not reached."""

    @staticmethod
    def __describe__() -> Description:
        return Description(
            fields={
                "max_duration": Field(
                    en=(
                        "Duration",
                        "The time after the first trigger until it emits its message.",
                    ),
                    zh=("时长", "自首次触发起经过多长时间后才输出消息。"),
                    widget="duration",
                ),
                "duration_unit": Field(
                    en=("Unit", "The unit of the duration."),
                    zh=("单位", "时长的单位。"),
                    choices={
                        "seconds": ("Seconds", "秒"),
                        "minutes": ("Minutes", "分钟"),
                        "hours": ("Hours", "小时"),
                    },
                ),
                "reset_on_emit": Field(
                    en=(
                        "Start again",
                        "Whether the next trigger after the message restarts the clock. If not, every "
                        "later trigger emits the message again.",
                    ),
                    zh=("重新计时", "输出消息之后，下一次触发时重新计时；否则之后每次触发都会输出。"),
                ),
                "message": Field(
                    en=("Message", "The text of its message; `Time limit reached (N unit)` if not set."),
                    zh=("消息", "输出消息的文本；不填则为 `Time limit reached (N unit)`。"),
                ),
                "passthrough": Field(
                    en=(
                        "Pass through",
                        "Whether it forwards its input to its targets inside the loop until the time is up.",
                    ),
                    zh=("直通", "时间未到时，把输入传给循环内的目标节点。"),
                ),
            },
        )


class TimerState(Struct, frozen=True, omit_defaults=True):
    """The state of the node between two triggers."""

    since: float | None = None
    """The reading of `Services.worked` at the first trigger; None before it, and after an emission with
    `reset_on_emit`."""


def prepare(node: Node, services: Services) -> Behaviour:
    config: Config = node.config
    limit = config.max_duration * _SECONDS[config.duration_unit]
    text = config.message or f"Time limit reached ({config.max_duration:g} {config.duration_unit})"
    metadata = None if config.message else {NOTICE: True}

    def behave(call: Call) -> Outcome:
        now = services.worked()
        timer: TimerState = call.state or TimerState()
        since = now if timer.since is None else timer.since
        elapsed = max(0.0, now - since)
        report = {"elapsed": round(elapsed, 3), "limit": limit}
        # The first trigger only starts the clock, however short the limit is.
        if elapsed < limit or timer.since is None:
            messages = call.inputs if config.passthrough else ()
            return Outcome(messages, state=TimerState(since), report=report, stay=True)
        after = None if config.reset_on_emit else since
        return Outcome(
            (Message(text, "assistant", report, metadata),),
            state=TimerState(after),
            report=report,
            reason="max_duration_reached",
        )

    return behave


EXAMPLE = """
- id: Clock
  type: loop_timer
  config: {max_duration: 2, duration_unit: minutes}
"""

NODE = NodeType(
    "loop_timer",
    Config,
    "Ends a loop after some time.",
    prepare,
    title="Loop timer",
    zh=("循环计时器", "在一段时间之后结束循环。"),
    example=EXAMPLE,
    pure=True,
    guard=True,
    bound=lambda config: Bound(seconds=config.max_duration * _SECONDS[config.duration_unit]),
    silent=True,
    state=TimerState,
)
