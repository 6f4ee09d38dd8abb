"""The tokens of a checkpoint stay packed, and are to everybody a tuple."""

from __future__ import annotations

import pickle

from hypothesis import given
from hypothesis import strategies as st

from indextables.log.checkpoint.extras import pack_tokens, unpack_tokens
from indextables.log.wire.state import Tokens, TokenWindow

TOKENS = st.lists(st.none() | st.integers(1, (1 << 128) - 1).map("{:032x}".format), max_size=12).map(tuple)
PLACES = st.none() | st.integers(-14, 14)


@given(packed=TOKENS, more=TOKENS, start=PLACES, stop=PLACES, step=st.sampled_from([None, 1, 2, -1]))
def test_tokens_are_what_a_tuple_of_them_is(packed, more, start, stop, step):
    window = unpack_tokens(3, pack_tokens(TokenWindow(3, packed)), 2 + len(packed))
    assert window is not None
    tokens, plain = window.tokens + more, packed + more
    assert isinstance(tokens, Tokens)
    assert tokens == plain
    assert plain == tokens
    assert (len(tokens), hash(tokens), list(tokens)) == (len(plain), hash(plain), list(plain))
    assert tokens[start:stop:step] == plain[start:stop:step]
    assert tokens != (*plain, None)
    assert pickle.loads(pickle.dumps(tokens)) == plain  # noqa: S301 - its own bytes
    for token in {*plain, None, "f" * 32}:
        assert (token in tokens) == (token in plain)
    again = unpack_tokens(0, pack_tokens(TokenWindow(0, tokens)), len(plain) - 1)
    assert again == TokenWindow(0, plain)


@given(tokens=TOKENS, count=st.integers(0, 14))
def test_the_last_tokens_of_a_window(tokens, count):
    window = unpack_tokens(5, pack_tokens(TokenWindow(5, tokens)), 4 + len(tokens))
    assert window is not None
    assert window.last(count) == TokenWindow(5, tokens).last(count)
    for version in range(5, 5 + len(tokens)):
        assert window.covers(version)
        assert window.token_at(version) == tokens[version - 5]


def test_a_token_of_another_form_is_none_once_it_was_packed():
    window = unpack_tokens(0, pack_tokens(TokenWindow(0, ("short", "x" * 32, "0f" * 16))), 2)
    assert window == TokenWindow(0, (None, None, "0f" * 16))
