"""The tutorial: its files are written, its commands run, and what it shows is what is printed."""

import pytest
from tutorial import PAGES, Reader, page

pytestmark = pytest.mark.slow


def test_each_page_of_the_tutorial_works_and_shows_what_is_printed(tmp_path):
    with Reader(tmp_path.resolve()) as reader:
        for name in PAGES:
            reader.play(page(name).read_text(encoding="utf-8"))
