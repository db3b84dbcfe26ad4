"""What the nodes of a run can use (`Services`, nodes/services.py): time, a folder, models, tools,
memory, functions.

Clients and sessions behind models, tools and memory are not opened per run. They belong to the pool of
the process (llm/resource_pool.py), and a run leases them. Everything that is costly to import or to open
is created when the first node asks for it: a run without models imports no model client, and a scripted
run starts no servers and leases nothing.

Secrets leave a run by facts, which the host masks, and by streamed text, which is no fact and is masked
here.
"""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from roundel.hosts.clock import RunClock
from roundel.hosts.contexts import KeepingModel, RunContexts
from roundel.journal.store import Store
from roundel.kernel.facts import secrets_of
from roundel.llm.script import RecordedModel, RecordedTools, Script, ScriptedModel, ScriptRecorder
from roundel.nodes.services import CallCallback, MemoryReader, Model, NodeError, StreamCallback, Toolbox
from roundel.nodes.user_code import await_user_code, run_in_thread
from roundel.plan.graph import Plan
from roundel.workflow.allow_list import TRUSTED, Policy
from roundel.workflow.functions import FunctionError, format_exception
from roundel.workflow.graph import Node
from roundel.workflow.secrets import SecretMasker, StreamMasker

if TYPE_CHECKING:
    from roundel.llm.resource_pool import ResourceLease
    from roundel.memory.run_memory import RunMemory

MAX_THREADS = 64
"""Functions that one run calls in threads at the same time; others wait. A fan-out over a thousand items
would otherwise start a thousand threads."""


class NodeServices:
    """The services of one run. Created by LocalRun, which closes them when no effect is in flight any
    more."""

    def __init__(
        self,
        plan: Plan,
        run_id: str,
        clock: RunClock,
        *,
        script: Script | None,
        folder: Path,
        record: ScriptRecorder | None,
        say: Callable[[str, str, int, int], None],
        on_call: CallCallback,
        context_bytes: int = 0,
        elapsed: Callable[[], float] = time.monotonic,
        policy: Policy = TRUSTED,
    ) -> None:
        self.worked: Callable[[], float] = lambda: 0.0
        """The working time of the run in seconds (LocalRun._worked)."""
        self.use_clock(clock)
        self.run_id = run_id
        self.policy = policy
        """What the run may use; `prepare` checks the plan against it, and clients connect under it."""
        self.script = script
        self.secrets = secrets_of(plan)
        workflow = plan.workflow
        has_folder = workflow.file and policy.trusted
        workflow_folder = Path(workflow.file).resolve().parent if has_folder else None
        self._plan, self._workflow, self._workflow_folder = plan, workflow, workflow_folder
        self.finder = policy.finder(workflow.functions, workflow_folder)
        self.folder = folder
        self._recorder = record
        self.contexts = RunContexts(self.secrets, context_bytes)
        """What model calls get."""
        self._publish_text = say
        self.publish_call = on_call
        """Publishes that a request leaves, or that a call waits before its next attempt."""
        self.elapsed = elapsed
        self._threads = asyncio.Semaphore(MAX_THREADS)
        self._lease: ResourceLease | None = None
        self._models: Any = None
        self._tools: Any = None
        self._memory: RunMemory | None = None

    def use_clock(self, clock: RunClock) -> None:
        """Replaces the clock when the run starts: only then the time of its last fact is known."""
        self.run_clock, self.now = clock, clock.now

    @property
    def lease(self) -> ResourceLease:
        """The run's lease on resources that it shares with other runs; taken with the first use."""
        if self._lease is None:
            from roundel.llm.resource_pool import current_pool

            self._lease = current_pool().lease(self.policy)
        return self._lease

    def workspace(self) -> Path:
        """The working folder of the run, created with the first use."""
        folder = self.folder / self.run_id
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def model(self, node: Node) -> Model:
        """The model of an agent: scripted, recorded or real. What it gets is kept, if the run keeps that."""
        model = self._model(node)
        if not self.contexts.limit:
            return model
        from roundel.nodes.agent_models import find_profile  # agents have imported it

        profile = find_profile(node.config, self._workflow.models)
        params = {} if profile is None else profile.params
        return KeepingModel(model, self.contexts, params, node.log_output)

    def _model(self, node: Node) -> Model:
        if self.script is not None:
            # The table of prices takes time to import, so it is read only if a cost can matter. The script
            # and the plan decide that, never what happened so far: a resumed run must count the same.
            if not (self._plan.limits_cost or self.script.has_tokens):
                return ScriptedModel(self.script)
            from roundel.nodes.agent_models import ScriptedPrice

            return ScriptedModel(self.script, ScriptedPrice(node.config, self._workflow.models))
        if self._models is None:
            from roundel.llm.models import Models

            self._models = Models(
                self._workflow.models, self.secrets, self.lease, self.publish_call, self.elapsed
            )
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
                lease=self.lease if self.script is None else None,  # a scripted run starts no servers
                calls=self.script is None or "tools" in self.script.rights,
            )
        tools: Toolbox = self._tools.for_node(node)
        return tools if self._recorder is None else RecordedTools(tools, self._recorder, node.id)

    @property
    def run_memory(self) -> RunMemory:
        if self._memory is None:
            from roundel.memory.run_memory import RunMemory

            lease = self.lease if self.script is None else None
            # A run that was started without a policy has other rights stored with it.
            access = self._workflow.access if self.policy.trusted else self.policy.access()
            self._memory = RunMemory(self._plan, self.secrets, self._current_time, lease=lease, access=access)
        return self._memory

    def _current_time(self) -> float:
        """The clock of the run. `self.now` itself must not be passed on: it is replaced when the run
        starts."""
        return self.now()

    def memory(self, node: Node) -> MemoryReader:
        return self.run_memory.recall(node)

    def speaker(self, address: str) -> StreamCallback | None:
        """The callback that publishes the text of a model as it arrives, without secrets."""
        if not self.secrets:
            return lambda text, attempt, offset: self._publish_text(address, text, attempt, offset)
        return _MaskedTokenStream(self.secrets, lambda *rest: self._publish_text(address, *rest))

    def key(self, address: str) -> str:
        """The idempotency key of the effect at an address: the same for every attempt at it, in any
        process, since an address is the same after a resume."""
        return f"{self.run_id}:{address}"

    def function(self, reference: str) -> Callable[..., Any]:
        return self.finder.find("function", reference).call

    async def call(self, function: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        """Calls a function of the user: a coroutine function on the event loop, any other in a thread,
        since it may block. A plain function may return an awaitable, which is awaited on the loop."""
        if inspect.iscoroutinefunction(function):
            return await await_user_code(function(*arguments, **named))
        async with self._threads:
            answer = await run_in_thread(function, *arguments, **named)
        return await await_user_code(answer) if inspect.isawaitable(answer) else answer

    def use_memory_of(self, store: Store) -> None:
        """Uses the memories of the store that contains the run. StoreError if it has no place for them.
        A store without memories must not be replaced by the memory of the process, which would forget
        silently."""
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
    """What a pure node gets in place of services: the time, and nothing else. It reads the clock of the
    services with each call, since that is replaced when the run starts."""

    __slots__ = ("_services",)

    def __init__(self, services: NodeServices) -> None:
        self._services = services

    def now(self) -> float:
        return self._services.now()

    def worked(self) -> float:
        return self._services.worked()


class _MaskedTokenStream:
    """Masks the secrets in the streamed text of a model. A piece of text may end inside a secret: then
    its end is withheld until the next piece decides, or for good, since the node's complete output
    follows."""

    def __init__(self, secrets: SecretMasker, say: StreamCallback) -> None:
        self._secrets, self._publish_text = secrets, say
        self._attempt = self._offset = 0
        self._stream = StreamMasker(secrets)

    def __call__(self, text: str, attempt: int, _offset: int) -> None:
        # A retry starts the text anew. Offsets are counted here: masking changes the length of the text.
        if attempt != self._attempt:
            self._attempt, self._offset, self._stream = attempt, 0, StreamMasker(self._secrets)
        shown = self._stream.feed(text)
        if shown:
            self._publish_text(shown, attempt, self._offset)
            self._offset += len(shown)


def uses_memory(plan: Plan) -> bool:
    """Whether a run of the plan uses memory. Otherwise nothing of memory is imported or opened."""
    named = any(getattr(node.config, "memories", ()) for node in plan.sites)
    return named or bool(plan.workflow.memory.group_id)


def describe_error(error: BaseException) -> str:
    """An exception as the text of an error event. The engine's own errors are written for users; others
    need their type to be understood."""
    if isinstance(error, (NodeError, FunctionError)):
        return str(error)
    return format_exception(error)
