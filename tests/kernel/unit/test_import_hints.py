"""What an error of `-r` says besides: near names, and what to do."""

import sys

import pytest

from kiqbridge.client.require import load_all
from kiqbridge.errors import ConfigError


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    """A current directory with a package of jobs; what is loaded from it is forgotten."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    known = set(sys.modules)
    (tmp_path / "hint_app").mkdir()
    (tmp_path / "hint_app" / "__init__.py").touch()
    (tmp_path / "hint_app" / "mailer.py").write_text("def send_invoices(): ...\n")
    yield tmp_path
    for name in set(sys.modules) - known:
        del sys.modules[name]


def refusal(target):
    with pytest.raises(ConfigError) as refused:
        load_all((target,))
    return str(refused.value)


@pytest.mark.parametrize(
    ("statement", "hint"),
    [
        ("import redsi", f"redsi is not on the path of {sys.executable}; did you mean redis"),
        ("import hint_app.mailr", "the package hint_app has no such module; did you mean hint_app.mailer?"),
        ("from hint_app.mailer import send_invoice", "did you mean send_invoices?"),
        ("import no_such_module_at_all", f"{sys.executable}. An installed package: pip install it there."),
    ],
)  # fmt: skip
def test_an_import_that_fails_is_shown_with_its_place_and_what_to_do(here, statement, hint):
    (here / "hint_app" / "jobs.py").write_text(f"import os\n\n{statement}\n")

    first, place, source, last = refusal("hint_app.jobs").splitlines()

    assert first.startswith("-r hint_app.jobs: importing it failed: ")
    assert place == f'  File "{here}/hint_app/jobs.py", line 3, in <module>'
    assert source == f"    {statement}"
    assert hint in last or (hint in first and sys.version_info >= (3, 12))


@pytest.mark.parametrize(
    ("target", "near"),
    [
        ("hint_app/mailr.py", "hint_app/mailer.py"),
        ("hint_ap/mailer.py", "hint_app/mailer.py"),
        ("hint_app.mailr", "hint_app.mailer"),
        ("hint_apq", "hint_app"),
    ],
)
def test_a_target_that_is_not_there_is_followed_by_near_ones(here, target, near):
    assert refusal(target).endswith(f"; did you mean {near}? The current directory is {here}")


def test_other_errors_have_no_hint(here):
    (here / "hint_app" / "jobs.py").write_text("1 / 0\n")

    assert refusal("hint_app.jobs").splitlines()[-1].strip("^ ~") in ("1 / 0", "")
