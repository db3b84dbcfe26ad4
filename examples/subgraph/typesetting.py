"""Functions of the workflow in this folder."""


def set_in_lines(text: str) -> str:
    return text.replace(" / ", "\n")
