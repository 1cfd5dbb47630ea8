"""`kiqbridge schedule publish`: the schedules of a template, for those who watch that their ticks come.

The function does it by itself at its first invocation after a deployment; this is for a rollback on purpose, and
for schedules of which no function of ours is deployed.
"""

import argparse
import os
import tomllib
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from kiqbridge.api.operator import open_operator, user_at_host
from kiqbridge.client.client import Client
from kiqbridge.clocks.manifest_store import (
    Published,
    outcome_of,
    parts_of,
    publish_manifest,
    read_manifests,
)
from kiqbridge.commands.arguments import add_changing, add_option, add_switch
from kiqbridge.commands.build_manifest import manifest_of
from kiqbridge.commands.output import write_json, write_line
from kiqbridge.errors import ConfigError
from kiqbridge.schedule.manifest import Manifest

ANSWERS = Path("samconfig.local.toml")
DEFAULTS = Path("samconfig.toml")
OLDER = 1


def add_arguments(verbs: Any) -> None:
    """The verb publish."""
    verb = verbs.add_parser(
        "publish",
        help="let the fleet know a template's schedules, and notice ticks that do not come",
        description="Publish the schedules of a template to Redis, as the function does after a deployment. Exit 1 "
        "if a newer version is published: nothing is written then, unless --rollback says that it is on purpose.",
    )
    what = verb.add_mutually_exclusive_group()
    add_option(
        what, "--template", "PATH", "default: %(default)s", type=Path, default=Path("template.yaml")
    )
    add_option(what, "--manifest", "FILE", "manifest.json of a layer that was built", type=Path)
    add_switch(
        what,
        "--withdraw",
        "publish none for --stack, after the stack was deleted: its ticks are expected no more",
    )
    add_option(verb, "--stack", "NAME", "name of the stack (default: that of make deploy)")
    add_option(
        verb,
        "--answers",
        "SAMCONFIG",
        "parameters of make deploy (default: %(default)s)",
        type=Path,
        default=ANSWERS,
    )
    add_switch(verb, "--rollback", "publish it also if a newer version is published")
    add_changing(verb)
    verb.set_defaults(command=_publish)


def _publish(options: argparse.Namespace) -> int:
    if options.withdraw and not options.stack:
        raise ConfigError("--withdraw: name the stack that was deleted; write --stack NAME")
    stack = options.stack or stack_name_of(options.answers)
    client = open_operator(via="cli").client
    manifest = _to_withdraw(client, stack) if options.withdraw else _manifest(options)
    # Of several fleets the schedules of this one.
    [manifest] = [
        part for _, there, part in parts_of(client, manifest) if there.keys is client.keys
    ]
    by = f"cli:{user_at_host()}"
    done = (
        _looked_at(client, manifest, stack, options)
        if options.dry_run
        else publish_manifest(
            client.pool, client.keys, manifest, stack=stack, by=by, rollback=options.rollback
        )
    )
    about = asdict(done)
    if options.dry_run:
        del about["removed"]
    about["dry_run"] = options.dry_run
    if options.json:
        write_json(about)
    else:
        write_line(_sentence(about))
    return OLDER if about["outcome"] == "older" else 0


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


def _looked_at(
    client: Client, manifest: Mapping[str, Any], stack: str, options: argparse.Namespace
) -> Published:
    """What publishing it would be; how many it would remove is not known."""
    standing = read_manifests(client.pool, client.keys).get(stack)
    version = int(manifest["version"])
    return Published(
        outcome=outcome_of(standing, version, str(manifest["hash"]), rollback=options.rollback),
        stack=stack,
        version=version,
        standing=None if standing is None else standing.version,
        schedules=len(manifest["schedules"]),
        removed=0,
    )


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
