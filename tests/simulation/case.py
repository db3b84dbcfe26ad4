"""One case of the simulation: clients, faults, and what must be true in the end.

    1. Clients start runs, and repeat each start with its key until a server has taken it.
    2. For a while, anything happens: processes die or are stopped, the disk is full, the wall clock jumps,
       clients pause, resume, answer and stop runs, and read their events over connections that are slow or
       cut.
    3. Then nothing fails any more, and every run has to come to its end.

What must be true:

    - no run is stranded: each one completes, or is in a state in which a person has to decide, and completes
      after the decision
    - the result is the one of a world without faults
    - nothing that is stored is done again (workloads.py)
    - what a client was promised happens: an acknowledged start, pause, answer or stop
    - no limit on working time is used up by a clock that jumps
    - a run that kills its process is locked after some attempts, and the others complete
    - each reader gets every event once and in order
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from functools import partial
from typing import Any

from msgspec import Struct

from tests.simulation.processes import Answer, Process, Reader
from tests.simulation.workloads import Workload, chain, loop, question
from tests.simulation.world import Stuck, World

MAX_ACTIONS = 12
MAX_CRASHES = 6
"""Deaths that one poisonous run may cause. Three are enough to lock it; some more are allowed, since a server
may die of another cause before it has counted."""
HOUR, DAY = 3600.0, 86_400.0
KEY_SECONDS = 0.8 * DAY
"""How long the key of a start surely tells that it is a repetition: some hours less than it is kept."""
CHECKS = ["cause_understood", "cost_accepted", "workflow_reviewed"]


class Client(Struct):
    """A client's view of one run."""

    name: str
    workload: Workload
    timeout: float | None = None
    run_id: str = ""
    asked_at: float | None = None
    """The wall clock when its start was first sent."""
    answered: bool = False
    """An answer was acknowledged."""
    may_be_answered: bool = False
    """An answer was sent, and nobody knows whether it was taken."""
    paused_at: int | None = None
    """A pause was acknowledged when the run had made so many calls."""
    resumes: int = 0
    """How often somebody has sent a request to resume the run. One may be applied at any later time."""
    stopped: bool = False
    may_be_stopped: bool = False
    is_poison: bool = False


class Case:
    """One case. `run` returns what is wrong."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.world = World(seed, places=1 + seed % 2)
        self.dice = random.Random(self.world.dice.random())
        self.problems: list[str] = []
        self.log: list[str] = []
        """What happened, for whoever reads a failure."""
        self.clients: list[Client] = []
        self.readers: list[tuple[Client, Reader]] = []

    def run(self) -> list[str]:
        try:
            self._start_runs()
            self._trouble()
            self._calm()
        except Stuck as stuck:
            self.problems.append(f"{stuck}; {self.world.store.statuses()}")
        finally:
            self.world.close()
        self.problems += self.world.calls.violations
        return self.problems

    def note(self, text: str) -> None:
        self.log.append(f"{self.world.clock.monotonic:9.3f} {text}")

    # 1. Starts.

    def _start_runs(self) -> None:
        dice, world = self.dice, self.world
        world.until(lambda: bool(world.alive()), "no server starts")
        for number in range(dice.randint(1, 4)):
            name = f"r{number}"
            client = self._client(name)
            self.clients.append(client)
            world.after(dice.uniform(0, 20), partial(self._start, client))
        if dice.random() < 0.4:
            client = dice.choice(self.clients)
            client.is_poison = True
            times = dice.choice((1, 2, 1000))
            world.calls.poison[client.name] = (dice.randrange(max(1, client.workload.steps // 2)), times)
            self.note(f"{client.name} kills its process {times} times")

    def _client(self, name: str) -> Client:
        kind = self.dice.choice(("chain", "chain", "loop", "question", "question"))
        steps = self.dice.randint(2, 6)
        if kind == "question":
            timeout = self.dice.choice((None, 30.0, 3600.0))
            return Client(name, question(name, steps, timeout), timeout)
        return Client(name, chain(name, steps) if kind == "chain" else loop(name, steps))

    def _start(self, client: Client) -> None:
        body = {"workflow": {"text": client.workload.text}, "input": client.name}
        if client.asked_at is None:
            client.asked_at = self.world.clock.wall

        def on_answer(answer: Answer | None) -> None:
            if answer is not None and answer.status == 202:
                client.run_id = answer.body["id"]
                self.note(f"{client.name} is run {client.run_id}")
                return
            if answer is not None and answer.status < 500:
                self.problems.append(f"start of {client.name}: {answer}")
                return
            self.world.after(1, lambda: self._start(client))

        self._send("POST", "/api/v1/runs", body, on_answer, {"idempotency-key": client.name})

    def _send(
        self,
        method: str,
        path: str,
        body: Any,
        on_answer: Callable[[Answer | None], None] = lambda _answer: None,
        headers: dict[str, str] | None = None,
    ) -> None:
        """Sends a request to any server. The answer is None if the server died, or there is none."""
        alive = self.world.alive()
        if not alive:
            on_answer(None)
            return
        process = self.dice.choice(alive)
        task = process.request(method, path, body, headers)
        self._when_finished(task, process, on_answer)

    def _when_finished(
        self, task: asyncio.Task[Answer], process: Process, on_answer: Callable[[Answer | None], None]
    ) -> None:
        def look() -> None:
            if task.done() and not task.cancelled():
                if task.exception() is not None:
                    self.problems.append(f"a request failed: {task.exception()!r}")
                    on_answer(None)
                    return
                answer = task.result()
                if answer.status == 500:
                    self.problems.append(f"a server failed: {answer.body}")
                on_answer(answer)
            elif self.world.finished(task, process):
                on_answer(None)
            else:
                self.world.after(0.05, look)

        look()

    # 2. Trouble.

    def _trouble(self) -> None:
        dice, world = self.dice, self.world
        if dice.random() < 0.3:
            world.lethal = dice.choice((0.002, 0.01))
            for process in world.processes.values():
                process.store.lethal = world.lethal
        actions, weights = [action for action, _ in ACTIONS], [weight for _, weight in ACTIONS]
        for _ in range(dice.randint(1, MAX_ACTIONS)):
            world.advance(dice.choice((0.0, 0.01, 0.2, 2.0, 20.0)) * dice.random())
            dice.choices(actions, weights)[0](self)
            self._check_pauses()

    def _kill(self) -> None:
        if self.world.processes:
            process = self.dice.choice(list(self.world.processes.values()))
            self.note(f"kill {process.place}")
            process.die()
            self.world.bury()

    def _kill_and_pause(self) -> None:
        """Another server may be about to take the runs over."""
        self._kill()
        for client in self.clients:
            if client.run_id and self._status(client) == "running":
                self.world.after(self.dice.uniform(0, 3), partial(self._request_pause, client))

    def _shut_down(self) -> None:
        alive = self.world.alive()
        if alive:
            process = self.dice.choice(alive)
            self.note(f"shut down {process.place}")
            process.shut_down()

    def _fill_disk(self) -> None:
        if not self.world.disk.full:
            seconds = self.dice.choice((0.1, 1.0, 10.0, 100.0)) * self.dice.random()
            self.note(f"the disk is full for {seconds:.2f} s")
            self.world.disk.full = True
            self.world.after(seconds, self._free_disk)

    def _free_disk(self) -> None:
        self.world.disk.full = False

    def _jump(self) -> None:
        seconds = self.dice.choice((-HOUR, 1, HOUR, DAY, 40 * DAY)) * self.dice.uniform(0.1, 1)
        seconds = min(seconds, self._longest_jump())
        self.note(f"the wall clock jumps by {seconds:.1f} s")
        self.world.clock.offset += seconds

    def _longest_jump(self) -> float:
        """A start that is repeated after its key has expired is another one, so the clock must not jump over
        that time while a client repeats a start."""
        asked = [one.asked_at for one in self.clients if one.asked_at is not None and not one.run_id]
        return min(asked, default=float("inf")) + KEY_SECONDS - self.world.clock.wall

    def _some_run(self) -> Client | None:
        started = [client for client in self.clients if client.run_id]
        return self.dice.choice(started) if started else None

    def _pause(self) -> None:
        client = self._some_run()
        if client is not None:
            self._request_pause(client)

    def _request_pause(self, client: Client) -> None:
        def on_answer(answer: Answer | None) -> None:
            self.note(f"pause {client.name}: {answer.status if answer else answer}")
            if answer is not None and answer.status == 200 and not client.resumes:
                client.paused_at = self._calls_of(client)

        self._send("POST", f"/api/v1/runs/{client.run_id}/pause", {}, on_answer)

    def _calls_of(self, client: Client) -> int:
        counts = self.world.calls.farthest
        return max(counts.get(name, -1) for name in (client.name, f"{client.name}-y", f"{client.name}-n"))

    def _check_pauses(self) -> None:
        for client in self.clients:
            if client.paused_at is not None and self._calls_of(client) > client.paused_at:
                self.problems.append(f"{client.name} went on after an acknowledged pause")
                client.paused_at = None

    def _resume(self) -> None:
        client = self._some_run()
        if client is not None:
            client.paused_at = None
            client.resumes += 1
            self._send("POST", f"/api/v1/runs/{client.run_id}/resume", None)

    def _answer(self) -> None:
        client = self._some_run()
        if client is not None and client.workload.asks:
            self._request_answer(client)

    def _request_answer(self, client: Client) -> None:
        client.may_be_answered = True

        def on_answer(answer: Answer | None) -> None:
            self.note(f"answer {client.name}: {answer.status if answer else answer}")
            client.answered |= answer is not None and answer.status == 200

        text = client.workload.answer
        self._send("POST", f"/api/v1/runs/{client.run_id}/answer", {"text": text}, on_answer)

    def _pause_and_answer(self) -> None:
        """In the same moment, perhaps at two servers, while the question is open."""
        asked = [client for client in self.clients if client.run_id and self._status(client) == "waiting"]
        if asked:
            client = self.dice.choice(asked)
            both = [self._request_pause, self._request_answer]
            self.dice.shuffle(both)
            both[0](client)
            self.world.after(self.dice.choice((0, 0.001, 0.02, 0.1)), lambda: both[1](client))

    def _kill_on_a_full_disk(self) -> None:
        """The runs of the process are taken over while nothing can be written."""
        self._kill()
        self._fill_disk()

    def _stop(self) -> None:
        client = self._some_run()
        if client is not None and self.dice.random() < 0.2:
            client.may_be_stopped = True

            def on_answer(answer: Answer | None) -> None:
                self.note(f"stop {client.name}: {answer.status if answer else answer}")
                client.stopped |= answer is not None and answer.status == 200

            self._send("POST", f"/api/v1/runs/{client.run_id}/stop", {}, on_answer)

    def _read(self) -> None:
        client = self._some_run()
        if client is not None and len(self.readers) < 4:
            reader = Reader()
            self.readers.append((client, reader))
            self._connect(client, reader)

    def _connect(self, client: Client, reader: Reader) -> None:
        """Reads events, and connects again whenever the connection ends."""
        alive = self.world.alive()
        if not alive:
            self.world.after(1, lambda: self._connect(client, reader))
            return
        process = self.dice.choice(alive)
        task = process.stream(client.run_id, reader, self.dice.choice((1, 2, 5, 1000)))

        def look() -> None:
            if reader.is_done:
                return
            if self.world.finished(task, process):
                self._connect(client, reader)
            else:
                self.world.after(0.5, look)

        look()

    # 3. Calm.

    def _calm(self) -> None:
        world = self.world
        self.note("calm")
        world.disk.full = False
        world.lethal = 0.0
        for process in world.processes.values():
            process.store.lethal = 0.0
        world.until(lambda: all(client.run_id for client in self.clients), "a run is not started")
        for client in self.clients:
            self._finish(client)
            self._check(client)
        for client, reader in self.readers:
            world.until(reader.has_ended, f"a reader of {client.name} waits")
            if reader.ids != list(range(1, len(reader.ids) + 1)):
                self.problems.append(f"a reader of {client.name} got {reader.ids}")

    def _status(self, client: Client) -> str:
        return self.world.store.statuses()[client.run_id]

    def _finish(self, client: Client) -> None:
        """Does what a person would do, until the run is over."""
        for _ in range(20):
            self._wait_until_idle(client)
            self._check_pauses()
            status = self._status(client)
            if status in ("completed", "failed", "stopped"):
                return
            if status == "waiting":
                self._do(client, "answer", {"text": client.workload.answer})
                client.may_be_answered = True
            elif status == "paused":
                client.paused_at = None
                client.resumes += 1
                self._do(client, "resume", None)
            elif status == "suspended_locked":
                self._unlock(client)
            self.world.advance(1)
        self.problems.append(f"{client.name} does not end: {self._status(client)}")

    def _wait_until_idle(self, client: Client) -> None:
        def idle() -> bool:
            if self.world.calls.kills > MAX_CRASHES:
                raise Stuck(f"one run has killed its process {self.world.calls.kills} times")
            return (
                self._status(client) != "running"
                and client.run_id not in self.world.store.owned()
                and bool(self.world.alive())
            )

        self.world.until(idle, f"{client.name} is stranded")

    def _ask(self, method: str, path: str, body: Any = None) -> Answer | None:
        """Sends a request, and waits for the answer."""
        found: list[Answer | None] = []
        self._send(method, path, body, found.append)
        self.world.until(lambda: bool(found), f"{path} is not answered")
        return found[0]

    def _do(self, client: Client, action: str, body: Any) -> None:
        answer = self._ask("POST", f"/api/v1/runs/{client.run_id}/{action}", body)
        self.note(f"{action} {client.name}: {answer}"[:300])

    def _unlock(self, client: Client) -> None:
        reason = self._lock_reason(client)
        if reason != "crashes":
            raise Stuck(f"{client.name} was locked: {reason}")
        # The cause is repaired.
        self.world.calls.poison.pop(client.name, None)
        self._do(client, "unlock", {"reason": "repaired", "checks": CHECKS})

    def _lock_reason(self, client: Client) -> str:
        lock = self._get(f"/api/v1/runs/{client.run_id}")["lock"]
        return str(lock["what"])

    def _check(self, client: Client) -> None:
        status = self._status(client)
        expected = "stopped" if client.stopped else "completed"
        if status != expected and not (status == "stopped" and client.may_be_stopped):
            self.problems.append(f"{client.name} is {status} and not {expected}: {self._output(client)}")
        if status != "completed":
            return
        output, outputs = self._output(client), client.workload.outputs()
        if client.answered:
            outputs = outputs[:1]
        elif not client.may_be_answered:
            outputs = outputs[-1:]
        if output not in outputs:
            self.problems.append(f"{client.name} returned {output!r} and not {' or '.join(outputs)}")

    def _output(self, client: Client) -> Any:
        return self._get(f"/api/v1/runs/{client.run_id}/output").get("output")

    def _get(self, path: str) -> dict[str, Any]:
        """Reads something, from another server if one is shutting down."""
        for _ in range(10):
            answer = self._ask("GET", path)
            if answer is not None and answer.status == 200:
                body: dict[str, Any] = answer.body
                return body
            self.world.advance(1)
        raise Stuck(f"{path} cannot be read")


ACTIONS: list[tuple[Callable[[Case], None], int]] = [
    (Case._kill, 2),
    (Case._kill_and_pause, 2),
    (Case._shut_down, 1),
    (Case._fill_disk, 3),
    (Case._kill_on_a_full_disk, 2),
    (Case._jump, 4),
    (Case._pause, 3),
    (Case._resume, 3),
    (Case._answer, 2),
    (Case._pause_and_answer, 4),
    (Case._stop, 1),
    (Case._read, 3),
]
