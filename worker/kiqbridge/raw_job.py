"""What can be known of a job's text without parsing it.

A text may be what kills a process: 10 MB of nested lists are 300 MB of Python objects. Whoever must
survive it (the reaper, the poller, the parent of a child process that runs a suspect) works on its
bytes alone, in time and memory that grow with its length and with nothing else.
"""

import re

_JID = re.compile(rb'"jid"\s*:\s*"([A-Za-z0-9_.:-]+)"')
_JID_NAME = b'"jid"'
_LONGEST_JID = 100
"""Bytes of a jid that becomes part of a key's name."""


def jid_in(text: bytes) -> bytes | None:
    """The value of the last `"jid"` in a text whose value is made of `[A-Za-z0-9_.:-]`, in linear time.

    The last one, since all clients write the job's own jid behind its arguments, which may hold the
    jids of other jobs. Inside of a JSON string it is never found: quotes are escaped there. None if
    there is none, or if it is longer than 100 bytes. The same in Lua, anchored to stay linear:
    `^.*"jid"%s*:%s*"([%w_.:-]+)"`.
    """
    end = len(text)
    while (start := text.rfind(_JID_NAME, 0, end)) >= 0:
        found = _JID.match(text, start)
        if found:
            return found[1] if len(found[1]) <= _LONGEST_JID else None
        end = start
    return None
