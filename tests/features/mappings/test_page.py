"""The mappings on the page Sources."""

from kiqbridge.features.mappings.source import read_mappings

MAPPINGS = """
mappings:
  - name: new object
    match: {detail-type: Object Created, source: aws.s3}
    class: HealthPulse
    queue: low
    args: [detail.object.key]
"""


def test_without_a_file_it_is_said_plainly(browser, redis, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)

    assert "This process sees no file of mappings" in browser.open("/sources").text


def test_mappings_are_shown_in_words_with_what_is_wrong(tmp_path):
    (tmp_path / "mappings.yml").write_text(MAPPINGS)

    found = read_mappings({}, tmp_path)

    assert found.rows == [
        ("new object", "detail-type Object Created, source aws.s3", "HealthPulse into low")
    ]
    assert found.fault == ""
    (tmp_path / "mappings.yml").write_text(MAPPINGS + "    filtre: x\n")
    assert "mappings.yml:8" in read_mappings({}, tmp_path).fault
    (tmp_path / "mappings.yml").write_text("mappings: [")
    assert "mappings.yml" in read_mappings({}, tmp_path).fault
    assert (
        "which does not exist" in read_mappings({"KIQBRIDGE_MAPPINGS": "gone.yml"}, tmp_path).fault
    )
