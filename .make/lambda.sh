#!/bin/sh
# Fills ARTIFACTS_DIR as Lambda wants it. The Makefile's build-… targets call it, and `sam build` those.
#
#   lambda.sh layer               the package of this checkout and what it needs, under python/
#   lambda.sh layer REQUIREMENTS  what a file names, the package among it, in a repository of its own
#   lambda.sh function FOLDER     a function's own files, and what its requirements.txt names; the whole package if
#                                 it serves the page, which is in no layer
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

# What no function loads, nor what a function may import to declare and enqueue jobs: commands with what only they use,
# the worker's rooms of the engine, tests, and dateutil's copy of the time zones, of which the system has its own.
# tests/features/test_layer.py compares these lists with what is loaded.
IN_NO_FUNCTION='
    kiqbridge/commands kiqbridge/compat kiqbridge/dev kiqbridge/testing kiqbridge_pytest
    kiqbridge/engine/[!_]*.py kiqbridge/engine/host kiqbridge/engine/outbox
    kiqbridge/engine/perform
    kiqbridge/engine/inflight/beat.py kiqbridge/engine/inflight/chunk.py kiqbridge/engine/inflight/claims.py
    kiqbridge/engine/inflight/lease.py kiqbridge/engine/inflight/outage.py
    kiqbridge/engine/settle/bookkeeping.py kiqbridge/engine/settle/metrics.py
    kiqbridge/engine/settle/notifications.py kiqbridge/engine/settle/retry.py
    kiqbridge/engine/settle/settling.py
    kiqbridge/features/batches/cancelled.py kiqbridge/features/batches/ends.py kiqbridge/features/batches/gone.py
    kiqbridge/features/check kiqbridge/features/contract kiqbridge/features/dead_letters
    kiqbridge/features/ecs kiqbridge/features/for_ruby kiqbridge/features/imports/[!_fs]* kiqbridge/features/neighbours
    kiqbridge/features/gone_jobs kiqbridge/features/transfer
    kiqbridge/features/process_pool/[!_]* kiqbridge/features/reservations/[!_]*
    kiqbridge/features/shell_command kiqbridge/features/spill/replay.py kiqbridge/features/suspects kiqbridge/features/systemd
    kiqbridge/features/step_functions/[!_r]* kiqbridge/features/step_functions/reporter.py
    kiqbridge/features/*/*command.py kiqbridge/features/limiters/over_limit.py kiqbridge/features/results/keeping.py
    kiqbridge/features/unique/locks.py
    kiqbridge/features/*/doctor.py kiqbridge/features/batches/signatures.py kiqbridge/features/done/keeper.py
    kiqbridge/features/lint/heat_map.py kiqbridge/store/tracking_connection.py kiqbridge/store/wake_connection.py
    croniter/tests dateutil/zoneinfo/dateutil-zoneinfo.tar.gz
'
# What only the page loads: its function has a package of its own.
IN_NO_LAYER='
    kiqbridge/web kiqbridge/features/alerts kiqbridge/features/doctor kiqbridge/features/telemetry
    kiqbridge/features/batches/overview.py kiqbridge/features/lint kiqbridge/features/*/page.py kiqbridge/features/*/*.html
'
# Of Powertools the layer has what logs, measures and traces, unless its requirements name it.
NOT_OF_POWERTOOLS='
    aws_lambda_powertools/event_handler
    aws_lambda_powertools/utilities/[!_jst]* aws_lambda_powertools/utilities/streaming
'

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
    if [ -e constraints.txt ]; then
        set -- --constraint constraints.txt "$@"
        # Of what builds the package, too: its version stands in WHEEL. Older versions of pip read the first.
        export PIP_CONSTRAINT="$PWD/constraints.txt" PIP_BUILD_CONSTRAINT="$PWD/constraints.txt"
    fi
    "$BUILD_PYTHON" -m pip install --quiet --disable-pip-version-check --no-compile \
        --target "$folder" --platform "$platform" --implementation cp \
        --python-version "$LAMBDA_PYTHON" --only-binary=:all: "$@"
    # Commands and notes that name folders of this machine, each time others: the first line of a command is
    # the path of BUILD_PYTHON, and RECORD keeps a hash of it.
    rm -rf "${folder:?}/bin"
    rm -f "$folder"/*.dist-info/direct_url.json
    sed -i -e '/direct_url\.json/d' -e '\,^\(\.\./\)*bin/,d' "$folder"/*.dist-info/RECORD
    leave_out "$folder" "$IN_NO_FUNCTION"
}

# Remove parts of what was installed: `leave_out FOLDER 'PATTERN…'`.
leave_out() (
    cd "$1"
    records=$(for part in $2; do
        rm -rf "$part"
        printf '\\|^%s[/,]|d\n' "$part"
    done)
    sed -i -e "$records" ./*.dist-info/RECORD
)

# Where pip finds the package: a copy of this checkout, since setuptools keeps modules that are gone in a folder build/
# beside the sources; or as the layer's requirements name it.
find_package() {
    if [ -e worker/kiqbridge ]; then
        package=$(mktemp -d)
        trap 'rm -rf "$package"' EXIT
        mkdir "$package/worker"
        cp pyproject.toml README.md LICENSE "$package"
        cp -R worker/kiqbridge "$package/worker"
    else
        package=$(grep '^kiqbridge' lambdas/requirements.txt)
    fi
}

build_layer() {
    folder=$ARTIFACTS_DIR/python
    rm -rf "$folder"
    if [ -n "$1" ]; then
        install "$folder" --requirement "$1"
    else
        find_package
        install "$folder" "${package}[lambda]"
    fi
    leave_out "$folder" "$IN_NO_LAYER"
    if [ -z "$1" ] || ! grep -qi '^aws[-_.]lambda[-_.]powertools' "$1"; then
        leave_out "$folder" "$NOT_OF_POWERTOOLS"
    fi
    add_manifest "$folder/kiqbridge/schedule/manifest.json"
    finish /opt
}

# The schedules of the template, which the function publishes, so that the fleet notices a tick that is missing.
add_manifest() {
    [ -e template.yaml ] || return 0
    if ! "${MAPPINGS_PYTHON:-false}" -c 'import kiqbridge.features.publishing.manifest' 2>/dev/null; then
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
    if grep -q 'kiqbridge\.web' "$1"/*.py; then
        find_package
        install "$ARTIFACTS_DIR" --no-deps "$package"
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
        if ! "${MAPPINGS_PYTHON:?}" -m kiqbridge.features.mappings.check "$file" --json "$output"; then
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
    # In one process and one order: what Python has met before decides about bytes, such as marks for texts seen twice.
    PYTHONHASHSEED=0 "$compiler" -m compileall -q --invalidation-mode unchecked-hash \
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
