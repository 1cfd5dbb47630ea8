"""The scripts as the server gets them: put together from parts, compiled, with the right flags."""

import re
import tomllib
from fnmatch import fnmatch
from pathlib import Path

import pytest
import redis as redis_py

from kiqbridge.store.scripts import FOLDER, assemble, load

ROOT = Path(__file__).parents[3]
FOLDERS = [FOLDER, *sorted(FOLDER.parents[1].glob("features/*/scripts"))]
SCRIPTS = [path for folder in FOLDERS for path in sorted(folder.glob("*.lua"))]
ALL_PARTS = [path for folder in FOLDERS for path in sorted(folder.glob("parts/*.lua"))]

ALLOW_OOM = "#!lua flags=allow-oom"
OTHER_FLAGS = {
    # With memory full these are refused as a whole before anything is written.
    "deploy_mark": "#!lua",
    "move_put": "#!lua",
    "flush_metrics": "#!lua",
    "limits": "#!lua flags=no-writes,allow-oom",
    "note_done": "#!lua",
    "push": "#!lua",
    "push_flow": "#!lua",
    "push_tick": "#!lua",
    "place": "#!lua",
    "publish_manifest": "#!lua",
    "record_missed": "#!lua",
    "restore_chunk": "#!lua",
    "restore_state": "#!lua",
    "save_schedule": "#!lua",
    "due": "#!lua flags=no-writes,allow-oom",
    "flow_scan": "#!lua flags=no-writes,allow-oom",
    "read_queue": "#!lua flags=no-writes,allow-oom",
    "read_set": "#!lua flags=no-writes,allow-oom",
    "seek": "#!lua flags=no-writes,allow-oom",
}
CALLED = re.compile(r"(?<![\w.:])(\w+)\(")
DEFINED = re.compile(r"local function (\w+)\(")
PARAMETERS = re.compile(r"function \w*\(([^)]*)\)")
OF_LUA = {
    *("error", "function", "ipairs", "pairs", "pcall", "tonumber", "tostring", "type", "unpack"),
    *("if", "and", "or"),
}


each_script = pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)


def loaded(path):
    return load(path.stem, path.parent)


def direct(path):
    """The parts that a file names."""
    named = re.findall(r"^-- include (?:\w+\.)?(\w+)$", path.read_text("utf-8"), re.MULTILINE)
    return [part for name in named for part in ALL_PARTS if part.stem == name]


def includes(path):
    """The parts that a file names, those of its parts included."""
    named = set(direct(path))
    return named.union(*(includes(part) for part in named))


def code_of(text):
    """A text without comments and without what stands in quotes."""
    return re.sub(r"'[^'\n]*'", "''", re.sub(r"--.*", "", text))


@pytest.fixture(
    params=["redis_url", pytest.param("debian_redis_url", marks=pytest.mark.redis_server)]
)
def server_url(request):
    """The server of this run, and Debian's redis-server."""
    return request.getfixturevalue(request.param)


@each_script
def test_a_server_compiles_a_script_and_knows_it_by_the_hash_that_we_call(server_url, path):
    script = loaded(path)

    with redis_py.Redis.from_url(server_url) as connection:
        assert connection.script_load(script.text) == script.sha


@each_script
def test_a_script_is_the_same_each_time_and_has_no_include_left(path):
    script = loaded(path)

    assert loaded(path) == script
    assert "-- include" not in script.text


@each_script
def test_only_what_drains_a_full_server_is_allowed_there(path):
    first_line = loaded(path).text.partition("\n")[0]

    assert first_line == OTHER_FLAGS.get(path.stem, ALLOW_OOM)


@each_script
def test_a_script_defines_all_that_it_calls(path):
    code = code_of(loaded(path).text)

    given = {name for listed in PARAMETERS.findall(code) for name in re.findall(r"\w+", listed)}
    unknown = set(CALLED.findall(code)) - set(DEFINED.findall(code)) - given - OF_LUA

    assert unknown == set()


@each_script
def test_a_script_uses_each_part_that_it_includes(path):
    own = code_of(path.read_text("utf-8"))

    idle = [
        part
        for part in direct(path)
        if (defined := DEFINED.findall(part.read_text("utf-8")))
        and not any(f"{function}(" in own for function in defined)
    ]

    assert idle == []


# Each effect, each guard of a push and each ask before a job begins is a part of its own; features apply effects, too.
BROUGHT = [
    each
    for each in ALL_PARTS
    if each.stem.startswith(("effect_", "push_by_", "begin", "apply_effects"))
]


@pytest.mark.parametrize(
    "part", [each for each in ALL_PARTS if each not in BROUGHT], ids=lambda part: part.stem
)
def test_a_part_serves_at_least_two_scripts_or_parts_that_are_put_into_some(part):
    users = [path for path in (*SCRIPTS, *BROUGHT) if part in includes(path)]

    assert len(users) >= 2


@pytest.mark.parametrize("part", ALL_PARTS, ids=lambda part: part.stem)
def test_a_part_has_no_flags_and_is_written_nowhere_else(part):
    text = part.read_text("utf-8")
    code = "\n".join(line for line in text.splitlines() if not line.startswith("--"))

    assert "#!" not in text
    assert [path for path in SCRIPTS if code in path.read_text("utf-8")] == []


def test_an_include_of_what_does_not_exist_is_refused():
    with pytest.raises(FileNotFoundError):
        assemble("#!lua\n-- include no_such_part\nreturn 1\n")


def test_a_comment_that_speaks_of_an_include_is_left_alone():
    text = "#!lua\n-- see the line -- include fence\nreturn 1  -- include fence\n"

    assert assemble(text) == text


@each_script
def test_a_script_says_its_keys_its_answer_and_what_a_repetition_does(path):
    comment = loaded(path).text.partition("\n")[2]

    for word in ("-- KEYS ", "-- ARGV ", "-- Returns ", "-- Repeated", "-- See "):
        assert re.search(f"^{word}", comment, re.MULTILINE), word


def test_the_package_ships_every_file_that_is_not_python():
    table = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    shipped = table["tool"]["setuptools"]["package-data"]["kiqbridge"]
    package = ROOT / "worker" / "kiqbridge"
    files = [
        path.relative_to(package)
        for path in package.rglob("*")
        if path.is_file() and path.suffix not in (".py", ".pyc")
    ]

    # Not fnmatch alone: its star crosses folders, that of setuptools does not.
    missing = [
        path
        for path in files
        if not any(
            fnmatch(str(path), glob) and len(path.parts) == glob.count("/") + 1 for glob in shipped
        )
    ]

    assert missing == []
    assert Path("store/scripts/parts/fence.lua") in files
