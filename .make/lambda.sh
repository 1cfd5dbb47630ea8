#!/bin/sh
# Fills ARTIFACTS_DIR as Lambda wants it. The Makefile's build-… targets call it, and `sam build` those.
#
#   lambda.sh layer               the package of this checkout and what it needs, under python/
#   lambda.sh layer REQUIREMENTS  what a file names, the package among it, in a repository of its own
#   lambda.sh function FOLDER     a function's own files, and what its requirements.txt names
#
# From the environment:
#   LAMBDA_ARCHITECTURE  arm64 or x86_64
#   LAMBDA_PYTHON        version of Lambda's Python, e.g. 3.13
#   BUILD_PYTHON         a Python with pip; any version, since nothing that is built here runs here
#   MAPPINGS_PYTHON      a Python with this package: for the manifest of schedules, and if there are mappings
#
# Versions are those of constraints.txt, if there is one; pip looks for wheels also where PIP_FIND_LINKS says.
#
# Everything is compiled to bytecode: Lambda's folders are read-only, so without it every cold start
# compiles again. `unchecked-hash`, because Lambda's files get new times when they are unpacked.
# Only a Python of Lambda's own version can write bytecode that Lambda's Python reads. The same
# sources give the same bytes, so that an unchanged layer is not deployed anew.
set -eu

what=$1
: "${ARTIFACTS_DIR:?sam build says where to}" "${LAMBDA_PYTHON:?}" "${BUILD_PYTHON:?}"

# Install packages for Lambda, not for this machine: `install FOLDER WHAT…`.
install() {
    folder=$1
    shift
    case ${LAMBDA_ARCHITECTURE:?} in
        arm64) platform=manylinux2014_aarch64 ;;
        x86_64) platform=manylinux2014_x86_64 ;;
        *)
            echo "LAMBDA_ARCHITECTURE=$LAMBDA_ARCHITECTURE: write arm64 or x86_64." >&2
            exit 2
            ;;
    esac
    if [ -e constraints.txt ]; then set -- --constraint constraints.txt "$@"; fi
    "$BUILD_PYTHON" -m pip install --quiet --disable-pip-version-check --no-compile \
        --target "$folder" --platform "$platform" --implementation cp \
        --python-version "$LAMBDA_PYTHON" --only-binary=:all: "$@"
    # Commands and notes that name folders of this machine, each time others: the first line of a command is
    # the path of BUILD_PYTHON, and RECORD keeps a hash of it.
    rm -rf "${folder:?}/bin"
    rm -f "$folder"/*.dist-info/direct_url.json
    # What no function needs: the command line with what only its commands use, fixtures for tests, and tests.
    for part in kiqbridge/commands kiqbridge/dev/scaffold kiqbridge/dev kiqbridge/client/contract kiqbridge/compat kiqbridge/testing kiqbridge_pytest croniter/tests; do
        rm -rf "${folder:?}/$part"
        sed -i -e "\\,^$part/,d" "$folder"/*.dist-info/RECORD
    done
    sed -i -e '/direct_url\.json/d' -e '\,^\(\.\./\)*bin/,d' "$folder"/*.dist-info/RECORD
}

build_layer() {
    folder=$ARTIFACTS_DIR/python
    rm -rf "$folder"
    if [ -n "$1" ]; then
        install "$folder" --requirement "$1"
    else
        # A copy: setuptools keeps modules that are gone in a folder build/ beside the sources.
        source=$(mktemp -d)
        trap 'rm -rf "$source"' EXIT
        mkdir "$source/worker"
        cp pyproject.toml README.md LICENSE "$source"
        cp -R worker/kiqbridge "$source/worker"
        install "$folder" "${source}[lambda]"
    fi
    add_manifest "$folder/kiqbridge/schedule/manifest.json"
    finish /opt
}

# The schedules of the template, which the function publishes, so that the fleet notices a tick that is missing.
add_manifest() {
    [ -e template.yaml ] || return 0
    if ! "${MAPPINGS_PYTHON:-false}" -c 'import kiqbridge.schedule.manifest' 2>/dev/null; then
        cat >&2 <<END
******************************************************************************
NO MANIFEST in layer: MAPPINGS_PYTHON is no Python that has this package, so that
nobody notices a tick that does not come. Run make up once, and build with make build.
******************************************************************************
END
        return 0
    fi
    if ! "$MAPPINGS_PYTHON" -m kiqbridge schedule publish --template template.yaml \
        --answers samconfig.local.toml --output "$1"; then
        echo "template.yaml: there is no manifest of its schedules; correct it (make check names its faults)" >&2
        exit 1
    fi
}

build_function() {
    cp -R "$1/." "$ARTIFACTS_DIR"
    if [ -e "$1/requirements.txt" ]; then
        install "$ARTIFACTS_DIR" --requirement "$1/requirements.txt"
        rm "$ARTIFACTS_DIR/requirements.txt"
    fi
    translate_mappings "$1"
    finish /var/task
}

# The function reads JSON, so that no cold start waits for PyYAML; a file with a fault is not deployed.
translate_mappings() {
    for file in "$1"/mappings*.yml; do
        [ -e "$file" ] || continue
        rm "$ARTIFACTS_DIR/${file##*/}"
        # Comments alone need no Python that has the package.
        grep -qvE '^[[:space:]]*(#|$)' "$file" || continue
        output=$ARTIFACTS_DIR/$(basename "$file" .yml).json
        if ! "${MAPPINGS_PYTHON:?}" -m kiqbridge.aws.mapping.check "$file" --json "$output"; then
            echo "$file: was not translated for Lambda; correct it, or run make up if kiqbridge is not installed" >&2
            exit 1
        fi
    done
}

# Compile what is in ARTIFACTS_DIR; tracebacks then name the files as they lie in Lambda, under $1.
finish() {
    find "$ARTIFACTS_DIR" -name __pycache__ -prune -exec rm -rf {} +
    # Lambda reads the files as another user.
    chmod -R a+rX "$ARTIFACTS_DIR"
    if ! compiler=$(find_compiler); then
        cat >&2 <<END
******************************************************************************
NO BYTECODE in $what: there is no Python $LAMBDA_PYTHON here to compile it.
It works, but each cold start takes about 0.3 s longer. Install Python $LAMBDA_PYTHON
(Debian 13: apt install python3; pyenv install $LAMBDA_PYTHON) and build again.
******************************************************************************
END
        return
    fi
    "$compiler" -m compileall -q -j 0 --invalidation-mode unchecked-hash \
        -s "$ARTIFACTS_DIR" -p "$1" "$ARTIFACTS_DIR"
}

find_compiler() {
    versions=${PYENV_ROOT:-${HOME:-}/.pyenv}/versions
    for candidate in "$BUILD_PYTHON" "python$LAMBDA_PYTHON" "$versions/$LAMBDA_PYTHON".*/bin/python; do
        if is_lambda_python "$candidate"; then
            echo "$candidate"
            return
        fi
    done
    return 1
}

is_lambda_python() {
    # A command can exist and still not run (a version manager's stand-in), so run it. Bytecode of
    # alphas, betas and candidates differs.
    "$1" -c '
import sys
version = "%d.%d" % sys.version_info[:2]
sys.exit((sys.implementation.name, version, sys.version_info[3]) != ("cpython", sys.argv[1], "final"))
' "$LAMBDA_PYTHON" >/dev/null 2>&1
}

case $what in
    layer) build_layer "${2:-}" ;;
    function) build_function "$2" ;;
    *)
        echo "lambda.sh: $what is not known: layer [REQUIREMENTS] or function FOLDER" >&2
        exit 2
        ;;
esac
