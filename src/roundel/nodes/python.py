"""`python`: runs a function of the user, or the code in the last message.

A function gets the arguments that it names (`message`, `text`, `data`, …). A plain function runs in a
thread, a coroutine on the event loop, and `on_executor` moves a function to a pool of the user. Code in
a message, which a model wrote, runs as a program of its own in the workspace of the run, with a time
limit; the processor `code_save_and_run` does the same for several files.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
import signal
import sys
import textwrap
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextvars import ContextVar, copy_context
from functools import lru_cache
from pathlib import Path
from types import UnionType
from typing import TYPE_CHECKING, Annotated, Any, Union, get_args, get_origin

from msgspec import Meta, Struct

from roundel.kernel.commands import Call
from roundel.kernel.facts import Outcome
from roundel.nodes.services import Behaviour, NodeError, Services, outcome_of
from roundel.workflow.description import Description, Field
from roundel.workflow.functions import CODE_FAILURE_MARKER, processor
from roundel.workflow.graph import Node
from roundel.workflow.message import Message
from roundel.workflow.node_type import EXIT_PORT, NodeType

if TYPE_CHECKING:
    import asyncio
    from concurrent.futures import Executor
    from inspect import Parameter, Signature


def on_executor(function: Callable[..., Any], executor: Executor) -> Callable[..., Awaitable[Any]]:
    """The function as a coroutine function that runs each call on an executor of the user, such as a
    pool of processes, and not in a thread of the host. It has the signature of the original, by which
    arguments are chosen."""

    async def call_on_executor(*arguments: Any, **named: Any) -> Any:
        import asyncio  # slow to import, and a workflow can be built without it
        from concurrent.futures import ThreadPoolExecutor

        work = functools.partial(_call_in_worker, function, arguments, named)
        if isinstance(executor, ThreadPoolExecutor):  # so that `roundel.progress` finds its run
            work = functools.partial(copy_context().run, work)
        return await asyncio.get_running_loop().run_in_executor(executor, work)

    functools.update_wrapper(call_on_executor, function)
    return call_on_executor


def _call_in_worker(function: Callable[..., Any], arguments: tuple[Any, ...], named: dict[str, Any]) -> Any:
    """Runs in the worker. It is defined at the top of the module, so that a pool of processes can pickle
    it."""
    try:
        return function(*arguments, **named)
    except StopIteration as error:  # a future cannot hold it, so awaiting the call would never end
        raise NodeError(f"StopIteration: {error}" if str(error) else "StopIteration") from error
    except Exception:
        raise
    except BaseException as error:  # SystemExit and the like must not end the process of the run
        raise NodeError(repr(error)) from error


program_environment: ContextVar[Mapping[str, str] | None] = ContextVar("roundel_environment", default=None)
"""The environment of the programs that a run starts here; None is that of this process. A run under a policy
sets it (hosts/local_run.py). A context variable, since a processor on an edge gets nothing of the run but its
folder."""
FENCE = re.compile(r"```[^\n`]*\n(.*?)```", re.DOTALL)
_FILE_BLOCK = re.compile(r"^[`*# ]*([\w./-]+\.\w+)[`*: ]*\n+```[^\n`]*\n(.*?)```", re.DOTALL | re.MULTILINE)
SAVED_CODE_TIMEOUT = 3
"""Seconds that `code_save_and_run` gives to main.py."""


class ProgramResult(Struct, frozen=True):
    """What a program wrote, and how it ended. `run_program` creates it."""

    exit_code: int | None
    """None if the program was killed at its time limit."""
    out: str
    err: str

    def format_output(self) -> str:
        """The output for a message. A failure begins with a marker, by which conditions on edges
        recognise it."""
        if self.exit_code == 0:
            return self.out
        return f"{CODE_FAILURE_MARKER}\n{self.err}" + (f"\n{self.out}" if self.out else "")


async def run_program(
    command: Sequence[str], folder: Path, seconds: float, encoding: str = "utf-8", env: Mapping[str, str] = {}
) -> ProgramResult:
    """Runs a program with a time limit; NodeError if it cannot be started.

    The program gets a session of its own, so that it can be killed with everything that it started. It
    runs with the rights of the user: this is no sandbox (decision 12)."""
    import asyncio

    given = program_environment.get()
    try:
        process = await asyncio.create_subprocess_exec(
            *command,
            cwd=folder,
            env={**(os.environ if given is None else given), "PYTHONIOENCODING": encoding, **env},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
    except OSError as error:
        raise NodeError(f"cannot start '{command[0]}': {error}") from None
    try:
        out, err = await asyncio.wait_for(process.communicate(), seconds)
        return ProgramResult(
            process.returncode, out.decode(encoding, "replace"), err.decode(encoding, "replace")
        )
    except TimeoutError:
        return ProgramResult(None, "", f"no end after {seconds:g} seconds")
    finally:  # also if the call is cancelled
        await _kill_process(process)


async def _kill_process(process: asyncio.subprocess.Process) -> None:
    """Kills the program and the processes that it started, if it is still running."""
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()


@processor("code_save_and_run")
async def save_and_run(message: Message, workspace: Path) -> str:
    """Saves the files in a message to the workspace, runs main.py, and adds its output to the
    message."""
    if not _save_files(message.text, workspace):
        return f"{message.text}\n\n{CODE_FAILURE_MARKER}\nthe message contains no main.py"
    result = await run_program((sys.executable, "main.py"), workspace, SAVED_CODE_TIMEOUT)
    return f"{message.text}\n\n{result.format_output()}"


def _save_files(text: str, workspace: Path) -> bool:
    _clear_workspace(workspace)
    for name, code in _FILE_BLOCK.findall(text):
        path = (workspace / name).resolve()
        if not path.is_relative_to(workspace.resolve()):
            # The name was written by a model. It is resolved first, so that neither .. nor a link
            # escapes.
            raise NodeError(f"the file name '{name}' leads out of the run's folder")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(code, encoding="utf-8")
    return (workspace / "main.py").is_file()


def _clear_workspace(workspace: Path) -> None:
    """Deletes the files of earlier messages, so that main.py runs with those of this message alone.
    The attachments of the run stay."""
    import shutil

    for path in workspace.iterdir():
        if path.name == "attachments":
            continue
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()


class Config(Struct, frozen=True, omit_defaults=True):
    function: str = ""
    """The function to call: a registered name, or module:function. Without it the last message is code
    to run."""
    ports: tuple[str, ...] = ()
    """The ports that the function chooses from, by returning `roundel.to(port, value)`."""
    interpreter: str = ""
    args: tuple[str, ...] = ()
    env: dict[str, str] = {}
    timeout_seconds: Annotated[float, Meta(gt=0)] = 60
    encoding: str = "utf-8"

    @staticmethod
    def __describe__() -> Description:
        return Description(
            fields={
                "function": Field(
                    en=(
                        "Function",
                        "`module:function`: the file `module.py` beside the workflow file, otherwise a "
                        "module on the import path. If not set, the last message contains the code to "
                        "run.",
                    ),
                    zh=(
                        "函数",
                        "写作 `module:function`：先找工作流文件旁的 `module.py`，再找导入路径中的模块。"
                        "不填则运行最后一条消息中的代码。",
                    ),
                    widget="function",
                ),
                "ports": Field(
                    en=(
                        "Ports",
                        "The ports that the function can select with `roundel.to(port, value)`.",
                    ),
                    zh=("端口", "函数可选的出口，由函数通过 `roundel.to(port, value)` 选择。"),
                ),
                "interpreter": Field(
                    en=(
                        "Interpreter",
                        "For code: the program that runs it; the Python that runs Roundel if not set.",
                    ),
                    zh=("解释器", "用于代码：运行代码的程序；不填则为运行 Roundel 的 Python。"),
                    widget="file",
                ),
                "args": Field(
                    en=("Arguments", "For code: arguments after the file name."),
                    zh=("命令参数", "用于代码：文件名之后的参数。"),
                ),
                "env": Field(
                    en=("Environment", "For code: environment variables, in addition to those of Roundel."),
                    zh=("环境变量", "用于代码：在 Roundel 的环境变量之外附加的变量。"),
                    widget="secret",
                ),
                "timeout_seconds": Field(
                    en=("Time limit", "For code: how long it may run."),
                    zh=("时间限制", "用于代码：最长运行时间。"),
                    widget="duration",
                    unit="seconds",
                ),
                "encoding": Field(
                    en=("Encoding", "For code: the encoding of the file and of its output."),
                    zh=("编码", "用于代码：文件及其输出的编码。"),
                ),
            },
        )


def prepare(node: Node, services: Services) -> Behaviour:
    config: Config = node.config
    if not config.function:
        return lambda call: _run_code(node, call, services)
    return _function_behaviour(services.function(config.function), services)


def _function_behaviour(function: Callable[..., Any], services: Services) -> Behaviour:
    # The cache needs a hash. An object with __call__ may have none, and is then inspected each time.
    read_signature = _signature if type(function).__hash__ is not None else _signature.__wrapped__
    names, is_coroutine = read_signature(function)
    values: dict[str, Callable[[Call], Any]] = {**_ARGUMENTS, WORKSPACE: lambda _call: services.workspace()}
    arguments = [values[name] for name in names]
    if not is_coroutine:
        return lambda call: services.call(function, *(argument(call) for argument in arguments))
    if arguments == [_last_message]:  # the usual case, without building a list of arguments for each call
        return lambda call: function(call.inputs[-1] if call.inputs else Message())
    return lambda call: function(*(argument(call) for argument in arguments))


@lru_cache(maxsize=256)
def _signature(function: Callable[..., Any]) -> tuple[tuple[str, ...], bool]:
    """The names of a function's arguments, and whether it is a coroutine. Cached, because inspecting a
    signature would cost a noticeable part of a short run."""
    import inspect

    try:
        try:
            signature = inspect.signature(function, eval_str=True)
        except Exception:  # an annotation that cannot be evaluated, as of a name under TYPE_CHECKING
            signature = inspect.signature(function)
    except (TypeError, ValueError):
        raise LookupError(f"'{function!r}' has no signature; wrap it in a function that has one") from None
    return tuple(_argument_names(signature, function)), inspect.iscoroutinefunction(function)


def _last_message(call: Call) -> Message:
    return call.inputs[-1] if call.inputs else Message()


_ARGUMENTS: dict[str, Callable[[Call], Any]] = {
    "message": _last_message,
    "messages": lambda call: call.inputs,
    "text": lambda call: call.inputs[-1].text if call.inputs else "",
    "data": lambda call: (call.inputs[-1].data if call.inputs else None) or {},
    "round": lambda call: call.round,
    "address": lambda call: call.address,
}
WORKSPACE = "workspace"
"""The parameter that gets the working folder of the run, as it does in tools and processors."""
_PARAMETERS = (*_ARGUMENTS, WORKSPACE)


def _argument_names(signature: Signature, function: Callable[..., Any]) -> list[str]:
    """What the parameters get that have a known name or no default. A single parameter may have any name: it
    gets the text or the last message by its annotation, and the message without one, so that
    `def shorten(draft: str)` and `def shorten(draft)` work."""
    names = [
        parameter.name
        for parameter in signature.parameters.values()
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
        and (parameter.default is parameter.empty or parameter.name in _PARAMETERS)
    ]
    unknown = [name for name in names if name not in _PARAMETERS]
    if unknown and len(names) > 1:
        raise LookupError(
            f"function '{getattr(function, '__name__', function)}' asks for {', '.join(unknown)}; "
            f"a node's function may ask for {', '.join(_PARAMETERS)}"
        )
    return [_argument_by_annotation(signature.parameters[name], function) for name in unknown] or names


def _argument_by_annotation(parameter: Parameter, function: Callable[..., Any]) -> str:
    """`text` or `message`, for a parameter whose name says nothing."""
    annotation = parameter.annotation
    if isinstance(annotation, str):  # a name that only type checkers know, as under TYPE_CHECKING
        annotation = {"str": str, "Message": Message}.get(annotation.rpartition(".")[2], annotation)
    is_union = get_origin(annotation) in (Union, UnionType)
    wanted = get_args(annotation) if is_union else (annotation,)
    if any(kind in wanted for kind in (parameter.empty, Any, object, Message)):
        return "message"
    if str in wanted:
        return "text"
    shown = annotation.__name__ if isinstance(annotation, type) else annotation
    raise LookupError(
        f"function '{getattr(function, '__name__', function)}' wants '{parameter.name}' to be {shown}; "
        "annotate it with str to get the text or with roundel.Message to get the message, "
        f"or give it one of the names {', '.join(_PARAMETERS)}"
    )


def to(port: str, value: object = "") -> Outcome:
    """For the function of a node: sends `value` out by `port`. Exported as `roundel.to`."""
    outcome = outcome_of(value)
    return Outcome(outcome.messages, port)


def _run_code(node: Node, call: Call, services: Services) -> Awaitable[Outcome]:
    text = call.inputs[-1].text if call.inputs else ""
    found = FENCE.search(text)
    code = textwrap.dedent(found[1] if found else text)
    script = _script(call.address, services.workspace())
    script.write_text(code, encoding=node.config.encoding)
    return _run(node.config, script)


def _script(address: str, folder: Path) -> Path:
    """A file for each address, so that nodes that run at the same time do not overwrite each other's
    code."""
    name = re.sub(r"\W+", "_", address).strip("_") or "code"
    return folder / f"{name}.py"


async def _run(config: Config, script: Path) -> Outcome:
    command = (config.interpreter or sys.executable, script.name, *config.args)
    result = await run_program(command, script.parent, config.timeout_seconds, config.encoding, config.env)
    return Outcome((Message(result.format_output(), "assistant", {"exit_code": result.exit_code}),))


def _exit_port(config: Config) -> tuple[str, ...]:
    """The port of `roundel.break_loop`, unless the function uses the name for a port of its own."""
    return (EXIT_PORT,) if config.function and EXIT_PORT not in config.ports else ()


EXAMPLE = """
- id: Count
  type: python
  config: {function: "counting:count", ports: [short, long]}
"""

NODE = NodeType(
    "python",
    Config,
    "Runs a Python function, or the code in the last message.",
    prepare,
    title="Python",
    zh=("Python 代码", "运行一个 Python 函数，或最后一条消息中的代码。"),
    example=EXAMPLE,
    ports=lambda config: config.ports,
    explicit_ports=_exit_port,
    function=lambda config: config.function,
    runs_code=lambda config: not config.function,
    silent=True,
)
