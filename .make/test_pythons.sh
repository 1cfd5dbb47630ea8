#!/usr/bin/env bash
# Runs `make test` on each Python named that is found here, and prints a line of totals for each.
#
#   test_pythons.sh 3.11 3.12 …
#
# A version that is missing is reported at the end and is no failure.
set -uo pipefail

log=$(mktemp)
trap 'rm -f "$log"' EXIT
summary=()
missing=()
status=0

for version in "$@"; do
    if ! python=$(.make/python.sh find "$version"); then
        missing+=("$version")
        continue
    fi
    echo "== Python $version: $python"
    if "${MAKE:-make}" test PYTHON="$python" 2>&1 | tee "$log"; then
        result=passed
    else
        result=FAILED
        status=1
    fi
    # pytest's closing lines, one for each run.
    totals=$(grep -E '^(=+ )?([0-9]+ [a-z]+(, )?)+ in [0-9]' "$log" | paste -sd ';' - | sed 's/;/; /g')
    summary+=("$("$python" -c 'import platform; print(platform.python_version())') $result: ${totals:-no test ran}")
    [ -n "$totals" ] || status=1
done

echo "== all Pythons"
[ "${#summary[@]}" -eq 0 ] || printf '%s\n' "${summary[@]}"
if [ "${#missing[@]}" -gt 0 ]; then
    echo "NOT FOUND, NOT TESTED: Python ${missing[*]} (install it with apt, pyenv or uv)"
fi
exit "$status"
