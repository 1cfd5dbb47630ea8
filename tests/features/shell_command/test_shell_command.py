"""The job that runs commands: what it may run, what becomes of the command, and attempts to run something else."""

import asyncio
import json
import os
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
import uvloop
from support.jobs import own_declarations
from support.launched import launched
from support.waiting import wait_until

from kiqbridge.config.merge import merge
from kiqbridge.errors import ConfigError
from kiqbridge.features.shell_command import shell_job as shell_command
from kiqbridge.features.shell_command.shell_job import (
    AllowList,
    CommandFailed,
    CommandNotAllowed,
    command_environment,
    declare_shell_command,
    run_command,
)

LISTED = [
    "/usr/local/bin/backup.sh --full",
    "/opt/tools/*",
    "rsync -a /srv/* /backup/",
    "bin/rake *",
    "pg_dump shop | gzip > /var/backups/shop.gz",
    "report 'two words' ??",
    "=rm /tmp/*.log",
    "=ls a*",
]


@pytest.mark.parametrize(
    ("command", "argv"),
    [
        ("/usr/local/bin/backup.sh --full", ["/usr/local/bin/backup.sh", "--full"]),
        ("  /usr/local/bin/backup.sh --full ", ["/usr/local/bin/backup.sh", "--full"]),
        ("/opt/tools/clean", ["/opt/tools/clean"]),
        ("rsync -a /srv/shop /backup/", ["rsync", "-a", "/srv/shop", "/backup/"]),
        ("bin/rake reports:weekly", ["bin/rake", "reports:weekly"]),
        ("bin/rake", ["bin/rake"]),
        ("bin/rake a 'b c' /etc/d", ["bin/rake", "a", "b c", "/etc/d"]),
        (
            "pg_dump shop | gzip > /var/backups/shop.gz",
            ["/bin/sh", "-c", "pg_dump shop | gzip > /var/backups/shop.gz"],
        ),
        ("report 'two words' ab", ["report", "two words", "ab"]),
        ("rm /tmp/*.log", ["/bin/sh", "-c", "rm /tmp/*.log"]),
    ],
)
def test_what_is_listed_may_run(command, argv):
    assert list(AllowList(LISTED).argv_of(command)) == argv


@pytest.mark.parametrize(
    "command",
    [
        "/usr/local/bin/backup.sh",
        "/usr/local/bin/backup.sh --full --delete",
        "/usr/local/bin/backup.sh --full; rm -rf /",
        "/usr/local/bin/backup.sh --full && id",
        "/usr/local/bin/backup.sh --full | sh",
        "/usr/local/bin/backup.sh $(id)",
        "/usr/local/bin/backup.sh `id`",
        "/usr/local/bin/backup.sh --full\nid",
        "/usr/local/bin/backup.sh --full > /etc/passwd",
        "/usr/local/bin/../../../bin/sh",
        "/opt/tools/../../bin/sh",
        "/opt/tools/..",
        "/opt/tools/a/b",
        "/opt/tools/x id",
        "/opt/tools",
        "rsync -a /srv/../etc /backup/",
        "rsync -a /srv/.. /backup/",
        "rsync -a /srv/a/b /backup/",
        "rsync -a /srv/x /backup/ -e sh",
        "bin/rake a; id",
        "bin/rake $HOME",
        "bin/rake *",
        "bin/rake a & id",
        "PATH=/tmp bin/rake a",
        "bin/rake 'a",
        "./bin/rake a",
        "/bin/rake a",
        "pg_dump shop | gzip > /var/backups/other.gz",
        "pg_dump shop | gzip > /var/backups/shop.gz; id",
        "sh -c 'bin/rake a'",
        "env bin/rake a",
        "report 'two words' abc",
        "report two words ab",
        "rm /tmp/a.log",
        "ls ab",
        "=ls a*",
        "BIN/RAKE a",
        "",
        "   ",
        "bin/rake a\0b",
        None,
        5,
        ["bin/rake", "a"],
        {"command": "bin/rake a"},
    ],
)
def test_nothing_else_may(command):
    with pytest.raises(CommandNotAllowed):
        AllowList(LISTED).argv_of(command)


def test_quotes_hide_nothing_from_the_comparison():
    allowed = AllowList(["a b *"])

    assert list(allowed.argv_of("a 'b' '; id' \"x;y\"")) == ["a", "b", "; id", "x;y"]
    with pytest.raises(CommandNotAllowed):
        allowed.argv_of("'a b' c")


def test_the_environment_is_a_few_variables_and_those_that_are_named():
    environ = {"HOME": "/h", "REDIS_URL": "redis://:secret@x", "RAILS_ENV": "production", "A": "1"}

    assert command_environment(environ, ["RAILS_ENV", "MISSING"]) == {
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "HOME": "/h",
        "RAILS_ENV": "production",
    }


@pytest.mark.parametrize(
    ("value", "commands"),
    [
        ("a *,b", ("a *", "b")),
        ("a x,y\nb | c\n", ("a x,y", "b | c")),
        ("", ()),
        (["a, b", " c "], ("a, b", "c")),
    ],
)
def test_the_setting(value, commands):
    source = {"file": {"shell_commands": value}} if isinstance(value, list) else {}
    environ = {} if source else {"KIQBRIDGE_SHELL_COMMANDS": value}

    assert merge(environ=environ, flags={}, **source).shell_commands == commands


@pytest.mark.parametrize("value", ["*", "a,* b", "** x", "?"])
def test_an_entry_for_any_program_is_refused(value):
    with pytest.raises(ConfigError, match="names no program"):
        merge(environ={"KIQBRIDGE_SHELL_COMMANDS": value}, flags={})


@pytest.fixture
def working(redis_url):
    @contextmanager
    def working(*allowed, time_limit_s=60.0, environment=None):
        with own_declarations():
            declare_shell_command(
                allowed,
                environment=environment or command_environment(os.environ, []),
                time_limit_s=time_limit_s,
            )
            with launched(redis_url, concurrency="1", timeout_s="0.5") as launcher:
                yield launcher

    return working


def push(client, command, **options):
    return client.push({"class": "ShellCommand", "args": [command], "retry": 0, **options})


def dead_error(redis):
    wait_until(lambda: redis.zcard("dead") == 1, what="the job is dead")
    job = json.loads(redis.zrange("dead", 0, -1)[0])
    return job["error_class"], job["error_message"]


def test_a_command_runs_and_its_output_is_logged(working, client, redis, tmp_path, caplog):
    caplog.set_level("INFO")
    target = tmp_path / "done"
    with working("/bin/sh -c *"):
        push(client, f"/bin/sh -c 'echo hello; echo \"$SECRET\" >> {target}'")
        wait_until(lambda: redis.get("stat:processed") == b"1")

    assert target.read_text() == "\n"
    [record] = [each for each in caplog.records if each.name.endswith("shell_job")]
    assert record.getMessage() == "command /bin/sh ended with status 0; output: hello"


@pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop])
@pytest.mark.parametrize("program", ["/bin/echo", "/bin/not there"])
def test_each_end_of_its_pipe_is_closed_once(new_loop, program, monkeypatch):
    """Closed twice, it may be a connection that another thread has opened in between."""
    pipes, closed = [], []
    make, close = os.pipe, os.close
    monkeypatch.setattr(shell_command.os, "pipe", lambda: pipes.append(make()) or pipes[-1])
    monkeypatch.setattr(shell_command.os, "close", lambda end: closed.append(end) or close(end))
    with asyncio.Runner(loop_factory=new_loop) as runner, suppress(CommandFailed):
        runner.run(run_command([program, "hello"], environment={}, time_limit_s=60))

    assert [closed.count(end) for end in pipes[0]] == [1, 1]


def test_a_command_that_needs_a_shell_runs_as_it_is_listed(working, client, redis, tmp_path):
    command = f"echo a b | tr a-z A-Z > {tmp_path}/out"
    with working(command):
        push(client, command)
        wait_until(lambda: redis.get("stat:processed") == b"1")

    assert (tmp_path / "out").read_text() == "A B\n"


@pytest.mark.parametrize(
    ("allowed", "command", "said"),
    [
        ("/bin/sh -c *", "/bin/sh -c 'echo no; exit 3'", "/bin/sh ended with status 3: no"),
        ("/nowhere/program", "/nowhere/program", "could not be started"),
    ],
)
def test_what_fails_is_a_failure(working, client, redis, allowed, command, said):  # noqa: PLR0917
    with working(allowed):
        push(client, command)

        assert said in dead_error(redis)[1]


def test_what_is_not_allowed_is_dead_at_once_even_with_retries(working, client, redis, tmp_path):
    with working(f"touch {tmp_path}/a"):
        push(client, f"touch {tmp_path}/a; touch {tmp_path}/b", retry=5)

        assert "letter by letter" in dead_error(redis)[1]
        assert redis.zcard("retry") == 0
    assert list(tmp_path.iterdir()) == []


def test_the_time_limit_ends_a_command_and_its_children(working, client, redis, tmp_path):
    mark = tmp_path / "pid"
    command = f"sleep 1000 & echo $! > {mark}; wait"
    with working(command, time_limit_s=0.5):
        push(client, command)

        assert "ran for more than 0.5 s" in dead_error(redis)[1]
    child = int(mark.read_text())
    wait_until(lambda: not runs(child), what="the child has ended")


def test_a_worker_that_stops_ends_the_command_and_gives_the_job_back(
    working, client, redis, tmp_path
):
    mark = tmp_path / "pid"
    command = f"echo $$ > {mark}; exec sleep 1000"
    with working(command):
        push(client, command)
        wait_until(lambda: mark.exists() and mark.read_text().strip())

    pid = int(mark.read_text())
    wait_until(lambda: not runs(pid), what="the command has ended")
    assert redis.llen("queue:default") == 1


def test_much_output_is_cut_to_its_end(working, client, redis, caplog):
    caplog.set_level("INFO")
    with working("/bin/sh -c *"):
        push(client, "/bin/sh -c 'yes 0123456789 | head -c 1000000; echo end'")
        wait_until(lambda: redis.get("stat:processed") == b"1")

    [record] = [each for each in caplog.records if each.name.endswith("shell_job")]
    assert "the last of 1000004 bytes:" in record.getMessage()
    assert record.getMessage().endswith("end")
    assert len(record.getMessage()) < 17_000


def test_a_child_that_holds_the_output_does_not_hold_the_job(working, client, redis, tmp_path):
    mark = tmp_path / "pid"
    command = f"setsid sleep 1000 & echo $! > {mark}"
    with working(command):
        push(client, command)
        wait_until(lambda: redis.get("stat:processed") == b"1")

    os.kill(int(mark.read_text()), 9)


def runs(pid):
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def test_without_the_feature_its_setting_is_refused(monkeypatch):
    monkeypatch.setattr("kiqbridge.seams.named", lambda _name: None)

    with pytest.raises(ConfigError, match=r"shell_commands .* needs the feature shell_command"):
        merge(file={"shell_commands": ["mkdir *"]}, environ={}, flags={})
