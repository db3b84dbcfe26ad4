"""What the nodes of a run can use (`Services`, nodes/services.py): time, a folder, models, tools, memory,
functions. Clients and sessions behind them belong to the pool of the process (llm/resource_pool.py)."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from roundel.journal.store import Store
from roundel.kernel.facts import secrets_of
from roundel.llm.script import RecordedModel, RecordedTools, Script, ScriptedModel, ScriptRecorder
from roundel.nodes.services import MemoryReader, Model, NodeError, StreamCallback, Toolbox
from roundel.nodes.user_code import await_user_code, run_in_thread
from roundel.plan.graph import Plan
from roundel.workflow.functions import FunctionError, FunctionFinder, format_exception
from roundel.workflow.graph import Node
from roundel.workflow.secrets import SecretMasker, StreamMasker

if TYPE_CHECKING:
    from roundel.llm.resource_pool import ResourceLease
    from roundel.memory.run_memory import RunMemory

MAX_THREADS = 64
"""Calls of functions that one run makes in threads at the same time."""


class NodeServices:
    """The services of one run. Created by its host."""

    def __init__(
        self,
        plan: Plan,
        run_id: str,
        clock: Callable[[], float],
        *,
        script: Script | None,
        folder: Path,
        record: ScriptRecorder | None,
        say: Callable[[str, str, int, int], None],
    ) -> None:
        self.now = clock
        self.run_id = run_id
        self.script = script
        self.secrets = secrets_of(plan)
        workflow = plan.workflow
        workflow_folder = Path(workflow.file).resolve().parent if workflow.file else None
        self._plan, self._workflow, self._workflow_folder = plan, workflow, workflow_folder
        self.finder = FunctionFinder(workflow.functions, workflow_folder)
        self.folder = folder
        self._recorder = record
        self._say = say
        self._threads = asyncio.Semaphore(MAX_THREADS)
        self._lease: ResourceLease | None = None
        self._models: Any = None
        self._tools: Any = None
        self._memory: RunMemory | None = None

    @property
    def lease(self) -> ResourceLease:
        """On the resources that the run shares with others."""
        if self._lease is None:
            from roundel.llm.resource_pool import current_pool

            self._lease = current_pool().lease()
        return self._lease

    def workspace(self) -> Path:
        folder = self.folder / self.run_id
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def model(self, node: Node) -> Model:
        if self.script is not None:
            return ScriptedModel(self.script)
        if self._models is None:
            from roundel.llm.models import Models

            self._models = Models(self._workflow.models, self.secrets, self.lease)
        model: Model = self._models.for_node(node)
        return model if self._recorder is None else RecordedModel(model, self._recorder, self.secrets)

    def tools(self, node: Node) -> Toolbox:
        if self._tools is None:
            from roundel.llm.toolbox import Tools

            self._tools = Tools(
                self._workflow.tools,
                self.finder,
                self,
                self.secrets,
                self._workflow_folder,
                lease=self.lease if self.script is None else None,
            )
        tools: Toolbox = self._tools.for_node(node)
        return tools if self._recorder is None else RecordedTools(tools, self._recorder, node.id)

    @property
    def run_memory(self) -> RunMemory:
        if self._memory is None:
            from roundel.memory.run_memory import RunMemory

            lease = self.lease if self.script is None else None
            self._memory = RunMemory(self._plan, self.secrets, self._current_time, lease=lease)
        return self._memory

    def _current_time(self) -> float:
        """The clock is replaced when the run starts, after this was passed on."""
        return self.now()

    def memory(self, node: Node) -> MemoryReader:
        return self.run_memory.recall(node)

    def speaker(self, address: str) -> StreamCallback | None:
        if not self.secrets:
            return lambda text, attempt, offset: self._say(address, text, attempt, offset)
        return _MaskedTokenStream(self.secrets, lambda *said: self._say(address, *said))

    def key(self, address: str) -> str:
        return f"{self.run_id}:{address}"

    def function(self, reference: str) -> Callable[..., Any]:
        return self.finder.find("function", reference).call

    async def call(self, function: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        if inspect.iscoroutinefunction(function):
            return await await_user_code(function(*arguments, **named))
        async with self._threads:
            answer = await run_in_thread(function, *arguments, **named)
        return await await_user_code(answer) if inspect.isawaitable(answer) else answer

    def use_memory_of(self, store: Store) -> None:
        """Stores what the run remembers where the run is stored."""
        if uses_memory(self._plan):
            self.run_memory.memories = store.memory()

    async def close(self) -> None:
        """Releases what the run has used, and writes its recording."""
        if self._memory is not None:
            await self._memory.close()
        if self._lease is not None:
            await self._lease.release()
        if self._recorder is not None:
            self._recorder.write()


class Clock:
    """What a pure node gets in place of services: the time, and nothing else."""

    __slots__ = ("_services",)

    def __init__(self, services: NodeServices) -> None:
        self._services = services

    def now(self) -> float:
        return self._services.now()


def monotonic(clock: Callable[[], float], last: float = 0.0) -> Callable[[], float]:
    """A clock that stands still where the given one goes back: the time of a run never does."""

    def now() -> float:
        nonlocal last
        time = clock()
        if time > last:  # noqa: PLR1730 (called with each fact; `max` takes longer)
            last = time
        return last

    return now


class _MaskedTokenStream:
    """The stream of a model's text without secrets. A piece of text may end inside a secret: then it is held
    back until the next piece, or for good, since the node's output follows."""

    def __init__(self, secrets: SecretMasker, say: StreamCallback) -> None:
        self._secrets, self._say = secrets, say
        self._attempt = self._offset = 0
        self._stream = StreamMasker(secrets)

    def __call__(self, text: str, attempt: int, _offset: int) -> None:
        if attempt != self._attempt:
            self._attempt, self._offset, self._stream = attempt, 0, StreamMasker(self._secrets)
        shown = self._stream.feed(text)
        if shown:
            self._say(shown, attempt, self._offset)
            self._offset += len(shown)


def uses_memory(plan: Plan) -> bool:
    """Whether a run of the plan uses memory."""
    named = any(getattr(node.config, "memories", ()) for node in plan.sites)
    return named or bool(plan.workflow.memory.group_id)


def describe_error(error: BaseException) -> str:
    """An exception as the text of an error event."""
    if isinstance(error, (NodeError, FunctionError)):
        return str(error)
    return format_exception(error)
