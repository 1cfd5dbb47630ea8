"""Chains of functions wrapped around a push or a job."""

from kiqbridge.client.middleware import Chain


def named(name, heard):
    def middleware(payload, call_next):
        heard.append(f"{name} in")
        result = call_next()
        heard.append(f"{name} out")
        return result

    middleware.__qualname__ = name
    return middleware


def entries(*names):
    return [named(name, []) for name in names]


class TestCalling:
    def test_the_first_one_added_is_the_outermost(self):
        heard = []
        chain = Chain(named("a", heard), named("b", heard))
        assert chain.invoke(({},), lambda: heard.append("job") or "done") == "done"
        assert heard == ["a in", "b in", "job", "b out", "a out"]
        assert Chain().invoke(("ignored",), lambda: 42) == 42

    def test_one_that_does_not_call_on_stops_what_is_inside(self):
        heard = []
        chain = Chain(named("a", heard), lambda _payload, _call_next: None, named("b", heard))

        assert chain.invoke(({},), lambda: heard.append("job")) is None
        assert heard == ["a in", "a out"]

    def test_one_may_change_the_arguments_and_the_result(self):
        def stamp(payload, call_next):
            payload["stamp"] = 1
            return call_next() | {"after": 2}

        payload = {"class": "A"}

        assert Chain(stamp).invoke((payload,), lambda: payload) == {
            "class": "A", "stamp": 1, "after": 2,
        }  # fmt: skip


class TestOrder:
    def test_entries_stand_where_they_were_put(self):
        a, b, c, d, absent = entries("a", "b", "c", "d", "absent")
        chain = Chain(b)
        chain.add(d)
        chain.prepend(a)
        chain.insert_before(d, c)
        assert list(chain) == [a, b, c, d]
        chain = Chain(a, c)
        chain.insert_after(a, b)
        chain.insert_after(absent, d)
        assert list(chain) == [a, b, c, d]
        chain.insert_before(absent, d)  # what is added again moves
        chain.add(a)
        assert list(chain) == [d, b, c, a]
        assert repr(chain) == "Chain(d, b, c, a)"

    def test_a_copy_changes_on_its_own_and_removing_what_is_not_in_does_nothing(self):
        a, b = entries("a", "b")
        chain = Chain(a)
        copy = chain.copy()
        copy.add(b)
        chain.remove(b)
        assert list(chain) == [a]
        chain.clear()
        assert (list(chain), list(copy)) == ([], [a, b])
