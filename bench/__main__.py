from bench import check, cycle, guards, journal, loop_agent, model_call, start, streams

cycle.report()
guards.report()
loop_agent.report()
journal.report()
model_call.report()
streams.report()
start.report()
check.report()
