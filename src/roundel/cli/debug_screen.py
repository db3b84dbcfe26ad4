"""The debugger in a terminal: it reads keys, calls the session, and draws a frame when something changed.

One loop handles everything in order (`_inbox`): keys, changes of the run, a new size of the terminal. An
action such as a step takes as long as its model calls, so it runs in a task of its own, and the screen
stays live. Only one action at a time lets the run continue; breakpoints, a pause and an interrupt are
possible meanwhile.

*Ctrl-C* cancels the calls in flight, and the session continues; a second one leaves. SIGTERM and SIGHUP end
the session like `q`.

*The end.* Whatever happens, the terminal is restored first; only then does the session wait for calls in
flight. Leaving interrupts a run that is executed here, since closing the engine would stop it for good.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import Awaitable, Callable
from typing import ClassVar

import click

from roundel.cli.debug_panes import PANES
from roundel.cli.debug_session import DebugSession
from roundel.cli.debug_view import DebugFrame, DebugViewState
from roundel.cli.full_screen import FullScreen
from roundel.cli.keys import KeyPress, LineEditor
from roundel.cli.signals import interrupts
from roundel.hosts.control import EditConflict, Question
from roundel.journal.store import StoreError
from roundel.plan.graph import NodePlan
from roundel.runs.inspection import WaitingMessage
from roundel.workflow.breakpoints import BreakpointError
from roundel.workflow.diagnostics import WorkflowError

POLL_SECONDS = 0.5
"""How often the row of the run is read, to notice what others do with it."""
MIN_SECONDS = 0.1
"""A run that is executed here is read at most this often, however many events it has."""
LEAVE_SECONDS = 1.0
"""How long calls may take to end after a second Ctrl-C, before the process ends without them."""
INLINE_CHARACTERS = 200
"""Longer messages, and those of several lines, are edited in an editor."""
CHANGED, REDRAW = "changed", "redraw"
"""In the inbox: the run may have changed; the screen has."""
UNFINISHED = "the previous action is still running; p pauses the run, Ctrl-C interrupts it"
REFUSED = (StoreError, BreakpointError, WorkflowError, OSError, click.ClickException)
"""Errors that a person can do something about; they are shown in the notice line."""

Done = Callable[[str], None]
"""Gets the text of a prompt."""


class DebugScreen:
    """A debugging session in a terminal. The command creates it and awaits `run`."""

    def __init__(self, session: DebugSession) -> None:
        self._session = session
        self._state = DebugViewState()
        self._inbox: asyncio.Queue[KeyPress | str | None] = asyncio.Queue()
        self._terminal = FullScreen(self._inbox.put_nowait, lambda: self._inbox.put_nowait(REDRAW))
        self._frame = DebugFrame(session, self._state, self._terminal.console)
        self._change_reported = False
        """Whether the inbox has a change already: a run may have thousands of events."""
        self._on_text: Done = lambda _text: None
        self._tasks: set[asyncio.Task[None] | None] = set()
        """The actions in progress."""
        self._action: asyncio.Task[None] | None = None
        """The one that lets the run continue or changes it, of which there is one at a time."""
        self._pausing: asyncio.Task[None] | None = None
        self._follows = True
        """Whether the selection moves to the node that is ready next."""
        self._interrupts = 0
        """How many times Ctrl-C was pressed without another key in between."""
        self._leaves = False
        self._defect: Exception | None = None
        self._impatient = False
        """Whether a second Ctrl-C has ended the session: calls in flight get little time."""
        self.was_interrupted = False
        """Whether a signal has ended the session."""

    async def run(self) -> None:
        """Shows the session until the person leaves it; the run is idle then, or executed elsewhere."""
        self._session.on_change = self._report_change
        with interrupts.with_action(self._leave_by_signal):
            with self._terminal:
                self._follow()
                self._draw()
                while not self._leaves:
                    await self._handle_next()
            await self._settle()
        if self._defect is not None:
            raise self._defect

    def _draw(self) -> None:
        try:
            self._terminal.draw(self._frame)
        except OSError:  # the terminal is gone
            self._leave()

    # The loop.

    def _report_change(self) -> None:
        if not self._change_reported:
            self._change_reported = True
            self._inbox.put_nowait(CHANGED)

    async def _handle_next(self) -> None:
        try:
            async with asyncio.timeout(POLL_SECONDS):
                item = await self._inbox.get()
        except TimeoutError:
            item = CHANGED
        if isinstance(item, KeyPress):
            await self._press(item)
        elif item is None:
            self._leave()
        elif item == CHANGED:
            await self._refresh()
            return
        if not self._leaves:
            self._draw()

    async def _refresh(self) -> None:
        """Reads the run again, and says what somebody else has done with it."""
        self._change_reported = False  # before it is read: what comes later is reported again
        try:
            changed = await self._session.refresh()
        except REFUSED as error:
            self._say(str(error), error=True)
            changed = True
        if not changed:
            return
        happened = list(self._session.happened())
        if self._pausing is not None:  # the pause was requested here, whoever executes the run
            if self._session.picture.seen.status != "running":
                self._pausing = None
                self._say("")
        elif not self._tasks and happened:
            self._say(f"somebody else: {happened[-1]}")
        if self._follows:
            self._follow()
        self._draw()
        if self._session.is_executed_here:
            await asyncio.sleep(MIN_SECONDS)

    def _follow(self) -> None:
        """Selects the node that is next."""
        node = self._session.first_ready
        if node is not None and node is not self._state.selected:
            self._select(node)
        elif self._state.selected is None:
            self._state.selected = next(iter(self._session.outline.nodes), None)

    def _select(self, node: NodePlan) -> None:
        self._state.selected, self._state.message = node, None
        for pane in ("queue", "diff"):
            self._state.scrolled.pop(pane, None)

    def _say(self, text: str, *, error: bool = False) -> None:
        self._state.notice, self._state.is_error = text, error

    # Keys.

    async def _press(self, press: KeyPress) -> None:
        if press.name == "ctrl-c":
            self._interrupt()
            return
        self._interrupts = 0
        if self._state.prompt is not None:
            self._press_in_prompt(press)
            return
        if self._state.overlay and press.name not in ("page-up", "page-down"):
            self._state.overlay = ""
            if press.name in ("escape", "?", "u", "q"):
                return
        self._say("")
        name = {"k": "up", "j": "down", "h": "left", "l": "right"}.get(press.name, press.name)
        if name in self._NAVIGATION:
            self._NAVIGATION[name](self)
        elif name in self._COMMANDS:
            waits = self._COMMANDS[name](self)
            if waits is not None:
                await waits

    def _interrupt(self) -> None:
        self._terminal.interrupt_handled()
        self._interrupts += 1
        if self._state.prompt is not None:
            self._state.prompt, self._interrupts = None, 0
            self._say("cancelled")
        elif self._interrupts > 1:
            self._impatient = True
            self._leave_by_signal()
        elif self._session.interrupt():
            self._say("cancelling the calls in flight; press Ctrl-C again to quit")
        else:
            self._say("press Ctrl-C again or q to quit")

    def _press_in_prompt(self, press: KeyPress) -> None:
        prompt = self._state.prompt
        assert prompt is not None
        complete = prompt.press(press)
        if complete is None:
            return
        self._state.prompt = None
        if complete:
            self._on_text(prompt.text)
        else:
            self._say("cancelled")

    def _ask(self, label: str, done: Done, text: str = "") -> None:
        self._state.prompt, self._on_text = LineEditor(label, text), done
        self._say("")

    def _leave(self) -> None:
        self._leaves = True
        self._inbox.put_nowait(REDRAW)  # wakes the loop

    def _leave_by_signal(self) -> None:
        self.was_interrupted = True
        self._leave()

    # Navigation.

    def _move(self, by: int) -> None:
        nodes = self._session.outline.nodes
        if not nodes:
            return
        at = nodes.index(self._state.selected) if self._state.selected in nodes else 0
        self._select(nodes[min(max(at + by, 0), len(nodes) - 1)])
        self._follows = False

    def _choose(self, by: int) -> None:
        node = self._state.selected
        at = self._session.chosen_message(node, self._state.message) if node is not None else None
        if node is not None and at is not None:
            last = len(self._session.queue_of(node)) - 1
            self._state.message = min(max(at + by, 0), last)
            self._state.pane = "queue"
            self._state.scrolled.pop("queue", None)

    def _turn(self, by: int) -> None:
        self._state.pane = PANES[(PANES.index(self._state.pane) + by) % len(PANES)]

    def _scroll(self, pages: int) -> None:
        name = self._state.overlay or self._state.pane
        by = pages * self._frame.pane_height
        self._state.scrolled[name] = self._state.scrolled.get(name, 0) + by

    def _toggle_overlay(self, name: str) -> None:
        self._state.overlay = "" if self._state.overlay == name else name
        self._state.scrolled.pop(name, None)

    def _show_unlock(self) -> None:
        if self._session.picture.lock is None:
            self._say("the run is not locked", error=True)
        else:
            self._toggle_overlay("unlock")

    def _redraw(self) -> None:
        """For when something else has written to the terminal."""
        self._terminal.console.clear()

    _NAVIGATION: ClassVar[dict[str, Callable[[DebugScreen], None]]] = {
        "up": lambda screen: screen._move(-1),
        "down": lambda screen: screen._move(1),
        "left": lambda screen: screen._choose(-1),
        "right": lambda screen: screen._choose(1),
        "home": lambda screen: screen._move(-sys.maxsize),
        "end": lambda screen: screen._move(sys.maxsize),
        "tab": lambda screen: screen._turn(1),
        "back-tab": lambda screen: screen._turn(-1),
        "page-up": lambda screen: screen._scroll(-1),
        "page-down": lambda screen: screen._scroll(1),
        "?": lambda screen: screen._toggle_overlay("help"),
        "u": _show_unlock,
        "ctrl-l": _redraw,
        "q": _leave,
        "end-of-input": _leave,
    }

    # Actions.

    def _act(
        self, begin: Callable[[], Awaitable[object]], done: str = "", *, busy: str = "", alone: bool = True
    ) -> None:
        """Starts an action in the background. One that has to be `alone` is refused while another one of
        these is in progress."""
        if alone and self._action is not None:
            self._say(UNFINISHED, error=True)
            return
        task = asyncio.create_task(self._perform(begin, done, busy), name="roundel-debug-action")
        self._tasks.add(task)
        if alone:
            self._action = task
            self._say(busy)

    async def _perform(self, begin: Callable[[], Awaitable[object]], done: str, busy: str) -> None:
        try:
            said = await begin()
            if self._session.was_interrupted:
                self._say("the calls in flight were cancelled; a step repeats them")
            elif said or done or self._state.notice in (busy, UNFINISHED):
                self._say(said if isinstance(said, str) else done)
        except EditConflict as error:
            self._say(f"{error}; e edits the new text", error=True)
        except REFUSED as error:
            self._say(str(error), error=True)
        except Exception as error:  # a defect: raised where it ends the command, once the screen is closed
            self._defect = error
            self._leave()
        finally:
            with contextlib.suppress(*REFUSED):
                await self._session.refresh()
            task = asyncio.current_task()
            self._tasks.discard(task)
            if self._action is task:
                self._action, self._session.was_interrupted = None, False
            if self._follows:
                self._follow()
            self._inbox.put_nowait(REDRAW)

    def _step(self, whole_round: bool = False) -> None:
        self._follows = True
        self._act(lambda: self._session.step(whole_round), busy="running…")

    def _continue(self) -> None:
        self._follows = True
        self._act(self._session.resume, busy="running…")

    def _pause(self) -> None:
        if self._session.picture.seen.status != "running":
            self._say("the run is not running", error=True)
        elif self._pausing is None:
            self._say("requesting the pause…")
            # Not an action, since it has to work during one.
            self._pausing = asyncio.create_task(self._request_pause(), name="roundel-debug-pause")

    async def _request_pause(self) -> None:
        try:
            await self._session.pause()
            self._say("pausing; the calls in flight finish first")
        except REFUSED as error:
            self._pausing = None
            self._say(str(error), error=True)
        self._inbox.put_nowait(REDRAW)

    def _toggle_breakpoint(self) -> None:
        node = self._state.selected
        if node is not None:
            self._act(lambda: self._session.toggle_breakpoint(node), alone=False)

    def _type_breakpoint(self) -> None:
        def done(place: str) -> None:
            if place.strip():
                said = f"breakpoint {place.strip()} set"
                self._act(lambda: self._session.add_breakpoint(place), said, alone=False)

        self._ask("breakpoint (node, Writer[3], cel: …):", done)

    def _answer(self) -> None:
        question = self._session.question_for(self._state.selected)
        if question is None:
            self._say("no question is open", error=True)
            return
        self._state.pane, self._follows = "ready", True
        self._ask(f"answer {question.node_id}:", lambda text: self._send_answer(question, text))

    def _send_answer(self, question: Question, text: str) -> None:
        self._act(lambda: self._session.answer(question, text), "answered", busy="answering…")

    async def _edit(self) -> None:
        chosen = self._chosen_message()
        if chosen is None:
            self._say("the queue of this node is empty", error=True)
            return
        address, message = chosen
        if self._session.picture.seen.status not in ("paused", "suspended_locked"):
            self._say("messages can be edited while the run is paused or locked", error=True)
        elif "\n" in message.text or len(message.text) > INLINE_CHARACTERS:
            with self._terminal.suspended():
                text = await asyncio.to_thread(click.edit, message.text)
            # An editor ends the last line of a file, which the message did not have.
            self._save(address, message, None if text is None else text.rstrip("\n"))
        else:
            label = f"edit message {message.position}:"
            self._ask(label, lambda text: self._save(address, message, text), message.text)

    def _save(self, address: str, message: WaitingMessage, text: str | None) -> None:
        if text is None or text == message.text:
            self._say("not changed")
        else:
            self._act(lambda: self._session.edit(address, message, text), "edited")

    def _chosen_message(self) -> tuple[str, WaitingMessage] | None:
        node = self._state.selected
        number = self._session.chosen_message(node, self._state.message) if node is not None else None
        return self._session.queue_of(node)[number] if node is not None and number is not None else None

    _COMMANDS: ClassVar[dict[str, Callable[[DebugScreen], Awaitable[None] | None]]] = {
        "s": _step,
        "r": lambda screen: screen._step(whole_round=True),
        "c": _continue,
        "p": _pause,
        "b": _toggle_breakpoint,
        "B": _type_breakpoint,
        "e": _edit,
        "a": _answer,
    }

    async def _settle(self) -> None:
        """After the screen is closed: cancels what is in flight here, and waits for it."""
        interrupted = self._session.interrupt()
        if interrupted and self._impatient:
            # The calls did not end with the first Ctrl-C, or hardly had the time to.
            try:
                async with asyncio.timeout(LEAVE_SECONDS):
                    await self._session.wait()
            except TimeoutError:
                interrupts.exit_now()
        if self._action is not None:  # it ends with the run
            await asyncio.wait([self._action])
        if interrupted:
            # `main` then ends without waiting for threads that cannot be cancelled.
            interrupts.received = True
