from bench import cycle, loop_agent, model_call, start, streams

cycle.report()
loop_agent.report()
model_call.report()
streams.report()
start.report()
