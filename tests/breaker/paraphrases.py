"""Messages that say the same in other words. Nothing here is detected; `max_rounds` bounds such a loop."""

from __future__ import annotations

from collections.abc import Iterator

_SAID = (
    (
        "I will look into this and come back to you.",
        "Let me check the matter and report when I am done.",
        "Give me a moment, I am going to examine it.",
        "This is on my list, you will hear from me.",
        "I am taking care of it right now.",
        "Allow me some time to find out more.",
    ),
    (
        "The proposal looks good to me.",
        "I have nothing to add, it is fine as it stands.",
        "From my side there are no objections.",
        "That works, I would not change anything.",
        "I am happy with this version.",
        "No complaints, this is what we wanted.",
    ),
    (
        "Unfortunately the service cannot be reached.",
        "There is still no connection to the server.",
        "The endpoint does not answer our requests.",
        "We keep running into a dead line over there.",
        "Nothing comes back from the other side.",
        "The host seems to be down at the moment.",
    ),
)


def paraphrases() -> Iterator[list[str]]:
    for texts in _SAID:
        yield list(texts)
