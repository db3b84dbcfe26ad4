"""What a host lends to the nodes of a run (nodes/services.py): time, a folder, models, tools, functions."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from roundel.journal.store import Store
from roundel.kernel.fact_masking import secrets_of
from roundel.llm.recorder import RecordedModel, RecordedTools, Recorder
from roundel.llm.scripted import Script, ScriptedModel
from roundel.nodes.services import Model, NodeError, Recall, Say, Toolbox
from roundel.nodes.threads import awaited, in_thread
from roundel.plan.graph import Plan
from roundel.workflow.functions import Finder, FunctionError, raised
from roundel.workflow.graph import Node
from roundel.workflow.secrets import MaskedStream, Secrets

if TYPE_CHECKING:
    from roundel.memory.run_memory import RunMemory

THREADS = 64


class Lent:
    def __init__(
        self,
        plan: Plan,
        run_id: str,
        clock: Callable[[], float],
        *,
        script: Script | None,
        folder: Path,
        record: Recorder | None,
        say: Callable[[str, str, int, int], None],
    ) -> None:
        self.now = clock
        self.run_id = run_id
        self.script = script
        self.secrets = secrets_of(plan)
        workflow = plan.workflow
        beside = Path(workflow.file).resolve().parent if workflow.file else None
        self._plan, self._workflow, self._beside = plan, workflow, beside
        self.finder = Finder(workflow.functions, beside)
        self.folder = folder
        self._record = record
        self._say = say
        self._threads = asyncio.Semaphore(THREADS)
        self._models: Any = None
        self._tools: Any = None
        self._memory: RunMemory | None = None

    def workspace(self) -> Path:
        folder = self.folder / self.run_id
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def model(self, node: Node) -> Model:
        if self.script is not None:
            return ScriptedModel(self.script)
        if self._models is None:
            from roundel.llm.models import Models

            self._models = Models(self._workflow.models, self.secrets)
        model: Model = self._models.of(node)
        return model if self._record is None else RecordedModel(model, self._record, self.secrets)

    def tools(self, node: Node) -> Toolbox:
        if self._tools is None:
            from roundel.llm.toolbox import Tools

            offline = self.script is not None
            self._tools = Tools(
                self._workflow.tools, self.finder, self, self.secrets, self._beside, offline=offline
            )
        tools: Toolbox = self._tools.of(node)
        return tools if self._record is None else RecordedTools(tools, self._record, node.id)

    @property
    def remembered(self) -> RunMemory:
        if self._memory is None:
            from roundel.memory.run_memory import RunMemory

            offline = self.script is not None
            self._memory = RunMemory(self._plan, self.secrets, self._time, offline=offline)
        return self._memory

    def _time(self) -> float:
        """By the clock of the moment: it may yet be changed for another."""
        return self.now()

    def memory(self, node: Node) -> Recall:
        return self.remembered.recall(node)

    def speaker(self, address: str) -> Say | None:
        if not self.secrets:
            return lambda text, attempt, offset: self._say(address, text, attempt, offset)
        return _MaskedSpeech(self.secrets, lambda *said: self._say(address, *said))

    def key(self, address: str) -> str:
        return f"{self.run_id}:{address}"

    def function(self, reference: str) -> Callable[..., Any]:
        return self.finder.find("function", reference).call

    async def call(self, function: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        if inspect.iscoroutinefunction(function):
            return await awaited(function(*arguments, **named))
        async with self._threads:
            answer = await in_thread(function, *arguments, **named)
        return await awaited(answer) if inspect.isawaitable(answer) else answer

    def keep(self, store: Store) -> None:
        """The run is kept there, and so is what it remembers."""
        if remembers(self._plan):
            self.remembered.memories = store.memory()

    async def close(self) -> None:
        """Ends what was opened: connections, servers of tools."""
        opened = [one.close() for one in (self._models, self._tools, self._memory) if one is not None]
        if opened:
            await asyncio.gather(*opened)
        if self._record is not None:
            self._record.write()


class _MaskedSpeech:
    """What a model is saying, without secrets; a piece of text may end in the middle of one.

    What is held back at the end is in the node's output, which follows."""

    def __init__(self, secrets: Secrets, say: Say) -> None:
        self._secrets, self._say = secrets, say
        self._attempt = self._offset = 0
        self._stream = MaskedStream(secrets)

    def __call__(self, text: str, attempt: int, _offset: int) -> None:
        if attempt != self._attempt:
            self._attempt, self._offset, self._stream = attempt, 0, MaskedStream(self._secrets)
        shown = self._stream.feed(text)
        if shown:
            self._say(shown, attempt, self._offset)
            self._offset += len(shown)


def remembers(plan: Plan) -> bool:
    """Whether a run of it has anything to do with memory."""
    named = any(getattr(node.config, "memories", ()) for node in plan.sites)
    return named or bool(plan.workflow.memory.group_id)


def told(error: BaseException) -> str:
    """What went wrong, in the words of an error event."""
    if isinstance(error, (NodeError, FunctionError)):
        return str(error)
    return raised(error)
