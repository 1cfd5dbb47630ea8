"""What a worker has loaded when it performs its first job: nothing that this job does not need.

Each module that is loaded before costs each start of each process. It is a matter of imports, not of time.
"""

import json
import sys

from support.processes import ChildProcess

from kiqbridge import Client, seams

# The schedules' thread loads what it needs after half a second; here it never comes to that, so that the
# answer is the same on a slow machine.
WORKER = """
import sys
from kiqbridge.engine import leader
leader.LOOK_S = 3600
from kiqbridge.commands.cli import main
sys.exit(main(["worker", "-r", "jobs.py", "-c", "2", *sys.argv[1:]]))
"""
JOBS = """
import json, os, signal, sys
from kiqbridge import job

@job
def note_modules():
    with open("modules.new", "w") as file:
        json.dump(sorted(sys.modules), file)
    os.rename("modules.new", "modules")
"""
PATIENT_S = 60

OURS = 258
ALL = 455
"""How many modules a worker has then, of ours and with those of others; the last differ by version of Python."""

NOT_LOADED = {
    # schedules, who is notified of ticks that did not come, commands of the shell
    "kiqbridge.schedule",
    "kiqbridge.config.credentials",
    "kiqbridge.features.shell_command.shell_job",
    "kiqbridge.features.dynamic.declared",
    "kiqbridge.features.dynamic.placing",
    "kiqbridge.engine.chores",
    "kiqbridge.features.dead_letters.trim",
    "kiqbridge.features.gone_jobs.search",
    "kiqbridge.features.dynamic.schedule",
    "kiqbridge.features.dynamic.schedules",
    "kiqbridge.features.missed_ticks.missed",
    "http.client",
    "urllib.request",
    "zoneinfo",
    # several processes, other servers
    "kiqbridge.commands.supervisor",
    "kiqbridge.commands.reloader",
    "kiqbridge.features.cluster.nodes",
    # other commands, and what operators use
    "kiqbridge.api",
    "kiqbridge.aws",
    "kiqbridge.contrib",
    "kiqbridge.features.doctor.finding",
    "kiqbridge.features.telemetry.catalogue",
    "kiqbridge.features.telemetry.worker",
    "kiqbridge.features.alerts.watch",
    "kiqbridge.features.transfer.form",
    "kiqbridge.web",
    "rich",
    # an event loop, for what is asynchronous, and what it waits with
    "asyncio",
    "kiqbridge.client.bridge",
    "kiqbridge.engine.perform.event_loop",
    # redis-py beyond connections and errors; a job that imports it loads the rest
    "redis.asyncio",
    "redis.client",
    "redis.cluster",
    "redis.commands",
    "redis.sentinel",
    # OpenSSL, which TLS needs, and `hashlib` and `secrets` load: 5 MB
    "ssl",
    "_ssl",
    "hashlib",
    "_hashlib",
    "secrets",
    # what argparse, temporary files and child processes would load
    "shutil",
    "tempfile",
    "subprocess",
    "concurrent.futures",
    # features that no declared job uses
    "kiqbridge.features.unique.locks",
    # what is installed, but was not asked for
    "boto3",
    "botocore",
    "cryptography.hazmat",
    "difflib",
    "importlib.metadata",
    "opentelemetry.metrics",
    "opentelemetry.sdk.metrics",
    "uvloop",
    "yaml",
}


def test_the_first_job_of_a_worker_waits_for_no_module_that_it_does_not_need(redis_url, tmp_path):
    loaded = modules_at_first_job(redis_url, tmp_path)

    assert [name for name in loaded if belongs_to(name, NOT_LOADED)] == []
    assert len([name for name in loaded if belongs_to(name, {"kiqbridge"})]) <= OURS
    assert len(loaded) <= ALL


def test_processes_of_a_supervisor_share_what_each_would_load_later(redis_url, tmp_path):
    loaded = modules_at_first_job(redis_url, tmp_path, "--processes", "2")

    assert loaded >= {
        f"{feature.package}.{chore.place.partition(':')[0]}"
        for feature in seams.shipped()
        if not feature.settings
        for chore in feature.chores
        if {"leader", "worker"} & set(chore.where)
    }


def modules_at_first_job(redis_url, folder, *flags):
    """Names of the modules, as the first job of a worker finds them."""
    (folder / "jobs.py").write_text(JOBS)
    client = Client(redis_url)
    client.push({"class": "note_modules", "args": []})
    client.close()
    env = {"REDIS_URL": redis_url, "KIQBRIDGE_RUN_DIR": str(folder / "run")}
    with ChildProcess([sys.executable, "-c", WORKER, *flags], env=env, cwd=folder) as worker:
        worker.wait_for((folder / "modules").exists, PATIENT_S, "the first job")
    return set(json.loads((folder / "modules").read_text()))


def belongs_to(name, packages):
    return any(name == package or name.startswith(f"{package}.") for package in packages)
