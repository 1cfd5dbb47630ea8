"""`make dist`: what an index would get, and that its checks find what is wrong."""

import re
import subprocess
import zipfile

import pytest
from support.distribution import dist_script
from support.lambda_build import ROOT, make

from kiqbridge import __version__

pytestmark = pytest.mark.slow

DIST = dist_script()


def test_wheel_and_sdist_are_made_and_checked(distribution):
    names = {path.name for path in distribution.folder.iterdir()}

    assert f"kiqbridge-{__version__}-py3-none-any.whl" in names
    assert f"kiqbridge-{__version__}.tar.gz" in names
    assert f"installed, it says kiqbridge {__version__}" in distribution.output


def test_make_dist_runs_the_same():
    assert re.search(r"^  make dist ", make("help"), re.MULTILINE)
    shown = subprocess.check_output(["make", "-n", "dist"], cwd=ROOT, text=True)
    assert ".make/dist.py" in shown


def test_the_wheel_holds_what_the_package_reads(distribution):
    names = DIST.names_in_wheel(distribution.wheel)

    for one in (
        "kiqbridge/py.typed",
        "kiqbridge/web/templates/base.html",
        "kiqbridge/dev/scaffold/app/Makefile.tmpl",
        "kiqbridge/dev/scaffold/shipped/template.yaml",
        "kiqbridge/dev/scaffold/shipped/infra/redis.yaml",
        "kiqbridge/dev/scaffold/shipped/infra/examples/queue.yaml",
        "kiqbridge/dev/scaffold/shipped/events/sqs.json",
        "kiqbridge/dev/scaffold/shipped/lambdas/enqueue/app.py",
        "kiqbridge/dev/scaffold/shipped/.make/lambda.sh",
    ):
        assert one in names
    assert [name for name in names if name.endswith(".lua")]
    with zipfile.ZipFile(distribution.wheel) as archive:
        shipped = archive.read("kiqbridge/dev/scaffold/shipped/template.yaml")
    assert shipped == (ROOT / "template.yaml").read_bytes()


@pytest.mark.parametrize(
    "lost",
    ["kiqbridge/py.typed", "kiqbridge/errors.py", "kiqbridge/dev/scaffold/shipped/template.yaml"],
)
def test_a_wheel_that_lacks_a_file_is_refused(distribution, lost):
    names = DIST.names_in_wheel(distribution.wheel)
    DIST.check_wheel(names)

    with pytest.raises(DIST.Wrong, match=rf"lacks \['{lost}'\]"):
        DIST.check_wheel(names - {lost})


@pytest.mark.parametrize(
    "foreign",
    [
        "tests/conftest.py",
        "kiqbridge/__pycache__/errors.cpython-311.pyc",
        "jobs/nightly_report.py",
        "samconfig.local.toml",
        ".env",
    ],
)
def test_what_is_handed_out_with_too_much_is_refused(distribution, foreign):
    [sdist] = distribution.folder.glob("*.tar.gz")
    names = DIST.names_in_sdist(sdist)
    DIST.check_sdist(names)

    with pytest.raises(DIST.Wrong, match="holds"):
        DIST.check_wheel({*DIST.names_in_wheel(distribution.wheel), foreign})
    with pytest.raises(DIST.Wrong, match="holds what it must not"):
        DIST.check_sdist({*names, foreign})


def test_an_sdist_that_lacks_what_the_wheel_is_made_of_is_refused():
    with pytest.raises(DIST.Wrong, match=r"the sdist lacks \['\.make/deploy\.sh', .*'setup\.py'"):
        DIST.check_sdist(set())


def test_metadata_that_an_index_would_refuse_are_refused(tmp_path):
    wheel = tmp_path / "broken.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("kiqbridge-0.dist-info/METADATA", "Metadata-Version: 2.4\nName: !\n")

    with pytest.raises(ExceptionGroup):
        DIST.check_metadata(wheel)
