"""HTTP between the runner and the rollout server on this machine: what is an answer, and what is not (decision 0062)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress

import pytest

from osmosis.shell.evaluation.loopback_http import Answer, Connection, LoopbackHttp, NoAnswer, field_value
from tests.integration.stub_provider import deaf_port

SOON = 90.0
"""Seconds for what happens at once."""

WHOLE = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nRetry-After: 7\r\n\r\nhello"
CHUNKED = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\nRetry-After: 7\r\n\r\n2\r\nhe\r\n3;x=y\r\nllo\r\n0\r\nT: 1\r\n\r\n"
CONTINUED = b"HTTP/1.1 100 Continue\r\nRetry-After: 99\r\n\r\n" + WHOLE
HELLO = Answer(200, b"hello", "7")


class Peer:
    """A server that gives each connection a script: pieces to send for each request in turn; None hangs up, "" stays silent."""

    def __init__(self, *scripts: tuple[bytes | None, ...]) -> None:
        self.scripts = list(scripts)
        self.asked: list[list[bytes]] = []
        self.was_asked, self.ended = asyncio.Event(), asyncio.Event()
        self.tasks: set[asyncio.Task[None]] = set()
        self.url = ""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection."""
        task = asyncio.current_task()
        assert task is not None
        self.tasks.add(task)
        asked: list[bytes] = []
        self.asked.append(asked)
        for piece in self.scripts.pop(0) if self.scripts else ():
            head = await reader.readuntil(b"\r\n\r\n")
            _, _, length = head.lower().partition(b"content-length: ")
            asked.append(head + await reader.readexactly(int(length.split(b"\r\n")[0]) if length else 0))
            self.was_asked.set()
            if piece is None:
                break
            writer.write(piece)
        else:
            await reader.read()
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()
        self.ended.set()


@asynccontextmanager
async def serving(*scripts: tuple[bytes | None, ...]) -> AsyncIterator[Peer]:
    """A peer while the context lasts."""
    peer = Peer(*scripts)
    server = await asyncio.start_server(peer.serve, "127.0.0.1", 0)
    peer.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with server:
        yield peer
        await asyncio.wait_for(asyncio.gather(*peer.tasks), SOON)


class Wire(asyncio.Transport):
    """Keeps what is written; nothing is at its other end."""

    def __init__(self) -> None:
        self.written = b""
        self.closed = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Keep."""
        self.written += data

    def abort(self) -> None:
        """Close."""
        self.closed = True

    def close(self) -> None:
        """Close."""
        self.closed = True


async def heard(*pieces: bytes, end: bool = False, longest: int = 1 << 20) -> tuple[Answer | str, Connection, Wire]:
    """What a question comes to when these pieces arrive, and perhaps the end of the connection."""
    connection, wire = Connection(set(), longest), Wire()
    connection.connection_made(wire)
    question = asyncio.ensure_future(connection.ask(b"GET"))
    await asyncio.sleep(0)
    for piece in pieces:
        connection.data_received(piece)
    if end:
        connection.connection_lost(None)
    try:
        return await asyncio.wait_for(question, SOON), connection, wire
    except NoAnswer as reason:
        return str(reason), connection, wire


def cuts(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Cut at every byte."""
    return ((data[:position], data[position:]) for position in range(1, len(data)))


@pytest.mark.parametrize("data", [WHOLE, CHUNKED, CONTINUED])
async def test_an_answer_is_the_same_in_whatever_pieces_it_comes(data):
    """Cut anywhere, and byte for byte: status, body and header are those of the whole, and the connection serves on."""
    for pieces in [(data,), *cuts(data), [data[place : place + 1] for place in range(len(data))]]:
        answer, connection, _ = await heard(*pieces)
        assert answer == HELLO
        assert connection.reusable


@pytest.mark.parametrize("data", [WHOLE, CHUNKED, CONTINUED])
async def test_an_answer_cut_short_is_none(data):
    """A connection that ends at any byte before the last says so, and never passes for an answer."""
    for begun, _ in cuts(data):
        answer, connection, _ = await heard(begun, end=True)
        assert answer == "the server closed the connection within its answer"
        assert not connection.reusable


async def test_a_body_may_end_with_its_connection():
    """As HTTP/1.0 servers do; cut in the headers, it is no answer."""
    data = b"HTTP/1.0 200 OK\r\nRetry-After: 7\r\n\r\nhello"
    for pieces in [(data,), *cuts(data)]:
        answer, connection, _ = await heard(*pieces, end=True)
        assert answer == HELLO
        assert not connection.reusable
    assert isinstance((await heard(data[:34], end=True))[0], str)


@pytest.mark.parametrize(
    "data",
    [
        b"not HTTP at all\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\nmore",
    ],
)
async def test_what_is_not_http_ends_the_connection(data):
    """With a reason; there is nothing to be learnt from what follows."""
    answer, connection, wire = await heard(data)
    assert isinstance(answer, str)
    assert wire.closed
    assert not connection.reusable


@pytest.mark.parametrize("data", [b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 20_000, WHOLE[:-5] + b"x" * 5000])
async def test_answers_have_a_longest_length(data):
    """A head or a body without end costs a bounded amount of memory."""
    data = data.replace(b"Content-Length: 5", b"Content-Length: 500000")
    answer, _, wire = await heard(*(data[place : place + 1000] for place in range(0, len(data), 1000)), longest=4000)
    assert answer == "the answer is too long"
    assert wire.closed


@pytest.mark.parametrize("extra", [b"x", b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"])
async def test_a_server_that_says_more_than_it_was_asked_is_not_asked_again(extra):
    """What it says would be taken for the next answer; it counts neither behind an answer nor on an idle connection."""
    answer, connection, wire = await heard(WHOLE + extra)
    assert answer == HELLO
    assert wire.closed
    answer, connection, wire = await heard(WHOLE)
    connection.data_received(extra)
    assert wire.closed
    assert not connection.reusable


async def test_connections_are_kept_unless_somebody_closes_them():
    """One connection for one question after the other; after `Connection: close` and after a pause another one."""
    closing = WHOLE.replace(b"Content-Length", b"Connection: close\r\nContent-Length")
    async with serving((WHOLE, WHOLE, closing), (WHOLE,)) as peer:
        client = LoopbackHttp(peer.url, idle=SOON)
        assert [await client.get("/a", within=SOON) for _ in range(4)] == [HELLO] * 4
        client.close()
    assert [len(asked) for asked in peer.asked] == [3, 1]
    async with serving((WHOLE,), (WHOLE,)) as peer:
        client = LoopbackHttp(peer.url, idle=0.0)
        assert [await client.get("/a", within=SOON) for _ in range(2)] == [HELLO] * 2
        client.close()
    assert [len(asked) for asked in peer.asked] == [1, 1]


async def test_what_is_sent_is_one_request():
    """Method, path, host, further headers, and a body with its length."""
    async with serving((WHOLE, WHOLE)) as peer:
        client = LoopbackHttp(peer.url, idle=SOON)
        await client.get("/a%20b", headers="X-Lease: t\r\n", within=SOON)
        await client.post("/c", b'{"d":1}', within=SOON)
        client.close()
    host = peer.url.removeprefix("http://").encode()
    common = b"Host: " + host + b"\r\nAccept-Encoding: identity\r\n"
    assert peer.asked[0] == [
        b"GET /a%20b HTTP/1.1\r\n" + common + b"X-Lease: t\r\n\r\n",
        b"POST /c HTTP/1.1\r\n" + common + b'Content-Type: application/json\r\nContent-Length: 7\r\n\r\n{"d":1}',
    ]


async def test_only_questions_are_repeated_on_a_closed_connection():
    """A kept connection that closes without a word: `GET` is sent again, once; `POST` may have had its effect and is not."""
    async with serving((WHOLE, None), (None,)) as peer:
        client = LoopbackHttp(peer.url, idle=SOON)
        await client.get("/a", within=SOON)
        with pytest.raises(NoAnswer, match="without an answer"):
            await client.get("/a", within=SOON)
        client.close()
    assert [len(asked) for asked in peer.asked] == [2, 1]
    async with serving((WHOLE, None), (WHOLE,)) as peer:
        client = LoopbackHttp(peer.url, idle=SOON)
        await client.get("/a", within=SOON)
        with pytest.raises(NoAnswer, match="without an answer"):
            await client.post("/a", b"{}", within=SOON)
        client.close()
    assert [len(asked) for asked in peer.asked] == [2]


async def test_silence_has_an_end_and_closes_the_connection():
    """The server sees the end, and a late answer has nobody to reach."""
    async with serving((WHOLE, b""), (WHOLE,)) as peer:
        client = LoopbackHttp(peer.url, idle=SOON)
        # On a connection that is there already, so that however little time there is, the question is asked.
        assert await client.get("/a", within=SOON) == HELLO
        with pytest.raises(NoAnswer, match=r"no answer within 0\.05 s"):
            await client.get("/b", within=0.05)
        await asyncio.wait_for(peer.ended.wait(), SOON)
        assert await client.get("/c", within=SOON) == HELLO
        client.close()
    assert [len(asked) for asked in peer.asked] == [2, 1]


async def test_a_question_that_is_given_up_takes_its_connection_along():
    """So nobody gets the answer to another's question."""
    async with serving((b"",), (WHOLE,)) as peer:
        client = LoopbackHttp(peer.url)
        question = asyncio.ensure_future(client.get("/a", within=SOON))
        await asyncio.wait_for(peer.was_asked.wait(), SOON)
        question.cancel()
        with pytest.raises(asyncio.CancelledError):
            await question
        await asyncio.wait_for(peer.ended.wait(), SOON)
        assert await client.get("/b", within=SOON) == HELLO
        client.close()


async def test_closing_ends_what_is_under_way():
    """Whoever still waits hears that there is no answer."""
    async with serving((b"",)) as peer:
        client = LoopbackHttp(peer.url)
        question = asyncio.ensure_future(client.get("/a", within=SOON))
        await asyncio.wait_for(peer.was_asked.wait(), SOON)
        client.close()
        with pytest.raises(NoAnswer, match="the client was closed"):
            await question


async def test_nobody_there():
    """A port that nobody listens at."""
    with deaf_port() as port, pytest.raises(NoAnswer, match="no connection to 127"):
        await LoopbackHttp(f"http://127.0.0.1:{port}").post("/a", b"", within=SOON)


@pytest.mark.parametrize("text", ["a\r\nHost: elsewhere", "a\nb", "a\0", "ä"])
def test_header_values_are_one_line_of_ascii(text):
    """A token from elsewhere cannot become a header or a request of its own."""
    assert field_value("A-b_9.~ x") == "A-b_9.~ x"
    with pytest.raises(ValueError, match="printable ASCII"):
        field_value(text)
