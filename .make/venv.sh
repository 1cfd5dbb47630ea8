#!/bin/sh
# Makes the virtual environment named by the first argument, unless it is there and works.
# PYTHON=/some/python chooses the interpreter; otherwise the first Python >= 3.11 with venv is taken.
set -eu

directory=$1

is_new_enough() {
    # A command can exist and still not run (a version manager's stand-in), so run it.
    "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1
}

has_venv() {
    # Debian ships the venv module without what it needs to install pip.
    "$1" -c 'import ensurepip, venv' >/dev/null 2>&1
}

if is_new_enough "$directory/bin/python" && "$directory/bin/python" -c 'import pip' >/dev/null 2>&1; then
    exit 0
fi

without_venv=
for candidate in ${PYTHON:-python3 python3.13 python3.12 python3.11}; do
    is_new_enough "$candidate" || continue
    if has_venv "$candidate"; then
        "$candidate" -m venv --clear "$directory"
        # That of Python's older versions takes half as long again; without the network it does as well.
        "$directory/bin/python" -m pip install -qq --disable-pip-version-check --no-compile --retries 0 \
            'pip>=26' 2>/dev/null || true
        exit
    fi
    [ -n "$without_venv" ] || without_venv=$candidate
done

if [ -n "$without_venv" ]; then
    version=$("$without_venv" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
    echo "$without_venv (Python $version) has no venv module, which $directory needs." >&2
    echo "Install it: apt install python3-venv   (or python$version-venv for a Python beside Debian's own)" >&2
elif [ -n "${PYTHON:-}" ]; then
    echo "PYTHON=$PYTHON is no Python 3.11 or newer. Name one that is, or leave PYTHON unset to look for one." >&2
else
    echo "No Python 3.11 or newer found: tried python3, python3.13, python3.12, python3.11." >&2
    echo "Install one (Debian 12, Ubuntu 24.04 or newer: apt install python3 python3-venv), or name it: make PYTHON=/path/to/python" >&2
fi
exit 1
