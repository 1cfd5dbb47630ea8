"""Events that are no jobs become jobs as `mappings.yml` declares it.

`aws.enqueue` and `kiqbridge enqueue` call it, `make check` and `make build` run `check`. It must never
load PyYAML, jmespath or fastjsonschema in a function that has no mappings, nor take a class, a queue or a
schema from an event. A file goes: `document` (YAML or JSON, with lines) → `declared` (what it says, and
every fault) → `mapper` (a record's jobs, by `expressions`), besides `schemas` and the allow-list's rules.
"""
