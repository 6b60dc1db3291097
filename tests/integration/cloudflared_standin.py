"""A program that behaves like `cloudflared tunnel` or misbehaves as its first argument file tells it. Installed by the tests
under the name `cloudflared`; it forwards a port of its own on loopback to the listener that it is given.

How to behave stands in the file `behaviour` beside the program: words, of which each does one thing. A file `done` says that
all are done.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
LIFETIME = 300.0
"""Seconds after which it ends in any case."""


async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Copy until the end."""
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    except ConnectionError:
        pass
    finally:
        writer.close()


def say(text: str) -> None:
    """A line on standard error."""
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


SAYINGS = {
    "announce": "INF |  {url}  |",
    "announce-dead": "INF |  http://127.0.0.1:1  |",
    "lie": "INF Registered tunnel connection connIndex=0",
    "rate-limit": "ERR failed to unmarshal quick Tunnel: error code: 1015",
    "long-line": "x" * 300_000,
    "chatter": "\n".join(f"INF line {index} {'.' * 50}" for index in range(5000)),
}


async def behave(word: str, url: str) -> int | None:
    """Do one thing; an exit code ends the program."""
    match word:
        case "exit-1":
            say("ERR giving up")
            return 1
        case "stubborn":
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        case "child":
            child = await asyncio.create_subprocess_exec("sleep", "60")
            (HERE / "child.pid").write_text(str(child.pid))
        case "die-on-cue":
            os.mkfifo(HERE / "cue")
            with await asyncio.to_thread(open, HERE / "cue", "rb") as cue:
                await asyncio.to_thread(cue.read)
            say("ERR lost the edge")
            return 3
        case _ if word in SAYINGS:
            say(SAYINGS[word].format(url=url))
    return None


async def main() -> int:
    """Do what `behaviour` says, in order."""
    words = (HERE / "behaviour").read_text().split()
    (HERE / "seen.json").write_text(json.dumps({"argv": sys.argv[1:], "environment": dict(os.environ), "pid": os.getpid()}))
    host, port = sys.argv[sys.argv.index("--url") + 1].removeprefix("http://").split(":")

    async def forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if "wrong-answer" in words:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
            writer.close()
            return
        upstream_reader, upstream_writer = await asyncio.open_connection(host, int(port))
        await asyncio.gather(pump(reader, upstream_writer), pump(upstream_reader, writer))

    server = await asyncio.start_server(forward, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    for word in words:
        if (code := await behave(word, url)) is not None:
            return code
    (HERE / "done").touch()
    await asyncio.sleep(LIFETIME)
    return 0


if __name__ == "__main__":
    raise SystemExit(asyncio.run(main()))
