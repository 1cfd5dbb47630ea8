"""The jobs that an event asks for, as the enqueue function reads it; for events with one record."""

from kiqbridge.aws import sources
from kiqbridge.aws.record import Delivery
from kiqbridge.aws.requests import request_of


def parse_event(event, now):
    delivery = sources.read(event)
    assert isinstance(delivery, Delivery)
    [record] = delivery.records
    return request_of(record, now)
