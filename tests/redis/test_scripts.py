"""The scripts as the server gets them: put together from parts, compiled, with the right flags."""

import re
import tomllib
from fnmatch import fnmatch
from pathlib import Path

import pytest
import redis as redis_py

from kiqbridge.store import scripts
from kiqbridge.store.scripts import FOLDER, PARTS, assemble, load

ROOT = Path(__file__).parents[2]
NAMES = sorted(path.stem for path in FOLDER.glob("*.lua"))
PART_NAMES = sorted(path.stem for path in PARTS.glob("*.lua"))

ALLOW_OOM = "#!lua flags=allow-oom"
OTHER_FLAGS = {
    # With memory full these are refused as a whole before anything is written.
    "deploy_mark": "#!lua",
    "move_put": "#!lua",
    "flush_metrics": "#!lua",
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
}
CALLED = re.compile(r"(?<![\w.:])(\w+)\(")
DEFINED = re.compile(r"local function (\w+)\(")
PARAMETERS = re.compile(r"function \w*\(([^)]*)\)")
OF_LUA = {
    *("error", "function", "ipairs", "pairs", "pcall", "tonumber", "tostring", "type", "unpack"),
    *("if", "and", "or"),
}


def text_of(folder, name):
    return (folder / f"{name}.lua").read_text("utf-8")


def includes(text):
    """The parts that a text names, those of its parts included."""
    named = set(re.findall(r"^-- include (\w+)$", text, re.MULTILINE))
    return named.union(*(includes(text_of(PARTS, name)) for name in named))


def code_of(text):
    """A text without comments and without what stands in quotes."""
    return re.sub(r"'[^'\n]*'", "''", re.sub(r"--.*", "", text))


@pytest.fixture(
    params=["redis_url", pytest.param("debian_redis_url", marks=pytest.mark.redis_server)]
)
def server_url(request):
    """The server of this run, and Debian's redis-server."""
    return request.getfixturevalue(request.param)


@pytest.mark.parametrize("name", NAMES)
def test_a_server_compiles_a_script_and_knows_it_by_the_hash_that_we_call(server_url, name):
    script = load(name)

    with redis_py.Redis.from_url(server_url) as connection:
        assert connection.script_load(script.text) == script.sha


@pytest.mark.parametrize("name", NAMES)
def test_a_script_is_the_same_each_time_and_has_no_include_left(name):
    script = load(name)

    assert load(name) == script
    assert "-- include" not in script.text


@pytest.mark.parametrize("name", NAMES)
def test_only_what_drains_a_full_server_is_allowed_there(name):
    first_line = load(name).text.partition("\n")[0]

    assert first_line == OTHER_FLAGS.get(name, ALLOW_OOM)


@pytest.mark.parametrize("name", NAMES)
def test_a_script_defines_all_that_it_calls(name):
    code = code_of(load(name).text)

    given = {name for listed in PARAMETERS.findall(code) for name in re.findall(r"\w+", listed)}
    unknown = set(CALLED.findall(code)) - set(DEFINED.findall(code)) - given - OF_LUA

    assert unknown == set()


@pytest.mark.parametrize("name", NAMES)
def test_a_script_uses_each_part_that_it_includes(name):
    own = code_of(text_of(FOLDER, name))
    direct = re.findall(r"^-- include (\w+)$", text_of(FOLDER, name), re.MULTILINE)

    idle = [
        part
        for part in direct
        if (defined := DEFINED.findall(text_of(PARTS, part)))
        and not any(f"{function}(" in own for function in defined)
    ]

    assert idle == []


# Each effect is a part of its own, whoever has effects.
@pytest.mark.parametrize("part", [each for each in PART_NAMES if not each.startswith("effect_")])
def test_a_part_serves_at_least_two_scripts(part):
    users = [name for name in NAMES if part in includes(text_of(FOLDER, name))]

    assert len(users) >= 2


@pytest.mark.parametrize("part", PART_NAMES)
def test_a_part_has_no_flags_and_is_written_nowhere_else(part):
    text = text_of(PARTS, part)
    code = "\n".join(line for line in text.splitlines() if not line.startswith("--"))

    assert "#!" not in text
    assert [name for name in NAMES if code in text_of(FOLDER, name)] == []


def test_an_include_of_what_does_not_exist_is_refused():
    with pytest.raises(FileNotFoundError):
        assemble("#!lua\n-- include no_such_part\nreturn 1\n")


def test_a_comment_that_speaks_of_an_include_is_left_alone():
    text = "#!lua\n-- see the line -- include fence\nreturn 1  -- include fence\n"

    assert assemble(text) == text


@pytest.mark.parametrize("name", NAMES)
def test_a_script_says_its_keys_its_answer_and_what_a_repetition_does(name):
    comment = scripts.load(name).text.partition("\n")[2]

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
