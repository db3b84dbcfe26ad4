"""What an agent sees of the loop around it: the setting `context` of graphs and agents.

    context: task                                              a policy
    context: {policy: history, max_tokens: 8000, strategy: summarize}    a policy, and how lists are compacted

The policies are implemented in kernel/context.py, compaction in nodes/compaction.py. A mapping turns
compaction on, also without `max_tokens`: then only a provider that refuses a request as too long causes it.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from msgspec import Meta, Struct
from msgspec.structs import replace

from roundel.workflow.description import Description, Field, Short
from roundel.workflow.diagnostics import Report
from roundel.workflow.document import Located
from roundel.workflow.fields import INVALID, Reader, child

ContextPolicy = Literal["message", "task", "history"]
CompactionStrategy = Literal["drop_oldest", "summarize"]


class Context(Struct, frozen=True, omit_defaults=True):
    """The policy of an agent, and how its messages are compacted if they become too many."""

    policy: ContextPolicy = "history"
    max_tokens: Annotated[int, Meta(ge=1)] | None = None
    strategy: CompactionStrategy | None = None
    """None if only a policy was given: nothing is compacted then."""
    keep_first: Annotated[int, Meta(ge=0)] = 1
    keep_last: Annotated[int, Meta(ge=1)] = 4
    profile_id: str = ""

    __strict__: ClassVar[bool] = True

    @staticmethod
    def __describe__() -> Description:
        choices = {
            "message": ("What has arrived", "收到的消息"),
            "task": ("The task, its last answer, what is new", "任务、自己上次的答案和新消息"),
            "history": ("The task and all earlier rounds", "任务和此前所有轮次"),
        }
        policy = Field(
            en=("Policy", "What the agent sees of earlier rounds; `history` if not set."),
            zh=("策略", "智能体能看到此前轮次的哪些内容；不填则为 `history`。"),
            choices=choices,
            see="agents.md#context",
        )
        return Description(
            name="context",
            en=("Context", "What an agent sees of earlier rounds, and how long that may become."),
            zh=("上下文", "智能体能看到此前轮次的哪些内容，以及其长度上限。"),
            short=(Short(kind=ContextPolicy, key="policy", en=policy.en, zh=policy.zh, choices=choices),),
            fields={
                "policy": policy,
                "max_tokens": Field(
                    en=("Most tokens", "A list of messages with more tokens than this is compacted."),
                    zh=("最多 token 数", "消息列表超过此 token 数时将被压缩。"),
                    unit="tokens",
                ),
                "strategy": Field(
                    en=(
                        "Strategy",
                        "How a list is compacted: the oldest messages are dropped, or replaced by a summary "
                        "that the model writes. `drop_oldest` if not set.",
                    ),
                    zh=(
                        "压缩方式",
                        "如何压缩消息列表：丢弃最早的消息，或用模型写的摘要代替。不填则为 `drop_oldest`。",
                    ),
                    choices={
                        "drop_oldest": ("Drop the oldest", "丢弃最早的"),
                        "summarize": ("Summarize the oldest", "摘要最早的"),
                    },
                ),
                "keep_first": Field(
                    en=("First messages", "How many messages at the beginning always stay. The task does."),
                    zh=("保留开头", "开头始终保留的消息数。任务总会保留。"),
                    unit="messages",
                ),
                "keep_last": Field(
                    en=("Last messages", "How many messages at the end always stay."),
                    zh=("保留结尾", "结尾始终保留的消息数。"),
                    unit="messages",
                ),
                "profile_id": Field(
                    en=("Model of summaries", "The profile of the model that writes summaries."),
                    zh=("摘要模型", "撰写摘要的模型配置。"),
                    widget="model",
                ),
            },
        )

    @classmethod
    def __read__(cls, at: Located, reader: Reader) -> Any:
        if isinstance(at.value, dict):
            made = reader.read_struct(at, cls, "'context'")
            return made if made is INVALID else replace(made, strategy=made.strategy or "drop_oldest")
        policy = reader.read(at, ContextPolicy, "'context'")
        return INVALID if policy is INVALID else cls(policy)

    def __check__(self, at: Located, report: Report) -> bool:
        if self.max_tokens is not None and self.policy == "message":
            message = "`max_tokens` needs the policy history or task"
            report.error("bad-context", message, child(at, "max_tokens"), "write `policy: history`")
            return False
        if self.profile_id and self.strategy != "summarize":
            message = "'profile_id' has no effect without 'strategy: summarize'"
            report.warning("without-effect", message, child(at, "profile_id"))
        return True

    @property
    def compacts(self) -> bool:
        """Whether lists are compacted: at `max_tokens`, and when a provider refuses one as too long."""
        return self.strategy is not None
