from bench import cycle, start

cycle.report()
start.report()
