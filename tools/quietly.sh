#!/bin/sh
# Run a step of the Makefile quietly: quietly.sh COMMAND [ARGUMENT...]
#
# A step that succeeds prints nothing. A step that fails prints the end of its output, and its exit code becomes
# the exit code of this script. A step that takes long prints a line every few seconds: how long it has run, and
# the last line of its output. Installers retry for minutes before they give up, and that line says why.

every=${PROGRESS_SECONDS:-10}
output=$(mktemp) || exit 1

report_progress() {
    seconds=0
    # The sleep outlives this loop; it must not hold the caller's pipes open.
    while sleep "$every" </dev/null >/dev/null 2>&1; do
        seconds=$((seconds + every))
        printf '   %s s: %s\n' "$seconds" "$(tail -n 1 "$output" | cut -c 1-160)"
    done
}

report_progress &
progress=$!
trap 'kill "$progress" 2>/dev/null; rm -f "$output"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

"$@" >"$output" 2>&1
code=$?
if [ "$code" -ne 0 ]; then
    tail -n 60 "$output" >&2
    printf '   failed with exit code %s: %s\n' "$code" "$*" >&2
fi
exit "$code"
