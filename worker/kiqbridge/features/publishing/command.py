"""`kiqbridge schedule publish`: publish the schedules of a template to Redis, as the function does after a deployment.

Exit 1 if a newer version is published: nothing is written then, except with --rollback.

The function does it by itself at its first invocation after a deployment; this is for a rollback on purpose, and
for schedules of which no function of ours is deployed. With --output it is for the layer, which has them as a file.

The layer must have the same bytes for the same sources, wherever it is built. So the version is no time of the
build, but that of the newest change of what the manifest is made of:

1. SOURCE_DATE_EPOCH, if the environment has it (reproducible-builds.org);
2. else the time of the newest commit that changed the template, while git knows no other change of it;
3. else the time at which the file was changed.

Answers of `make deploy` that change a schedule count with the time of their file.
"""

import argparse
import os
import subprocess
import tomllib
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from kiqbridge.api.operator import open_operator, user_at_host
from kiqbridge.client.client import Client
from kiqbridge.commands.arguments import add, add_changing, add_example
from kiqbridge.commands.git import git
from kiqbridge.commands.output import answer
from kiqbridge.errors import ConfigError
from kiqbridge.features.publishing.function import Published, outcome_of, parts_of, publish_manifest
from kiqbridge.features.publishing.manifest import Manifest, build_manifest
from kiqbridge.schedule import ANSWERS, TEMPLATE
from kiqbridge.schedule.check import read_answers
from kiqbridge.store.manifests import read_manifests

DEFAULTS = Path("samconfig.toml")
OLDER = 1


def add_arguments(verb: argparse.ArgumentParser) -> None:
    """The options of `schedule publish`."""
    add_example(verb, "kiqbridge schedule publish --template template.yaml --stack shop")
    what = verb.add_mutually_exclusive_group()
    text = "default: %(default)s"
    add(what, "--template PATH", text, type=Path, default=TEMPLATE)
    add(what, "--manifest FILE", "manifest.json of a layer that was built", type=Path)
    text = "publish none for --stack, after the stack was deleted: its ticks are expected no more"
    add(what, "--withdraw", text)
    add(verb, "--output FILE", "write the manifest there, and publish nothing", type=Path)
    add(verb, "--stack NAME", "name of the stack (default: the stack of make deploy)")
    text = "parameters of make deploy (default: %(default)s)"
    add(verb, "--answers SAMCONFIG", text, type=Path, default=ANSWERS)
    add(verb, "--rollback", "publish it also if a newer version is published")
    add_changing(verb)


def run(options: argparse.Namespace) -> int:
    """Publish them; 1 if a newer version is published."""
    if options.output is not None:
        manifest = manifest_of(options.template, options.answers, os.environ)
        options.output.write_text(manifest.to_text(), encoding="utf-8")
        return 0
    if options.withdraw and not options.stack:
        raise ConfigError("--withdraw: name the stack that was deleted; write --stack NAME")
    stack = options.stack or stack_name_of(options.answers)
    client = open_operator(via="cli").client
    all_of_it = _to_withdraw(client, stack) if options.withdraw else _manifest(options)
    # Of several fleets the schedules of this one.
    parts = parts_of(client, all_of_it)
    [published] = [part for _, there, part in parts if there.keys is client.keys]
    if options.dry_run:
        # What publishing it would be; how many it would remove is not known.
        standing = read_manifests(client.pool, client.keys).get(stack)
        version = int(published["version"])
        done = Published(
            outcome=outcome_of(
                standing, version, str(published["hash"]), rollback=options.rollback
            ),
            stack=stack,
            version=version,
            standing=None if standing is None else standing.version,
            schedules=len(published["schedules"]),
            removed=0,
        )
    else:
        about = {"stack": stack, "by": f"cli:{user_at_host()}", "rollback": options.rollback}
        done = publish_manifest(client.pool, client.keys, published, **about)
    document = {**asdict(done), "dry_run": options.dry_run}
    if options.dry_run:
        del document["removed"]
    answer(options, document, [_sentence(document)])
    return OLDER if document["outcome"] == "older" else 0


def _manifest(options: argparse.Namespace) -> Mapping[str, Any]:
    if options.manifest is None:
        return manifest_of(options.template, options.answers, os.environ).to_document()
    return _read(options.manifest).to_document()


def _to_withdraw(client: Client, stack: str) -> Mapping[str, Any]:
    """No schedules, under the version that stands, so that the stack publishes again if it is deployed again."""
    standing = read_manifests(client.pool, client.keys).get(stack)
    if standing is None:
        raise ConfigError(f"--withdraw: nothing is published for stack {stack!r}")
    return Manifest(version=standing.version, schedules={}).to_document()


def stack_name_of(answers: Path) -> str:
    """The name under which `make deploy` deploys.

    Raises:
        ConfigError: no file has one.
    """
    for path in (answers, DEFAULTS):
        try:
            sections = tomllib.loads(path.read_text(encoding="utf-8")).get("default", {})
        except FileNotFoundError:
            continue
        except (OSError, ValueError) as error:
            raise ConfigError(f"{path}: it cannot be read: {error}; write --stack NAME") from error
        for section in ("deploy", "global"):
            name = sections.get(section, {}).get("parameters", {}).get("stack_name")
            if name:
                return str(name)
    raise ConfigError(f"--stack: {answers} has no stack_name; write --stack NAME")


def _read(path: Path) -> Manifest:
    try:
        return Manifest.from_text(path.read_bytes())
    except OSError as error:
        raise ConfigError(f"{path}: it cannot be read: {error.strerror}") from error


def _sentence(about: dict[str, Any]) -> str:
    stack, version, standing = about["stack"], about["version"], about["standing"]
    count = about["schedules"]
    would = "would be " if about["dry_run"] else ""
    match about["outcome"]:
        case "older":
            return (
                f"nothing {would}published: version {version} is older than version {standing} of {stack}; write "
                "--rollback if that is on purpose"
            )
        case "unchanged":
            return f"{stack}: its {count} schedules are published already (version {version})"
        case "rolled back":
            return f"{stack}: {would}rolled back from version {standing} to {version}, {count} schedules"
    return f"{stack}: {count} schedules {would}published (version {version})"


def manifest_of(template: Path, answers: Path | None, environ: Mapping[str, str]) -> Manifest:
    """The manifest of a template as it is deployed.

    Args:
        template: the file.
        answers: configuration file of SAM with the parameters; None or no file = the defaults.
        environ: the environment.

    Raises:
        TemplateError, ConfigError: it has faults.
    """
    given = read_answers(answers, template) if answers is not None else {}
    manifest = build_manifest(template, given, version=_version(template, environ))
    if not given or answers is None or environ.get("SOURCE_DATE_EPOCH"):
        return manifest
    if build_manifest(template, version=manifest.version).hash == manifest.hash:
        return manifest
    version = max(manifest.version, int(answers.stat().st_mtime))
    return Manifest(version=version, schedules=manifest.schedules)


def _version(template: Path, environ: Mapping[str, str]) -> int:
    given = environ.get("SOURCE_DATE_EPOCH", "")
    if given:
        if not given.isdecimal():
            raise ConfigError(f"SOURCE_DATE_EPOCH: {given!r} is no number of epoch seconds")
        return int(given)
    committed = _committed_at(template)
    if committed is not None:
        return committed
    try:
        return int(template.stat().st_mtime)
    except OSError as error:
        raise ConfigError(f"{template}: cannot be read: {error.strerror}") from error


def _committed_at(template: Path) -> int | None:
    """When the file was committed last; None: it differs from that, or there is no git."""
    if _git(template, "status", "--porcelain", "--ignored") != "":
        return None
    at = _git(template, "log", "-1", "--format=%ct")
    return int(at) if at and at.isdecimal() else None


def _git(template: Path, *arguments: str) -> str | None:
    """What git says of the file; None: there is no git, or the file is not its own."""
    try:
        done = git("-C", str(template.resolve().parent), *arguments, "--", template.name)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None
