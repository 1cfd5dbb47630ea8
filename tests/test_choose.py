"""docs/explanation/choose.md: what it says of us has a source."""

import re

from support.documents import ROOT

TEXT = (ROOT / "docs/explanation/choose.md").read_text(encoding="utf-8")


def test_each_row_and_item_about_us_leads_to_a_document_or_a_test():
    lines = TEXT.split("## Terms")[0].splitlines()
    ours = [line for line in lines if line.startswith(("| Kiqbridge", "- **"))]
    ours += [line for line in lines if re.match(r"\| [^|]+ \| Kiqbridge", line)]

    assert len(ours) > 10
    assert [line for line in ours if not re.search(r"\]\((?!http)[^)]+\)|`tests/", line)] == []
