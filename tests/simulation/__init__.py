"""A simulation of everything around a server: processes, their store, clocks, clients, and faults of each.

`python -m tests.simulation --seed N --cases M` runs M cases, each from a seed of its own. A case is one
world: one or two server processes on a store, a few runs, clients that control them, and faults. It is
decided by its seed alone, so `--seed S --cases 1` repeats the case that a failure names.

    clock.py       one clock for a world; the wall clock can jump, the monotonic one cannot
    loops.py       event loops whose time is that clock, all run in one thread, one step at a time
    disk.py        the connection of a process to the shared store, and what can go wrong with it
    workers.py     worker processes, which die and get stuck
    processes.py   server processes: the real app, engine and supervisor on such a loop and such a connection
    workloads.py   the workflows, and what each must have done in the end
    case.py        one case: what happens, when, and what must be true afterwards
    defects.py     known defects, to be put back: the simulation has to find each of them

The server, the engine and the kernel are the real ones. What is simulated is the time, the scheduler of
the operating system, the death of a process (its loop never runs again), the disk below the store, and the
network between the server and its clients.
"""
