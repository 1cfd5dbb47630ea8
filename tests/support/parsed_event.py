"""The jobs and the tick that an event asks for, as the enqueue function reads it; for events with one record."""

from types import SimpleNamespace

from kiqbridge.aws import sources
from kiqbridge.aws.requests import read_jobs


def parse_event(event, now):
    [record] = sources.read(event).records
    read = read_jobs(record, now)
    return SimpleNamespace(jobs=list(read.jobs), tick=read.tick)
