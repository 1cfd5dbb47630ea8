#!/usr/bin/env bash
# Deploys what `make build` has built. The first time SAM asks for everything; the answers stay in
# samconfig.local.toml, which git ignores, and are used from then on. An address given as RedisUrl is
# not among them: CloudFormation keeps it, and Enter leaves it as it is (guided.py). Arguments go to
# `sam deploy`; --guided asks again. ROLLBACK=1 says that an older version of the schedules is deployed on purpose.
set -euo pipefail

sam=${SAM_COMMAND:-.venv-sam/bin/sam}
architecture=${LAMBDA_ARCHITECTURE:-arm64}
python_version=${LAMBDA_PYTHON:-3.13}
answers=$PWD/samconfig.local.toml
guided=()

[ -f "$answers" ] || cp samconfig.toml "$answers"
if ! grep -q '^parameter_overrides' "$answers"; then
    guided=(--guided)
elif ! grep -Eq "[\" ]Architecture=.{0,2}$architecture" "$answers"; then
    echo "The build is for $architecture, and samconfig.local.toml deploys another Architecture." >&2
    echo "Build for that one (make deploy LAMBDA_ARCHITECTURE=…), or change the answer there." >&2
    exit 2
elif grep -Eq '[" ]Runtime=' "$answers" && ! grep -Eq "[\" ]Runtime=.{0,2}python$python_version" "$answers"; then
    echo "The build is for Python $python_version, and samconfig.local.toml deploys another Runtime." >&2
    echo "Build for that one (make deploy LAMBDA_PYTHON=…), or change the answer there." >&2
    exit 2
fi
export SAM_CLI_TELEMETRY=0
python=$(dirname "$sam")/python
if [ ! -x "$python" ]; then
    exec "$sam" deploy --config-file "$answers" "${guided[@]}" "$@"
fi
"$python" "$(dirname "$0")/guided.py" deploy --config-file "$answers" "${guided[@]}" "$@"
# The function publishes the schedules of the template at its next event; here it does so now, and says what it did.
"$python" "$(dirname "$0")/publish.py" "$answers"
