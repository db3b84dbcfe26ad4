from bench import cycle, journal, loop_agent, model_call, start, streams

cycle.report()
loop_agent.report()
journal.report()
model_call.report()
streams.report()
start.report()
