"""Builds sdist and wheel from a clean copy of the sources, and checks both: `make dist`.

1. The sdist is built from the copy, the wheel from the sdist: what the sdist lacks is missing in the wheel.
2. Metadata are valid, as an index checks them; both hold what they must, and nothing else.
3. The wheel is installed in a fresh environment, which does not see the checkout: its command and its import run.

    python .make/dist.py [FOLDER [VENV]]    FOLDER is `dist` if it is not named; VENV keeps the fresh environment

No network is needed: the build runs with the setuptools of this environment, and the fresh environment borrows the
packages that kiqbridge needs.
"""

# ruff: noqa: INP001 - a script of the Makefile, in no package
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import tomllib
import venv
import zipfile
from pathlib import Path

from packaging.metadata import Metadata
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
SOURCES = (
    *("pyproject.toml", "setup.py", "MANIFEST.in", "README.md", "LICENSE"),
    *("template.yaml", "samconfig.toml", ".make", "infra", "lambdas", "events"),
    *("worker/kiqbridge", "worker/kiqbridge_pytest"),
)
EXPECTED = (
    "kiqbridge/py.typed",
    "kiqbridge/store/scripts/*.lua",
    "kiqbridge/store/scripts/parts/*.lua",
    "kiqbridge/features/*/scripts/*.lua",
    "kiqbridge/features/*/scripts/parts/*.lua",
    "kiqbridge/features/*/*.json",
    "kiqbridge/web/templates/*.html",
    "kiqbridge/features/*/*.html",
    "kiqbridge/web/static/*",
    "kiqbridge/dev/scaffold/app/*",
    "kiqbridge/dev/scaffold/app/jobs/*",
    "kiqbridge/dev/scaffold/app/tests/*",
)
"""Files of the package that are no modules, as patterns below `worker/`."""
SHIPPED = "kiqbridge/dev/scaffold/shipped/"
FOREIGN = re.compile(
    r"(^|/)(__pycache__|\.kiqbridge|\.venv[^/]*|\.aws-sam|\.git)/|(^|/)tests?/(?!.*\.tmpl$)"
    r"|\.py[co]$|^jobs/|(^|/)\.env|samconfig\.local"
)
"""What no distribution may hold: caches, tests, jobs of the repository, environments, answers with secrets."""


class Wrong(Exception):  # noqa: N818 - reads as what it is
    """What was built is not to be handed out."""


def main(folder: Path, kept: Path | None) -> None:
    """Build into the folder; it gets nothing that fails a check.

    Args:
        folder: where sdist and wheel are put.
        kept: where the environment with the installed wheel is made; None = it is thrown away.
    """
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        copy_sources(scratch / "sources")
        built = scratch / "dist"
        run(
            *("-m", "build", "--no-isolation", "--outdir", str(built), str(scratch / "sources")),
            cwd=scratch,
        )
        [wheel], [sdist] = built.glob("*.whl"), built.glob("*.tar.gz")
        check_metadata(wheel)
        check_wheel(names_in_wheel(wheel))
        check_sdist(names_in_sdist(sdist))
        shown = try_installed(wheel, kept or scratch / "venv")
        folder.mkdir(parents=True, exist_ok=True)
        for path in (sdist, wheel):
            shutil.copy(path, folder)
            sys.stdout.write(
                f"make dist: {folder / path.name} ({path.stat().st_size / 1000:.0f} kB)\n"
            )
        sys.stdout.write(f"make dist: installed, it says {shown}\n")


def copy_sources(folder: Path) -> None:
    """The sources without what builds and tests have left between them."""
    left = shutil.ignore_patterns("__pycache__", "*.pyc", "*.egg-info", "build")
    for name in SOURCES:
        source, target = ROOT / name, folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target, ignore=left)
        else:
            shutil.copy(source, target)


def run(*arguments: str, cwd: Path, python: str = sys.executable) -> str:
    """What a Python printed.

    Raises:
        Wrong: it failed.
    """
    done = subprocess.run(  # noqa: S603 - our own arguments
        [python, *arguments], cwd=cwd, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise Wrong(
            f"{' '.join(arguments)}: exit code {done.returncode}\n{done.stdout}{done.stderr}"
        )
    return done.stdout


def check_metadata(wheel: Path) -> None:
    """As an index does: each field is valid, the README is the long description, and the version is ours."""
    with zipfile.ZipFile(wheel) as archive:
        [name] = [each for each in archive.namelist() if each.endswith(".dist-info/METADATA")]
        metadata = Metadata.from_email(archive.read(name), validate=True)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    if (metadata.name, str(metadata.version)) != (project["name"], project["version"]):
        raise Wrong(f"the wheel is {metadata.name} {metadata.version}")
    if metadata.description_content_type != "text/markdown" or not metadata.description:
        raise Wrong("the README is not its long description")
    extras = {canonicalize_name(name) for name in project["optional-dependencies"]}
    missing = extras - set(metadata.provides_extra or ())
    if missing or "Typing :: Typed" not in (metadata.classifiers or ()):
        raise Wrong(f"extras or classifiers are missing: {sorted(missing)}")


def names_in_wheel(wheel: Path) -> set[str]:
    """The files of a wheel."""
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def names_in_sdist(sdist: Path) -> set[str]:
    """The files of an sdist, below its one folder."""
    with tarfile.open(sdist) as archive:
        return {member.name.partition("/")[2] for member in archive.getmembers() if member.isfile()}


def check_wheel(names: set[str]) -> None:
    """It holds each module, all data and the scaffold; and nothing else.

    Raises:
        Wrong: it does not.
    """
    package = ROOT / "worker"
    wanted = {
        path.relative_to(package).as_posix()
        for pattern in ("kiqbridge/**/*.py", "kiqbridge_pytest/**/*.py", *EXPECTED)
        for path in package.glob(pattern)
        if path.is_file() and "__pycache__" not in path.parts
    }
    wanted |= {SHIPPED + path for path in shipped_paths()}
    held = {name for name in names if ".dist-info/" not in name}
    if held != wanted:
        raise Wrong(
            f"the wheel lacks {sorted(wanted - held)}, and holds {sorted(held - wanted)} besides"
        )
    refuse_foreign(names)


def shipped_paths() -> set[str]:
    """What setup.py copies, by folders of the repository."""
    patterns = ("infra/*.yaml", "infra/examples/*.yaml", "lambdas/*/*.*", "events/*.*")
    files = {path for pattern in patterns for path in ROOT.glob(pattern)}
    scripts = ("lambda.sh", "deploy.sh", "foreground.py", "guided.py", "publish.py")
    return {
        *("template.yaml", "samconfig.toml", *(f".make/{name}" for name in scripts)),
        *(path.relative_to(ROOT).as_posix() for path in files),
    }


def check_sdist(names: set[str]) -> None:
    """It holds what the wheel is made of, and nothing of tests, jobs and caches.

    Raises:
        Wrong: it does not.
    """
    missing = {"pyproject.toml", "setup.py", "README.md", "LICENSE", *shipped_paths()} - names
    if missing:
        raise Wrong(f"the sdist lacks {sorted(missing)}")
    refuse_foreign(names)


def refuse_foreign(names: set[str]) -> None:
    """Refuse what no distribution may hold.

    Raises:
        Wrong: there is such a file.
    """
    foreign = sorted(name for name in names if FOREIGN.search(name))
    if foreign:
        raise Wrong(f"it holds what it must not: {foreign}")


def try_installed(wheel: Path, folder: Path) -> str:
    """Install the wheel in a fresh environment outside of the checkout; what its import and its command print.

    Raises:
        Wrong: they do not run, or run the checkout's code.
    """
    venv.create(folder, symlinks=True)
    [packages] = folder.glob("lib/python*/site-packages")
    # What it depends on. A .pth of that folder is not read: so the checkout is not found by its editable install.
    (packages / "borrowed.pth").write_text(sysconfig.get_path("purelib"), encoding="utf-8")
    python = str(folder / "bin/python")
    # Isolated: a checkout in PYTHONPATH would count as installed.
    pip = ("-I", "-m", "pip", "--python", python, "install", "--quiet", "--no-deps", "--no-index")
    run(*pip, "--disable-pip-version-check", "--no-compile", str(wheel), cwd=folder)
    program = "import kiqbridge; print(kiqbridge.__file__)"
    found = Path(run("-I", "-c", program, python=python, cwd=folder).strip())
    if not found.is_relative_to(folder):
        raise Wrong(f"the import found {found}")
    for command in (["-I", str(folder / "bin/kiqbridge")], ["-I", "-m", "kiqbridge"]):
        if not run(*command, "--help", python=python, cwd=folder).startswith("usage: "):
            raise Wrong(f"{command}: no usage")
    version = "import kiqbridge; print(kiqbridge.__version__)"
    return f"kiqbridge {run('-I', '-c', version, python=python, cwd=folder).strip()}"


if __name__ == "__main__":
    try:
        paths = [Path(word).resolve() for word in sys.argv[1:]]
        main(paths[0] if paths else Path("dist").resolve(), paths[1] if paths[1:] else None)
    except Wrong as error:
        sys.exit(f"make dist: {error}")
