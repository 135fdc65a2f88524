"""JSON texts for Hypothesis: odd blanks, escapes, big numbers, members there twice. Not Python values: bytes matter."""

from hypothesis import strategies as st

blank = st.text(" \t\r\n", max_size=3)
number = st.one_of(
    st.integers(-(10**40), 10**40).map(str),
    st.sampled_from(["-0", "1e400", "1E-400", "0.10", "1.000000000000000000000000000001", "12345678901234567890"]),
)
escape = st.sampled_from([r"\u00e9", r"\/", r"\ud83d\ude00", r"\u0000", r"\"", r"\\", "é", "😀", "[", "{", " "])
string = st.lists(st.one_of(escape, st.sampled_from("abc,:")), max_size=6).map(lambda parts: '"' + "".join(parts) + '"')
scalar = st.one_of(number, string, st.sampled_from(["true", "false", "null"]))


def _containers(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    padded = st.tuples(blank, inner, blank).map("".join)
    member = st.tuples(blank, string, blank, padded).map(lambda parts: f"{parts[0]}{parts[1]}{parts[2]}:{parts[3]}")
    return st.one_of(
        st.lists(padded, min_size=1, max_size=4).map(lambda members: "[" + ",".join(members) + "]"),
        st.lists(member, min_size=1, max_size=4).map(lambda members: "{" + ",".join(members * 2) + "}"),
    )


value = st.recursive(scalar, _containers, max_leaves=12)
"""Any JSON value."""

members = st.lists(st.tuples(string, value), max_size=3).map(lambda pairs: [f"{name}:{text}" for name, text in pairs])
"""Members of an object, as texts; names may repeat."""
