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

        result = chain.invoke(({},), lambda: heard.append("job") or "done")

        assert heard == ["a in", "b in", "job", "b out", "a out"]
        assert result == "done"

    def test_an_empty_chain_only_does_the_work(self):
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

    def test_an_error_passes_through_all_of_them(self):
        heard = []

        def tell(payload, call_next):
            try:
                return call_next()
            except LookupError:
                heard.append("seen")
                raise

        try:
            Chain(tell, tell).invoke(({},), {}.popitem)
        except KeyError:
            heard.append("raised")

        assert heard == ["seen", "seen", "raised"]


class TestOrder:
    def test_prepending_puts_outermost_and_adding_innermost(self):
        a, b, c = entries("a", "b", "c")
        chain = Chain(b)

        chain.add(c)
        chain.prepend(a)

        assert list(chain) == [a, b, c]

    def test_inserting_is_relative_to_another(self):
        a, b, c, d = entries("a", "b", "c", "d")
        chain = Chain(a, d)

        chain.insert_after(a, b)
        chain.insert_before(d, c)

        assert list(chain) == [a, b, c, d]

    def test_inserting_beside_what_is_not_there_goes_to_the_end_of_that_side(self):
        a, b, c, absent = entries("a", "b", "c", "absent")
        chain = Chain(b)

        chain.insert_before(absent, a)
        chain.insert_after(absent, c)

        assert list(chain) == [a, b, c]

    def test_what_is_added_again_moves(self):
        a, b, c = entries("a", "b", "c")
        chain = Chain(a, b, c)

        chain.add(a)
        chain.prepend(c)
        chain.insert_before(c, b)

        assert list(chain) == [b, c, a]

    def test_removing_what_is_not_in_does_nothing(self):
        a, b = entries("a", "b")
        chain = Chain(a)

        chain.remove(b)
        chain.remove(a)

        assert len(chain) == 0

    def test_a_copy_changes_on_its_own(self):
        a, b = entries("a", "b")
        chain = Chain(a)

        copy = chain.copy()
        copy.add(b)
        chain.clear()

        assert (list(chain), list(copy)) == ([], [a, b])

    def test_its_repr_names_the_entries_in_order(self):
        assert repr(Chain(*entries("tenant", "trace"))) == "Chain(tenant, trace)"
