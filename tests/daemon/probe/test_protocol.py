"""The frames between daemon and probe: messages arrive unchanged, and nothing else is accepted."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from iowarden.daemon.probe.protocol import (
    LENGTH_BYTES,
    MAX_ARGUMENTS,
    MAX_DEADLINE_SECONDS,
    MAX_REPLY_BYTES,
    MAX_REQUEST_BYTES,
    Cancel,
    Decoder,
    Hello,
    Message,
    ProbeReply,
    ProtocolError,
    ReplyStatus,
    Request,
    Stuck,
    StuckNow,
    decode,
    encode,
)

LIMIT = 2048
INTEGERS = st.integers(-(2**63) + 1, 2**63 - 1)
SECONDS = st.floats(allow_nan=False, allow_infinity=False)
TEXTS = st.one_of(
    st.text(max_size=30),
    # A program's output, and a file name, need not be UTF-8.
    st.binary(max_size=30).map(lambda raw: raw.decode(errors="surrogateescape")),
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | SECONDS | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=10,
)
LISTS = st.lists(TEXTS, max_size=4).map(tuple)
STUCK = st.lists(
    st.builds(Stuck, INTEGERS, INTEGERS, LISTS, LISTS, LISTS, SECONDS), max_size=3
).map(tuple)
MESSAGES: st.SearchStrategy[Message] = st.one_of(
    st.builds(Hello, INTEGERS, st.dictionaries(TEXTS, TEXTS, max_size=4), STUCK),
    st.builds(
        Request,
        INTEGERS,
        TEXTS,
        LISTS,
        st.floats(0, MAX_DEADLINE_SECONDS, exclude_min=True),
        st.integers(1, MAX_REPLY_BYTES),
    ),
    st.builds(Cancel, INTEGERS),
    st.builds(StuckNow, STUCK),
    st.builds(
        ProbeReply,
        INTEGERS,
        st.sampled_from(ReplyStatus),
        TEXTS,
        st.dictionaries(TEXTS, VALUES, max_size=4),
        SECONDS,
    ),
)


def framed(body: bytes) -> bytes:
    """A frame with an arbitrary body."""
    return len(body).to_bytes(LENGTH_BYTES, "big") + body


def in_pieces(whole: bytes, cuts: list[int]) -> list[bytes]:
    """The bytes, split at these places."""
    at = sorted({0, len(whole), *(cut % (len(whole) + 1) for cut in cuts)})
    return [whole[start:end] for start, end in itertools.pairwise(at)]


@given(MESSAGES)
@example(Request(1, "newest", ("/srv/\udcff\udce4",)))
@example(ProbeReply(1, ReplyStatus.DONE, value={"a": 10**4000}))
def test_a_message_arrives_as_it_was_sent(message: Message) -> None:
    """Every kind, with texts of any bytes, numbers of any size, and values of any shape."""
    frame = encode(message)
    assert int.from_bytes(frame[:LENGTH_BYTES], "big") == len(frame) - LENGTH_BYTES
    assert decode(frame[LENGTH_BYTES:]) == message


@given(st.lists(MESSAGES, max_size=5), st.lists(st.integers(0, 10_000), max_size=10))
def test_frames_may_be_cut_anywhere(messages: list[Message], cuts: list[int]) -> None:
    """A stream socket has no message borders: the same messages arrive, in order, no rest."""
    decoder = Decoder(MAX_REPLY_BYTES)
    whole = b"".join(encode(message) for message in messages)
    assert [m for piece in in_pieces(whole, cuts) for m in decoder.feed(piece)] == messages
    assert not decoder.waiting()


def test_a_frame_byte_by_byte_is_owed_until_its_end() -> None:
    """Part of a frame is distinguished from none: the other side still has to send the rest."""
    decoder = Decoder(LIMIT)
    *most, last = encode(Cancel(1))
    for byte in most:
        assert decoder.feed(bytes([byte])) == []
        assert decoder.waiting()
    assert decoder.feed(bytes([last])) == [Cancel(1)]
    assert not decoder.waiting()


TOKENS = st.sampled_from(
    [
        *b'{}[],:"\\',
        *(
            "id verb cancel hello stuck outcome done version programs value arguments pid error"
            " deadline_seconds limit_bytes start_ticks controllers devices since_seconds true null"
            " NaN Infinity -1 1e999 0 600 1.5 \\ud800 \xff"
        ).split(),
    ]
).map(lambda token: chr(token) if isinstance(token, int) else token)
NEARLY_JSON = st.lists(TOKENS, max_size=40).map(lambda tokens: "".join(tokens).encode())
NEARLY_MESSAGES = st.dictionaries(
    st.sampled_from(
        "id verb cancel hello stuck outcome error value arguments deadline_seconds version"
        " programs limit_bytes duration_seconds".split()
    ),
    VALUES | st.sampled_from([[{"pid": 1}], {"version": True}, {"programs": {"a": 1}}, [[]]]),
    max_size=5,
).map(lambda found: json.dumps(found).encode())


@given(
    st.lists(
        st.one_of(
            st.binary(max_size=200),
            st.binary(max_size=200).map(framed),
            NEARLY_JSON.map(framed),
            NEARLY_MESSAGES.map(framed),
            MESSAGES.map(encode),
        ),
        max_size=6,
    ),
    st.lists(st.integers(0, 10_000), max_size=10),
)
def test_any_bytes_are_messages_or_refused(said: list[bytes], cuts: list[int]) -> None:
    """Any input is decoded or a ProtocolError, short enough to log, and memory is limited.

    After a refusal, nothing that follows is taken for a message.
    """
    decoder = Decoder(LIMIT)
    pieces = iter(in_pieces(b"".join(said), cuts))
    refusal = ""
    for piece in pieces:
        try:
            messages = decoder.feed(piece)
        except ProtocolError as error:
            refusal = str(error)
            break
        assert len(decoder._buffer) < LENGTH_BYTES + LIMIT
        for message in messages:
            assert decode(encode(message)[LENGTH_BYTES:]) == message
    assert len(refusal) < 1000
    for piece in pieces:
        with pytest.raises(ProtocolError):
            decoder.feed(piece)


def test_a_huge_frame_is_refused_by_its_length() -> None:
    """None of it is collected: 4 bytes are enough to refuse it."""
    decoder = Decoder(MAX_REQUEST_BYTES)
    with pytest.raises(ProtocolError, match="at most 65536 bytes, got 65537"):
        decoder.feed((MAX_REQUEST_BYTES + 1).to_bytes(LENGTH_BYTES, "big"))
    fitting = Decoder(MAX_REQUEST_BYTES)
    assert fitting.feed(MAX_REQUEST_BYTES.to_bytes(LENGTH_BYTES, "big")) == []


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b'{"id": 1, "outcome": "done", "value": {"a": NaN}}', "expected a number, got NaN"),
        (b'{"id": 1, "outcome": "done", "value": {"a": -Infinity}}', "got -Infinity"),
        (b'{"id": 1, "outcome": "done", "value": {"a": 1e999}}', "at most 64 bits, got 1e999"),
        (b'{"id": 1, "outcome": "done", "duration_seconds": 1%s}' % (b"0" * 400), "too large"),
        (b'{"id": 1%s, "outcome": "done"}' % (b"0" * 5000), "ValueError"),
        (
            b'{"id": 9223372036854775808, "outcome": "done"}',
            "'id': expected an integer of at most 64",
        ),
        (b'{"id": true, "outcome": "done"}', "'id': expected int, got True"),
        (b'{"id": 1.0, "outcome": "done"}', "'id': expected int, got 1.0"),
        (b'{"id": 1, "outcome": "well"}', "'well' is not a valid ReplyStatus"),
        (b'{"outcome": "done"}', "KeyError: 'id'"),
        (b'{"id": 1, "verb": "run", "deadline_seconds": 0}', "expected up to 600"),
        (b'{"id": 1, "verb": "run", "deadline_seconds": 601}', "expected up to 600"),
        (b'{"id": 1, "verb": "run", "deadline_seconds": "1"}', "expected a number, got '1'"),
        (b'{"id": 1, "verb": "run", "limit_bytes": 0}', "expected up to 8388608"),
        (b'{"id": 1, "verb": "run", "limit_bytes": 8388609}', "expected up to 8388608"),
        (b'{"id": 1, "verb": "run", "arguments": "-a"}', "'?arguments'?: expected list"),
        (b'{"id": 1, "verb": "run", "arguments": [1]}', "an item of 'arguments': expected str"),
        (b'{"hello": {"version": "1"}}', "'version': expected int, got '1'"),
        (b'{"hello": {"version": 1, "programs": {"a": null}}}', "'programs.a': expected str"),
        (b'{"stuck": [[]]}', "an item of 'stuck': expected dict"),
        (b"[]", "the frame: expected dict"),
        (b"", "JSONDecodeError"),
        (b"\xff\xfe", "UnicodeDecodeError"),
        ('{"cancel": 1}'.encode("utf-16"), "UnicodeDecodeError"),
    ],
)
def test_what_the_protocol_does_not_know_is_refused(body: bytes, expected: str) -> None:
    """Each shows what was expected, and of which field."""
    with pytest.raises(ProtocolError, match=expected):
        decode(body)


def test_too_many_arguments_are_refused() -> None:
    """No known program takes as many."""
    decode(encode(Request(1, "run", ("x",) * MAX_ARGUMENTS))[LENGTH_BYTES:])
    with pytest.raises(ProtocolError, match="expected up to 64"):
        decode(encode(Request(1, "run", ("x",) * (MAX_ARGUMENTS + 1)))[LENGTH_BYTES:])


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
def test_a_number_that_json_does_not_have_is_not_sent(number: float) -> None:
    """Otherwise the other side would drop the whole connection because of it."""
    with pytest.raises(ValueError, match="not JSON compliant"):
        encode(ProbeReply(1, ReplyStatus.DONE, value={"a": [number]}))


def nested(opening: str, closing: str, depth: int) -> bytes:
    """An answer whose value is nested to the limit; frame and value are two more levels."""
    inner = opening * (depth - 2) + "1" + closing * (depth - 2)
    return f'{{"id":1,"outcome":"done","value":{{"a":{inner}}}}}'.encode()


@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ('{"a":', "}")])
def test_nesting_is_bounded(opening: str, closing: str) -> None:
    """Nesting deeper than 64 is refused, also if brackets never close; in text they are text."""
    assert isinstance(decode(nested(opening, closing, 64)), ProbeReply)
    for body in (
        nested(opening, closing, 65),
        nested(opening, closing, 100_000),
        opening.encode() * 100_000,
        closing.encode() * 100_000 + opening.encode() * 100_000,
    ):
        with pytest.raises(ProtocolError):
            decode(body)
    text = '\\"' + (opening + closing) * 50 + opening * 100 + "\\"
    answer = ProbeReply(1, ReplyStatus.DONE, value={"text": text, "list": [[[]]] * 100})
    assert decode(encode(answer)[LENGTH_BYTES:]) == answer


def test_deep_nesting_does_not_overflow_the_stack_of_a_thread() -> None:
    """Threads have small stacks, locked in memory; the limit of json is higher in Python 3.12."""
    program = (
        "import threading\n"
        "from iowarden.daemon.probe.protocol import ProtocolError, decode\n"
        "def run():\n"
        "    for body in (b'[' * 100_000, b'{\"a\":' * 100_000, b'[' * 5000 + b']' * 5000):\n"
        "        try:\n"
        "            decode(body)\n"
        "        except ProtocolError:\n"
        "            print('refused')\n"
        "threading.stack_size(128 * 1024)\n"
        "thread = threading.Thread(target=run)\n"
        "thread.start()\n"
        "thread.join()\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False)
    assert (done.returncode, done.stdout) == (0, b"refused\n" * 3), done.stderr
