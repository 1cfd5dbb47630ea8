import json
import time

import pytest

from kiqbridge.wire.raw_job import jid_in


class TestTheJidInAText:
    @pytest.mark.parametrize(
        ("text", "jid"),
        [
            (
                b'{"class":"A","args":[],"jid":"0123456789abcdef01234567"}',
                b"0123456789abcdef01234567",
            ),
            (b'{ "jid" :\n\t"a.B:c_d-9" , "args" : [] }', b"a.B:c_d-9"),
            (b'{"jid":"one","args":[{"jid":', b"one"),
            (b'{"jid":"\xff\xfe"}', None),
            (b'{"jid":""}', None),
            (b'{"jid":"' + b"a" * 100 + b'"}', b"a" * 100),
            (b'{"jid":"' + b"a" * 101 + b'"}', None),
            (b'{"jid":7}', None),
            (b'{"class":"A","args":[]}', None),
            (b"", None),
        ],
    )
    def test_it_is_found_without_parsing(self, text, jid):
        assert jid_in(text) == jid

    def test_it_is_that_of_the_job_and_not_one_among_its_arguments(self):
        text = json.dumps({"class": "A", "args": [{"jid": "other"}], "jid": "own"}).encode()

        assert jid_in(text) == b"own"

    def test_it_is_not_found_inside_of_a_string(self):
        message = 'no such job: {"jid":"quoted"}'
        text = json.dumps({"jid": "own", "args": [], "error_message": message}).encode()

        assert jid_in(text) == b"own"

    @pytest.mark.parametrize("part", [b'"jid"', b'"jid":"', b'"jid":"a', b'"jid": ', b'"jid":"a" '])
    def test_its_time_grows_with_the_length_of_the_text_alone(self, part):
        def seconds(size):
            # Nothing matches: the last character is none of a jid's.
            text = b'"jid"' + b" " * size + part * (size // len(part)) + b'"jid":"' + b"a" * size
            began = time.thread_time()
            jid_in(text)
            return time.thread_time() - began

        # A quadratic search would take hours for the second.
        assert min(seconds(10_000) for _ in range(3)) < 1
        assert seconds(4_000_000) < 20
