"""The tests that docs/how_to/testing.md shows, in a run of pytest as a user has it."""

from support.documents import blocks
from support.plugin_run import run_pytest


def test_the_tests_of_the_documents_pass(tmp_path):
    texts = [
        block.text
        for block in blocks()
        if block.document == "docs/how_to/testing.md" and block.language == "python"
    ]
    for number, text in enumerate(texts):
        (tmp_path / f"test_document_{number}.py").write_text(text)

    output = run_pytest(tmp_path)

    count = sum(text.count("def test_") for text in texts)
    assert count >= 3
    assert output.count("PASSED test_document_") == count, output
