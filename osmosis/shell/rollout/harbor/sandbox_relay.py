"""Carries connections from a sandbox's only port to the model bridge, and nowhere else (ruling 26)."""

from __future__ import annotations

import asyncio
import socket
from contextlib import suppress

_CHUNK = 1 << 16
_CONNECTIONS = 64


class Relay:
    """Accepts on a socket that belongs to a sandbox's network and connects to one address of this machine."""

    def __init__(self, listening: socket.socket, host: str, port: int) -> None:
        self._listening = listening
        self._host = host
        self._port = port
        self._places = asyncio.Semaphore(_CONNECTIONS)
        self._connections: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        """Serve from now on."""
        self._server = await asyncio.start_server(self._accepted, sock=self._listening)

    async def stop(self) -> None:
        """Close the port and every connection."""
        if self._server is not None:
            self._server.close()
        self._listening.close()
        for connection in self._connections:
            connection.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    async def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None  # a coroutine that runs is in a task
        self._connections.add(task)
        try:
            async with self._places:
                await self._carry(reader, writer)
        except OSError:
            pass
        finally:
            self._connections.discard(task)
            writer.close()

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection(self._host, self._port)
        pumps = [asyncio.ensure_future(_pump(reader, back)), asyncio.ensure_future(_pump(there, writer))]
        try:
            await asyncio.gather(*pumps)
        finally:
            for pump in pumps:
                pump.cancel()
            back.close()


async def _pump(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    while chunk := await source.read(_CHUNK):
        target.write(chunk)
        await target.drain()
    with suppress(OSError):
        target.write_eof()
