"""Print pip's settings as environment variables for uv, for the Makefile to evaluate.

uv does not read pip's configuration: behind a company's package index, where pip works because of its
files and variables, uv would ask the public index and fail. This script asks pip for its settings and
prints a shell assignment for each one that uv has an equivalent for. A variable that is already set wins.

It runs before anything is installed, so it uses the standard library and the pip that comes with Python.
"""

import ast
import os
import shlex
import subprocess
import sys

# pip's option -> uv's variable.
VARIABLES = {
    "index-url": "UV_DEFAULT_INDEX",
    "extra-index-url": "UV_INDEX",
    "find-links": "UV_FIND_LINKS",
    "trusted-host": "UV_INSECURE_HOST",
    "cert": "SSL_CERT_FILE",
}
# pip gives precedence to the environment, then to the section of the command, then to [global].
SECTIONS = ("global", "install", ":env:")


def read_pip_settings() -> dict[str, str]:
    """The settings that `pip install` would use, by option."""
    command = [sys.executable, "-m", "pip", "config", "list"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(
            f"Cannot read the settings of pip: `{shlex.join(command)}` failed.\n{done.stdout}{done.stderr}"
        )
    found: dict[tuple[str, str], str] = {}
    for line in done.stdout.splitlines():
        name, _, value = line.partition("=")
        section, _, option = name.partition(".")
        if section in SECTIONS and value:
            found[section, option] = str(ast.literal_eval(value))
    return {option: found[section, option] for section in SECTIONS for s, option in found if s == section}


def main() -> None:
    found = read_pip_settings()
    settings = {variable: found[option] for option, variable in VARIABLES.items() if option in found}
    if "UV_INDEX" in settings:
        # pip takes the best version from all indexes; uv would stop at the first that has the package.
        settings["UV_INDEX_STRATEGY"] = "unsafe-best-match"
    for variable, value in sorted(settings.items()):
        if variable not in os.environ:
            separator = "," if variable == "UV_FIND_LINKS" else " "
            print(f"export {variable}={shlex.quote(separator.join(value.split()))}")


if __name__ == "__main__":
    main()
