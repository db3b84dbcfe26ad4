"""Settings of the breaker, exact sums of money, the rule for calls whose price is not known, and the names
that people give to limits by mistake.

The breaker locks a run that makes no progress, costs far more than its forecast, or takes too long. This
module has its settings only; kernel/breaker.py and kernel/budget.py apply them.

Money is counted in whole picodollars (10⁻¹² dollars). Binary fractions do not add up: three calls of
0.10 dollars are more than 0.30. Whole numbers do, so a limit of 0.30 pays for three such calls. A token
of the cheapest models costs some ten thousand picodollars, so rounding does not matter.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal, TypeVar

from msgspec import Meta, Struct

from roundel.workflow.description import Description, Field, Short
from roundel.workflow.diagnostics import did_you_mean
from roundel.workflow.document import Located
from roundel.workflow.fields import INVALID, Reader

PICO = 10**12


def picodollars(dollars: float) -> int:
    return round(dollars * PICO)


def dollars(picodollars: int) -> float:
    return picodollars / PICO


def sum_dollars(amounts: list[float]) -> float:
    """Adds amounts in dollars without the errors of binary fractions."""
    return dollars(sum(map(picodollars, amounts)))


T = TypeVar("T")


def refuses_unpriced(levels: Iterable[tuple[T, bool, str | None]]) -> T | None:
    """The innermost level around a call that limits the cost and does not allow calls without a known
    price; None if there is none.

    `levels` come from the inside out: the level, whether it limits the cost, and its `unpriced`. A level
    without that setting takes the one of the next level around it that has one. So what is inside a limit
    cannot allow itself what the limit does not count.
    """
    undecided: T | None = None
    for level, limits_cost, unpriced in levels:
        if undecided is None and limits_cost:
            undecided = level
        if unpriced == "lock" and undecided is not None:
            return undecided
        if unpriced == "allow":
            undecided = None
    return undecided


def _hints(meant: Mapping[str, str]) -> dict[str, str]:
    """A hint for each wrong name; `meant` has the wrong names for each right one, as words."""
    return {wrong: f"did you mean '{name}'?" for name, words in meant.items() for wrong in words.split()}


# Names that other programs have for the same, or that people guess. `did_you_mean` would not find them, or
# find another one: `calls` is more like `tool_calls`.
_ROUNDS = "iterations max_iterations max_iter loops max_loops"
LIMIT_HINTS = _hints(
    {
        "tokens": "max_tokens total_tokens token_limit token_budget",
        "input_tokens": "max_input_tokens prompt_tokens max_prompt_tokens",
        "output_tokens": "max_output_tokens completion_tokens max_completion_tokens",
        "cost_usd": "cost max_cost max_cost_usd budget max_budget budget_usd usd dollars",
        "model_calls": "calls max_calls max_model_calls llm_calls requests max_requests",
        "tool_calls": "max_tool_calls tools",
        "seconds": "timeout time time_limit max_time max_seconds timeout_seconds duration",
        "rounds": f"max_rounds {_ROUNDS}",
        "steps": "max_steps recursion_limit",
    }
)
LOOP_HINTS = _hints({"max_rounds": f"rounds {_ROUNDS}"})
RETRY_HINTS = _hints(
    {
        "max_attempts": "attempts retries max_retries tries max_tries times count",
        "min_wait_seconds": "wait wait_seconds min_wait delay backoff initial_delay",
        "max_wait_seconds": "max_wait max_delay max_backoff",
    }
)


def suggest_limit(name: str, known: Sequence[str]) -> str:
    """What a person who named a limit that does not exist may have meant; else the limits that there are."""
    return LIMIT_HINTS.get(name) or did_you_mean(name, known) or f"known limits: {', '.join(known)}"


DEFAULT_TIME_LIMIT = 600.0
NO_TIME_LIMIT = 1e18
"""Seconds that no run reaches."""


Rounds = Annotated[int, Meta(ge=1)]


class Patience(Struct, frozen=True, omit_defaults=True):
    """After how many stale rounds in a row a loop is dead, by the certainty that they repeat earlier ones."""

    exact: Rounds = 2
    """Every message repeats an earlier one word by word."""
    reordered: Rounds = 6
    """Some messages have only words and numbers that their speaker has used before."""
    one_place: Rounds | Literal["never"] = 12
    """Some messages put another word or number in the place of one. Where a bound is proved, this is a
    warning and no lock."""

    __strict__: ClassVar[bool] = True

    @staticmethod
    def __describe__() -> Description:
        return Description(
            name="patience",
            en=("Patience", "How many stale rounds in a row make a loop dead, by the kind of repetition."),
            zh=("耐心", "按重复的类型，连续多少轮没有新内容才算死循环。"),
            fields={
                "exact": Field(
                    en=("Exact repetition", "Rounds in which every message repeats an earlier one exactly."),
                    zh=("完全重复", "每条消息都与之前的某条完全相同的轮次。"),
                    unit="rounds",
                    see="breaker.md#patience",
                ),
                "reordered": Field(
                    en=(
                        "Known words",
                        "Rounds in which some messages only use known words in another order.",
                    ),
                    zh=("词语重组", "有消息只是把已有词语换了顺序的轮次。"),
                    unit="rounds",
                    see="breaker.md#patience",
                ),
                "one_place": Field(
                    en=(
                        "One place",
                        "Rounds in which some messages only put another word or number in the place of "
                        "one, or `never`. A loop whose bound is proved gets a warning instead of a lock.",
                    ),
                    zh=(
                        "单处替换",
                        "有消息只在某处换了词或数字的轮次；写 `never` 则从不锁定。"
                        "已证明有上限的循环只会警告，不会锁定。",
                    ),
                    unit="rounds",
                    kind=int,
                    see="breaker.md#patience",
                ),
            },
        )

    def rounds(self, certainty: str) -> int | None:
        """The rounds for one kind of repetition; None if it never makes a loop dead."""
        rounds: int | Literal["never"] = getattr(self, certainty)
        return None if rounds == "never" else rounds


class Breaker(Struct, frozen=True, omit_defaults=True):
    """The settings of the breaker. All detectors are on unless turned off, together (`breaker: false`)
    or one by one."""

    enabled: bool = True
    dead_loop: bool = True
    """Whether to trip when every speaker of a loop repeats itself, and nothing else in the loop makes
    progress."""
    window: Annotated[int, Meta(ge=2)] = 3
    """The minimum number of messages in the stale rounds that make a loop dead."""
    threshold: Annotated[float, Meta(ge=0, le=1)] = 0.1
    """A message whose novelty is below this is a repetition; 1 is all new, 0 a repetition."""
    patience: Patience = Patience()
    """After how many stale rounds a loop is dead."""
    token_surge: bool = True
    """Whether to trip when the run uses far more tokens than its forecast."""
    factor: Annotated[float, Meta(ge=1)] = 3
    """How many times the usual tokens may be used before that."""
    timeout: bool = True
    """Whether to trip when the run has worked for too long. Waiting for people does not count."""
    seconds: Annotated[float, Meta(gt=0)] | None = None
    """The time that is allowed; None is ten minutes, plus what the timers of the workflow take."""

    __strict__: ClassVar[bool] = True
    __hints__: ClassVar[dict[str, str]] = {
        **_hints({"seconds": "timeout_seconds time time_limit max_time max_seconds duration"}),
        **_hints({"enabled": "on off disabled active"}),
        **dict.fromkeys(
            ("tokens", "max_tokens", "cost", "cost_usd", "budget", "rounds", "max_rounds", "calls"),
            "the breaker has no such setting; write it under `limits`",
        ),
    }

    @staticmethod
    def __describe__() -> Description:
        return Description(
            name="breaker",
            en=(
                "Breaker",
                "Locks a run that repeats itself, costs far more than expected, or takes too long.",
            ),
            zh=("熔断器", "当运行原地打转、开销远超预期或耗时过长时将其锁定。"),
            short=(
                Short(
                    kind=bool,
                    key="enabled",
                    en=("On or off", "The whole breaker, with its default settings."),
                    zh=("开关", "整个熔断器的开关，其余设置取默认值。"),
                ),
            ),
            fields={
                "enabled": Field(
                    en=("Enabled", "Whether the breaker is on."),
                    zh=("启用", "熔断器是否监视运行。"),
                ),
                "dead_loop": Field(
                    en=(
                        "Dead loops",
                        "Whether a loop in which every speaker repeats itself locks the run. Roundel "
                        "also does not make the same tool call a third time.",
                    ),
                    zh=(
                        "死循环检测",
                        "循环中每个发言者都在重复自己时是否锁定运行；同一工具调用也不再进行第三次。",
                    ),
                    see="breaker.md",
                ),
                "window": Field(
                    en=(
                        "Window",
                        "The minimum number of messages in the stale rounds that make a loop dead.",
                    ),
                    zh=("窗口", "连续几轮没有新内容，其中至少要有多少条消息才会触发。"),
                    unit="messages",
                ),
                "threshold": Field(
                    en=(
                        "Novelty threshold",
                        "A message with a novelty below this value is a repetition: 1 means entirely "
                        "new, 0 means nothing new.",
                    ),
                    zh=("新颖度阈值", "新颖度低于此值的消息视为重复：1 表示全新，0 表示毫无新意。"),
                    see="breaker.md#repetitions",
                ),
                "patience": Field(
                    en=("Patience", "How many stale rounds in a row make a loop dead."),
                    zh=("耐心", "连续多少轮没有新内容才算死循环。"),
                    see="breaker.md#patience",
                ),
                "token_surge": Field(
                    en=("Token surge", "Whether using far more tokens than usual locks the run."),
                    zh=("Token 激增检测", "消耗的 token 远超平常用量时是否锁定运行。"),
                ),
                "factor": Field(
                    en=(
                        "Surge factor",
                        "The run is locked when it has used this many times the usual tokens.",
                    ),
                    zh=("激增倍数", "消耗达到平常用量的多少倍时锁定运行。"),
                ),
                "timeout": Field(
                    en=(
                        "Time",
                        "Whether a run that takes too long is locked. Waiting for people does not count.",
                    ),
                    zh=("超时检测", "运行工作过久时是否锁定，等待人工答复的时间不计入。"),
                ),
                "seconds": Field(
                    en=(
                        "Longest time",
                        "The maximum working time. If not set: 600, plus the durations of the timers of "
                        "the workflow.",
                    ),
                    zh=("最长时间", "运行最多可工作的时间。不填则为 600 秒，外加工作流中计时器所需的时间。"),
                    widget="duration",
                    unit="seconds",
                ),
            },
        )

    @classmethod
    def __read__(cls, at: Located, reader: Reader) -> Any:
        # Text too: the value of an environment variable is text, and `breaker: ${BREAKER}` is a switch.
        if isinstance(at.value, (bool, str)):
            enabled = reader.read(at, bool, "'breaker'")
            return INVALID if enabled is INVALID else cls(enabled=enabled)
        return reader.read_struct(at, cls, "'breaker'")

    @property
    def detects_dead_loops(self) -> bool:
        return self.enabled and self.dead_loop

    @property
    def detects_token_surges(self) -> bool:
        return self.enabled and self.token_surge

    def time_limit(self, timers: float) -> float:
        """The seconds of work that are allowed. `timers` is the time that the timers of the workflow
        take on purpose."""
        if not (self.enabled and self.timeout):
            return NO_TIME_LIMIT
        return self.seconds or DEFAULT_TIME_LIMIT + timers
