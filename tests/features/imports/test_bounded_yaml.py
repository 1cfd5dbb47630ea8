"""Aliases of YAML in every file that is read: those in use are followed, a bomb of them is refused."""

import pytest
import yaml
from support.mappings import write

from kiqbridge.config.settings_file import parse
from kiqbridge.errors import ConfigError
from kiqbridge.features.dynamic.schedule_file import read_schedule_file
from kiqbridge.features.imports.gems import read_sidekiq_cron_file, read_sidekiq_scheduler
from kiqbridge.features.imports.record import Reading
from kiqbridge.features.mappings.document import load
from kiqbridge.schedule.cloudformation import Template

READING = Reading(queue="default", timezone="UTC")
READERS = {
    "sidekiq-cron": lambda text, _: read_sidekiq_cron_file(text, READING),
    "sidekiq-scheduler": lambda text, _: read_sidekiq_scheduler(text, READING),
    "mappings": lambda text, folder: load(write(folder, text)),
    "schedules": lambda text, _: read_schedule_file(text, "schedules.yml"),
    "settings": lambda text, _: parse(text, "kiqbridge.yml", {}),
    "template": lambda text, folder: Template(write(folder, text)),
}
LISTS = "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"a{n}: &a{n} [{','.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 6)
)
MERGES = "a0: &a0 {cron: '* * * * *', class: A}\n" + "".join(
    f"a{n}: &a{n} {{<<: [{','.join([f'*a{n - 1}'] * 10)}]}}\n" for n in range(1, 6)
)
TEXTS = f"a0: &a0 {'x' * 100_000}\na1: [{','.join(['*a0'] * 10)}]\n"
DEEP = f"a: {'[' * 100_000}{']' * 100_000}"  # libyaml would end the process


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        (LISTS, 4, "aliases"),
        (MERGES, 5, "aliases"),
        (TEXTS, 2, "aliases"),
        ("a:\n  b: &b\n    c: *b\n", 2, "an anchor contains itself"),
        (DEEP, 1, "nested too deeply"),
    ],
    ids=["lists", "merges", "texts", "itself", "deep"],
)
def test_what_aliases_stand_for_is_bounded(tmp_path, reader, text, line, reason):
    with pytest.raises(
        ConfigError, match=rf"^(line |[a-z.]+:( line )?){line}: .*{reason}"
    ) as caught:
        READERS[reader](text, tmp_path)

    assert "\n" not in str(caught.value)


def test_merge_keys_as_in_rails_are_followed_and_a_long_file_without_aliases_is_read():
    rails = "default: &default {class: A, queue: low}\njob:\n  <<: *default\n  cron: '5 * * * *'\n"
    (job,) = read_sidekiq_cron_file(rails, READING).schedules
    assert job.name == "job"

    many = {f"name{number}": {"cron": "5 * * * *", "class": "A"} for number in range(3000)}
    assert len(read_sidekiq_cron_file(yaml.safe_dump(many), READING).schedules) == 3000
