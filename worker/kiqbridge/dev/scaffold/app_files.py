"""The files of an app: what stands in each, as text.

1. Patterns of `app/`, with the app's name and our version in the place of `{{name}}` and `{{version}}`; lines between
   `{{lambda` and `lambda}}` stand there only with the way to AWS, those between `{{plain` and `plain}}` only without.
2. With the way to AWS the template of the repository, with the app's rule in the place of the repository's; its nested
   templates, its functions, its example sources, and its sample events, which name the app's job.

Pure but for reading those files.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kiqbridge import __version__
from kiqbridge.dev.scaffold.run_script import APP, shipped_root
from kiqbridge.errors import ConfigError

SUFFIX: Final = ".tmpl"
PLAIN: Final = {
    "pyproject.toml": "pyproject.toml",
    "Makefile": "Makefile",
    "README.md": "README.md",
    "kiqbridge.yml": "kiqbridge.yml",
    "Dockerfile": "Dockerfile",
    ".dockerignore": "dockerignore",
    ".gitignore": "gitignore",
    "wheels/README.md": "wheels.md",
    "jobs/__init__.py": "jobs/package.py",
    "jobs/greeting.py": "jobs/greeting.py",
    "jobs/report.py": "jobs/report.py",
    "tests/test_jobs.py": "tests/test_jobs.py",
}
"""Path in the app → pattern, of each app."""
WITH_LAMBDA: Final = {
    "lambdas/enqueue/mappings.yml": "mappings.yml",
    "lambdas/requirements.txt": "requirements.txt",
}
"""The same, of an app with the way to AWS."""
RULES: Final = "rules.yaml"

_EVENTS: Final = re.compile(
    r"^(?P<before>  EnqueueFunction:\n(?:    .*\n|\n)*?)      Events:\n(?:        .*\n|\n)*",
    re.MULTILINE,
)
_BLOCK: Final = re.compile(
    r"^.*\{\{(?P<kind>lambda|plain)\n(?P<text>(?:.*\n)*?).*(?P=kind)\}\}\n", re.MULTILINE
)
_REPLACED: Final = (
    (r"- \[.*!Ref AllowedClasses\]", "- [DailyReport, !Ref AllowedClasses]"),
    (r"- \[.*!Ref AllowedQueues\]", "- [low, !Ref AllowedQueues]"),
    (r"ContentUri: worker\b", "ContentUri: lambdas"),
    (r"(?m)^    Default: default low mailers$", "    Default: default low"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class App:
    """What an app is called, and whether it has the way to AWS.

    Attributes:
        name: lower-case letters, digits and hyphens; also the name of its stack.
    """

    name: str
    with_lambda: bool = True


def app_files(app: App) -> dict[str, str]:
    """Path below the app's folder → text.

    Raises:
        ConfigError: this installation lacks what the way to AWS needs.
    """
    patterns = {**PLAIN, **(WITH_LAMBDA if app.with_lambda else {})}
    files = {path: _filled(name, app) for path, name in patterns.items()}
    return {**files, **(_aws_files(app) if app.with_lambda else {})}


def _filled(name: str, app: App) -> str:
    text = (APP / f"{name}{SUFFIX}").read_text(encoding="utf-8")
    kept = "lambda" if app.with_lambda else "plain"
    text = _BLOCK.sub(lambda found: found["text"] if found["kind"] == kept else "", text)
    return text.replace("{{name}}", app.name).replace("{{version}}", __version__)


def _aws_files(app: App) -> dict[str, str]:
    root = shipped_root()
    files = {path.relative_to(root).as_posix(): _text(path) for path in _copied(root)}
    for path in sorted((root / "events").glob("*.*")):
        files[f"events/{path.name}"] = _sample(_text(path), app)
    files["template.yaml"] = _template(_text(root / "template.yaml"), app)
    files["samconfig.toml"] = re.sub(
        r'(?m)^stack_name = ".*"', f'stack_name = "{app.name}"', _text(root / "samconfig.toml")
    )
    return files


def _copied(root: Path) -> Iterator[Path]:
    """What an app has as it is."""
    yield from sorted((root / "infra").glob("*.yaml"))
    yield from sorted((root / "infra" / "examples").glob("*.yaml"))
    for path in sorted((root / "lambdas").glob("*/*.*")):
        if path.relative_to(root).as_posix() not in WITH_LAMBDA and path.suffix != ".pyc":
            yield path


def _text(path: Path) -> str:
    """A file of the repository; the jobs of an app lie at its root."""
    return path.read_text(encoding="utf-8").replace("worker/jobs", "jobs")


def _sample(text: str, app: App) -> str:
    """A sample event, for the job of the app's rule."""
    return (
        text.replace("NightlyReport", "DailyReport")
        .replace("kiqbridge/DailyReport", f"{app.name}/DailyReport")
        .replace("--stack-name kiqbridge", f"--stack-name {app.name}")
    )


def _template(text: str, app: App) -> str:
    """The template with the rule of the app, and with what that may enqueue.

    Raises:
        ConfigError: the template is not as it was shipped.
    """
    rules = _filled(RULES, app)
    text, count = _EVENTS.subn(lambda found: f"{found['before']}{rules}\n", text)
    counts = [count]
    for pattern, new in _REPLACED:
        text, count = re.subn(pattern, new, text)
        counts.append(count)
    if counts != [1] * len(counts):
        raise ConfigError(
            "template.yaml of this installation is not as it was shipped: the Events of EnqueueFunction, its lists "
            "of allowed classes and queues, and one layer are looked for; install kiqbridge from its wheel"
        )
    return text
