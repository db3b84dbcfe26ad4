"""When a model call that failed is made again."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from roundel.workflow.description import Description, Field
from roundel.workflow.diagnostics import Report
from roundel.workflow.document import Located

STATUS_CODES = (408, 409, 425, 429, 500, 502, 503, 504, 529)
SUBSTRINGS = (
    "rate limit",
    "temporarily unavailable",
    "timeout",
    "server disconnected",
    "connection reset",
    "overloaded",
)


class ModelRetry(Struct, frozen=True, omit_defaults=True):
    """Errors that may pass are tried again, after longer and longer waits or after the Retry-After."""

    enabled: bool = True
    max_attempts: Annotated[int, Meta(ge=1)] = 5
    min_wait_seconds: Annotated[float, Meta(ge=0)] = 1
    max_wait_seconds: Annotated[float, Meta(ge=0)] = 6
    retry_on_status_codes: tuple[int, ...] = STATUS_CODES
    retry_on_exception_types: tuple[str, ...] = ()
    non_retry_exception_types: tuple[str, ...] = ()
    retry_on_error_substrings: tuple[str, ...] = SUBSTRINGS

    @staticmethod
    def __describe__() -> Description:
        return Description(
            name="model_retry",
            en=("Retry of calls", "When a call of a model that failed is made again."),
            zh=("调用重试", "模型调用失败后何时重试。"),
            fields={
                "enabled": Field(
                    en=("Enabled", "Whether calls are made again at all."),
                    zh=("启用", "是否重试失败的调用。"),
                ),
                "max_attempts": Field(
                    en=("Attempts", "How often a model is called in all, the first time included."),
                    zh=("尝试次数", "总共调用模型的次数，包括第一次。"),
                    unit="attempts",
                ),
                "min_wait_seconds": Field(
                    en=(
                        "Shortest wait",
                        "The wait after the first failure. It grows with each further failure.",
                    ),
                    zh=("最短等待", "第一次失败后的等待时间，之后逐次增加。"),
                    widget="duration",
                    unit="seconds",
                ),
                "max_wait_seconds": Field(
                    en=(
                        "Longest wait",
                        "The wait never grows beyond this, unless the provider says how long to wait.",
                    ),
                    zh=("最长等待", "等待时间不会超过此值，除非提供商指定了等待时间。"),
                    widget="duration",
                    unit="seconds",
                ),
                "retry_on_status_codes": Field(
                    en=("Status codes", "The HTTP status codes after which a call is made again."),
                    zh=("状态码", "遇到这些 HTTP 状态码时重试。"),
                ),
                "retry_on_error_substrings": Field(
                    en=("Error texts", "A call is made again if the text of its error holds one of these."),
                    zh=("错误文本", "错误信息含有其中任何一个时重试。"),
                ),
                "retry_on_exception_types": Field(
                    en=("Exceptions", "Python exceptions, by name, after which a call is always made again."),
                    zh=("重试的异常", "遇到这些 Python 异常（按名称）时总是重试。"),
                ),
                "non_retry_exception_types": Field(
                    en=(
                        "Final exceptions",
                        "Python exceptions, by name, after which a call is never made again.",
                    ),
                    zh=("不重试的异常", "遇到这些 Python 异常（按名称）时从不重试。"),
                ),
            },
        )

    def __check__(self, at: Located, report: Report) -> bool:
        if self.max_wait_seconds < self.min_wait_seconds:
            report.error("bad-retry", "max_wait_seconds is less than min_wait_seconds", at)
            return False
        return True
