"""Events that are no jobs become jobs as `mappings.yml` declares it, with its rules per source and schemas of arguments.

For those whose events are written by AWS services. `aws.enqueue` and `kiqbridge enqueue` call it, `make check` and
`make build` run `check`. It must never load PyYAML, jmespath or fastjsonschema in a function that has no mappings, nor
take a class, a queue or a schema from an event. A file goes: `document` (YAML or JSON, with lines) → `declared` (what
it says, and every fault) → `mapper` (a record's jobs, by `expressions`), besides `schemas` and the allow-list's rules.
"""

from kiqbridge.feature import Feature

FEATURE = Feature(package=__name__, mapper="function:mapped", source="source:show")
