"""The files of a public project say what the Makefile and pyproject.toml say."""

import re
import shlex
import shutil
import subprocess
import tomllib
from itertools import pairwise

import pytest
import yaml
from support.documents import ALL_SETTINGS, ROOT

from kiqbridge.commands.cli import build_parser
from kiqbridge.config.config import SETTINGS

MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PYTHONS = re.findall(r":: (3\.\d+)$", "\n".join(PROJECT["project"]["classifiers"]), re.MULTILINE)


def read_yaml(name):
    return yaml.safe_load((ROOT / name).read_text(encoding="utf-8"))


def recipe(target):
    """The commands of a target, with the Python of the environment that it makes."""
    [found] = re.findall(rf"^{target}:.*\n((?:\t.*\n)+)", MAKEFILE, re.MULTILINE)
    return [line.lstrip("\t@") for line in found.replace("$(PY)", ".venv/bin/python").splitlines()]


def steps(workflow, job, key):
    return [step[key] for step in workflow["jobs"][job]["steps"] if key in step]


# The workflows


def test_each_supported_python_is_named_everywhere():
    matrix = read_yaml(".github/workflows/ci.yml")["jobs"]["unit"]["strategy"]["matrix"]

    assert (
        matrix["python"]
        == PYTHONS
        == re.findall(r"^PYTHONS \?= (.*)", MAKEFILE, re.MULTILINE)[0].split()
    )
    assert PROJECT["project"]["requires-python"] == f">={PYTHONS[0]}"


def test_ci_calls_the_same_script_and_the_same_unit_tests_as_everybody():
    workflow = read_yaml(".github/workflows/ci.yml")
    script = (ROOT / ".ci/run").read_text(encoding="utf-8")

    assert steps(workflow, "all", "run")[-1] == ".ci/run"
    [unit] = steps(workflow, "unit", "run")
    assert unit == unit_tests_of(script)
    assert "unit" in PROJECT["project"]["optional-dependencies"]


def unit_tests_of(script):
    """What .ci/run does on its second Python, on one Python of the matrix."""
    [rest] = re.findall(r'make test-pythons PYTHONS="\$other" (.*?) >', script)
    return f"make test PYTHON=${{{{ matrix.python }}}} {rest}"


def test_a_tag_of_the_version_is_built_by_make_dist_and_uploaded_without_a_token():
    workflow = read_yaml(".github/workflows/release.yml")
    publish = workflow["jobs"]["publish"]

    # YAML 1.1 reads the key `on` as true.
    assert workflow[True] == {"push": {"tags": ["v*"]}}
    compare, build = steps(workflow, "build", "run")
    done = {
        version: subprocess.run(
            ["sh", "-c", compare], cwd=ROOT, env={"GITHUB_REF_NAME": f"v{version}"}, check=False
        ).returncode
        for version in (PROJECT["project"]["version"], "99.0.0")
    }
    assert list(done.values()) == [0, 1]
    assert build.startswith("make dist ") and recipe("dist")
    assert build.removeprefix("make dist PYTHON=") in PYTHONS
    assert publish["needs"] == "build" and publish["environment"] == "release"
    assert publish["permissions"] == {"id-token": "write"}
    assert steps(workflow, "publish", "uses")[-1] == "pypa/gh-action-pypi-publish@release/v1"


@pytest.mark.parametrize("name", ["ci", "release"])
def test_a_workflow_has_few_rights_no_secret_and_actions_of_a_major_version(name):
    workflow = read_yaml(f".github/workflows/{name}.yml")
    used = [use for job in workflow["jobs"] for use in steps(workflow, job, "uses")]

    assert workflow["permissions"] == {"contents": "read"}
    assert "secrets." not in (ROOT / f".github/workflows/{name}.yml").read_text(encoding="utf-8")
    assert [use for use in used if not re.search(r"@(release/)?v\d+$", use)] == []


# What stands between an editor and a commit


def test_the_hooks_are_commands_of_make_check():
    [local] = read_yaml(".pre-commit-config.yaml")["repos"]
    hooks = {hook["id"]: hook for hook in local["hooks"]}
    scripts = hooks.pop("shellcheck")
    checked = [line for line in recipe("check") if re.search(r"-m (ruff|mypy)", line)]

    assert local["repo"] == "local"
    assert [hook["entry"] for hook in hooks.values()] == checked
    assert all(hook["pass_filenames"] is False for hook in hooks.values())
    assert (scripts["entry"], "shellcheck $(SHELL_SCRIPTS);" in MAKEFILE) == ("shellcheck", True)
    assert files_that_match(scripts["files"]) == shell_scripts()


def shell_scripts():
    [names] = re.findall(
        r"^SHELL_SCRIPTS := (.*) \$\(wildcard infra/\*\.sh\)$", MAKEFILE, re.MULTILINE
    )
    return {*names.split(), *(f"infra/{path.name}" for path in ROOT.glob("infra/*.sh"))}


def files_that_match(pattern):
    paths = [path for folder in (".ci", ".make", "infra") for path in ROOT.glob(f"{folder}/**/*")]
    names = {path.relative_to(ROOT).as_posix() for path in paths if path.is_file()}
    return {name for name in names if re.search(pattern, name)}


def test_editors_write_what_the_formatter_and_make_want():
    text = (ROOT / ".editorconfig").read_text(encoding="utf-8")
    sections = {
        name: dict(re.findall(r"^(\w+) = (\S+)$", body, re.MULTILINE))
        for name, body in re.findall(r"^\[(.+)\]\n((?:\w.*\n)+)", text, re.MULTILINE)
    }

    assert text.startswith("root = true\n")
    assert sections["*.py"]["max_line_length"] == str(PROJECT["tool"]["ruff"]["line-length"])
    assert sections["{*.py,*.sh,.ci/run}"]["indent_size"] == "4"
    assert sections["Makefile"]["indent_style"] == "tab"
    assert (sections["*"]["end_of_line"], sections["*"]["insert_final_newline"]) == ("lf", "true")
    written = [ROOT / "Makefile", ROOT / ".ci/run", *(ROOT / "worker").rglob("*.py")]
    read = {path: path.read_bytes() for path in [*written, *(ROOT / "docs").rglob("*.md")]}
    assert len(read) > 500
    assert [
        path
        for path, content in read.items()
        if b"\r" in content
        or (content and content[-1:] != b"\n")
        or re.search(rb"[ \t]\n", content)
    ] == []


# For who begins, and who finds a fault


def test_compose_starts_valkey_a_worker_and_the_page_in_25_lines():
    lines = (ROOT / "compose.yaml").read_text(encoding="utf-8").splitlines()
    services = read_yaml("compose.yaml")["services"]
    known = {name for setting in ALL_SETTINGS for name in setting.env}
    [timeout] = [setting.default for setting in SETTINGS if setting.name == "timeout_s"]

    assert len(lines) <= 25
    assert services.keys() == {"valkey", "worker", "page"}
    for service in (services["worker"], services["page"]):
        build, environment = service["build"], service["environment"]
        assert service["depends_on"] == ["valkey"]
        assert environment.keys() <= known
        assert environment["REDIS_URL"].startswith("redis://valkey:")
        dockerfile = (ROOT / build["dockerfile"]).read_text(encoding="utf-8")
        extras = build["args"]["EXTRAS"].split(",")
        [own] = re.findall(r"^ARG EXTRAS=(.*)$", dockerfile, re.MULTILINE)
        assert {*own.split(","), "web"} == {*extras}
        assert {*extras} <= PROJECT["project"]["optional-dependencies"].keys()
    assert int(services["worker"]["stop_grace_period"].removesuffix("s")) > timeout
    assert "command" not in services["worker"], "the image has one"


def test_the_page_of_compose_needs_sign_in_and_is_reached_from_this_machine_only():
    services = read_yaml("compose.yaml")["services"]
    page = services["page"]
    program, *words = shlex.split(page["command"])
    options = build_parser(words).parse_args(words)
    port = dict(pairwise(words))["--port"]

    assert (program, words[0]) == ("kiqbridge", "web")
    assert options is not None
    assert page["ports"] == [f"127.0.0.1:{port}:{port}"]
    assert services["valkey"]["ports"] == ["127.0.0.1:6379:6379"]
    assert page["environment"]["KIQBRIDGE_WEB_USERS"] is None, "the shell's"


def test_compose_reads_it_where_it_is_installed():
    docker = shutil.which("docker")
    asked = [docker, "compose", "version"]
    if docker and subprocess.run(asked, capture_output=True, check=False).returncode == 0:
        subprocess.run([docker, "compose", "config", "--quiet"], cwd=ROOT, check=True)


def test_the_security_policy_is_about_this_version():
    text = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
    minor = PROJECT["project"]["version"].rpartition(".")[0]

    assert f"| {minor} | yes |" in text
    assert f"Python {PYTHONS[0]} or newer" in text
    assert "docs/reference/security.md" in text
