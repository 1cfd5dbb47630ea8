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
            (b'{"class":"A","args":[{"jid":"other"}],"jid":"own"}', b"own"),
            (b'{"jid":"own","error_message":"no such job: {\\"jid\\":\\"quoted\\"}"}', b"own"),
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
