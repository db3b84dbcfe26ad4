from bench import cycle, loop_agent, start

cycle.report()
loop_agent.report()
start.report()
