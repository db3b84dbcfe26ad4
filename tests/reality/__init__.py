"""Every loop that ships, with a model that answers only from what it is sent.

A scripted reply is the same whatever the agent was shown, so a script cannot notice that an agent works
blind. Here the models are personas behind a real provider's interface: `request` reads what arrived, `world`
says what a work is and what it lacks, `personas` answer, `provider` serves them, `audit` says what each agent
was shown, `shipped` lists what we ship and what its users want of it, and `harness` runs that.
"""
