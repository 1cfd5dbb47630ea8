#!/bin/sh
# Finds a Python for the Makefile.
#
#   python.sh find NAME   prints the path of that Python, if it runs and is 3.11 or newer; else status 1
#   python.sh venv NAME   prints the virtual environment for it: .venv, or one of its own, such as
#                         .venv-3.13, where .venv is of another version
#
# NAME is a command, a path, or a version such as 3.13. What is not on PATH is looked for where pyenv
# and uv keep their Pythons.
set -eu

is_new_enough() {
    # A command can exist and still not run (a version manager's stand-in), so run it.
    "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1
}

version_of() {
    "$1" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null
}

find_python() {
    case $1 in
        3.*) name=python$1 ;;
        *) name=$1 ;;
    esac
    if is_new_enough "$name"; then
        command -v "$name"
        return
    fi
    case $name in
        python3.*) version=${name#python} ;;
        *) return 1 ;;
    esac
    # The newest one last. Free-threaded ones (3.13.0t) are not what is supported.
    for candidate in "${PYENV_ROOT:-${HOME:-}/.pyenv}/versions/$version".*[0-9]/bin/python \
        "${XDG_DATA_HOME:-${HOME:-}/.local/share}/uv/python/cpython-$version".*/bin/python3; do
        if is_new_enough "$candidate"; then found=$candidate; fi
    done
    [ -n "${found:-}" ] && echo "$found"
}

find_venv() {
    python=$(find_python "$1") || return 1
    version=$(version_of "$python")
    if [ -e .venv/bin/python ] && [ "$(version_of .venv/bin/python)" != "$version" ]; then
        echo ".venv-$version"
    else
        echo .venv
    fi
}

case $1 in
    find) find_python "$2" ;;
    venv) find_venv "$2" ;;
    *)
        echo "python.sh: $1 is not known: find NAME or venv NAME" >&2
        exit 2
        ;;
esac
