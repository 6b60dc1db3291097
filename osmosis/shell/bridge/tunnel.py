"""A managed `cloudflared` quick tunnel: started, proven through its public URL, watched, stopped (E3, `eval_local.md` 11)."""

from __future__ import annotations

import asyncio
import os
import re
import signal
from collections import deque
from collections.abc import Callable
from contextlib import suppress

import aiohttp

from osmosis.pure.tunnel import (
    PROGRAM,
    PROOF_HEADER,
    QUICK_TUNNEL_URL,
    is_rate_limited,
    missing_program,
    never_ready,
    public_url,
)

READY_SECONDS = 30.0
PROBE_SECONDS = 1.0
PROBE_TIMEOUT_SECONDS = 5.0
STOP_SECONDS = 5.0
KEPT_LINES = 8
LINE_LIMIT = 2**16
"""Longest line that is looked at; what comes after it, up to the next line, is skipped."""

_PASSED_ON = ("PATH", "HOME", "LANG", "TMPDIR", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "SSL_CERT_FILE", "SSL_CERT_DIR")
"""What the program needs of the environment. It gets no secrets, and no TUNNEL_ variables that would reconfigure it."""


class Tunnel:
    """A tunnel that works. `url` is its public URL. Use `Tunnel.start`."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.url = ""
        self.pid = process.pid
        self._process = process
        self._lines: deque[str] = deque(maxlen=KEPT_LINES)
        self._rate_limited = False
        self._announced: asyncio.Event = asyncio.Event()
        self._reader: asyncio.Task[None] | None = None
        self._watcher: asyncio.Task[None] | None = None
        self._stopping = False

    @classmethod
    async def start(
        cls,
        listener_url: str,
        proof: str,
        *,
        on_spawn: Callable[[int], None] = lambda _: None,
        on_exit: Callable[[str], None] = lambda _: None,
        ready_seconds: float = READY_SECONDS,
        probe_seconds: float = PROBE_SECONDS,
        pattern: re.Pattern[str] = QUICK_TUNNEL_URL,
    ) -> Tunnel:
        """Start a tunnel to `listener_url` and wait until the bridge answers through it with `proof`.

        `on_spawn` gets the process id at once; `on_exit` is called with a sentence if the tunnel ends by itself later on.
        Raises OsmosisError when the program is missing, ends early, is refused a tunnel, or does not get through in time;
        no process is left then.
        """
        environment = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
        arguments = ("tunnel", "--config", os.devnull, "--url", listener_url, "--no-autoupdate")
        try:
            process = await asyncio.create_subprocess_exec(
                PROGRAM,
                *arguments,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.PIPE,
                env=environment,
                start_new_session=True,
                limit=LINE_LIMIT,
            )
        except OSError:
            raise missing_program() from None
        tunnel = cls(process)
        try:
            on_spawn(process.pid)
            await tunnel._become_ready(proof, pattern, ready_seconds, probe_seconds)
        except BaseException:
            await tunnel.stop(0.0)
            raise
        tunnel._watcher = asyncio.create_task(tunnel._watch(on_exit))
        return tunnel

    async def stop(self, grace: float = STOP_SECONDS) -> bool:
        """End the program and whatever it started: SIGTERM, `grace` seconds, SIGKILL. Whether it is certainly gone."""
        self._stopping = True
        if self._watcher is not None:
            self._watcher.cancel()
        if self._process.returncode is None:
            self._signal(signal.SIGTERM)
            if not await self._gone_within(grace):
                self._signal(signal.SIGKILL)
                await self._gone_within(STOP_SECONDS)
        # Also what the program may have started and left behind.
        self._signal(signal.SIGKILL)
        if self._reader is not None:
            self._reader.cancel()
            await asyncio.wait({self._reader})
        return self._process.returncode is not None

    def _signal(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, number)

    async def _gone_within(self, seconds: float) -> bool:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._process.wait()
        return self._process.returncode is not None

    # --- Until it works ----------------------------------------------------------------------------------------------------

    async def _become_ready(self, proof: str, pattern: re.Pattern[str], ready_seconds: float, probe_seconds: float) -> None:
        self._reader = asyncio.create_task(self._read(pattern))
        self._trouble = "it announced no public URL"
        exited = asyncio.create_task(self._process.wait())
        getting_through = asyncio.create_task(self._get_through(proof, probe_seconds))
        try:
            done, _ = await asyncio.wait({exited, getting_through}, timeout=ready_seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (exited, getting_through):
                task.cancel()
            await asyncio.wait({exited, getting_through})
        if getting_through in done and not getting_through.cancelled() and self._process.returncode is None:
            getting_through.result()
            return
        if exited in done:
            # What it said last is in the pipe.
            await asyncio.wait({self._reader}, timeout=1.0)
            reason = f"it ended with {_ending(self._process.returncode)} before the tunnel was up"
        else:
            reason = f"not ready within {ready_seconds:g} s: {self._trouble}"
        raise never_ready(reason, tuple(self._lines), rate_limited=self._rate_limited)

    async def _get_through(self, proof: str, probe_seconds: float) -> None:
        await self._announced.wait()
        # The quick tunnel's name is new, so nothing may be reused and nothing is redirected elsewhere.
        timeout = aiohttp.ClientTimeout(total=PROBE_TIMEOUT_SECONDS)
        connector = aiohttp.TCPConnector(force_close=True, use_dns_cache=False)
        async with aiohttp.ClientSession(connector=connector, timeout=timeout, trust_env=True) as session:
            while True:
                if await self._answers(session, proof):
                    return
                await asyncio.sleep(probe_seconds)

    async def _answers(self, session: aiohttp.ClientSession, proof: str) -> bool:
        try:
            async with session.get(f"{self.url}/", allow_redirects=False) as response:
                if response.headers.get(PROOF_HEADER) == proof:
                    return True
                self._trouble = f"{self.url} answers with HTTP {response.status}, which is not the bridge's answer"
        except aiohttp.ClientConnectorDNSError:
            self._trouble = f"the name of {self.url} is not known yet"
        except TimeoutError:
            self._trouble = f"{self.url} does not answer within {PROBE_TIMEOUT_SECONDS:g} s"
        except (aiohttp.ClientError, OSError) as error:
            self._trouble = f"{self.url} cannot be reached: {str(error) or type(error).__name__}"
        return False

    async def _read(self, pattern: re.Pattern[str]) -> None:
        """Read the program's words for its whole life; a full pipe would stop it."""
        stream = self._process.stderr
        assert stream is not None
        while True:
            try:
                line = await stream.readline()
            except ValueError:
                # Longer than LINE_LIMIT: the stream dropped it.
                continue
            if not line:
                return
            text = line.decode("utf-8", "replace").strip()
            if not text:
                continue
            self._lines.append(text[:500])
            if self._announced.is_set():
                continue
            self._rate_limited = self._rate_limited or is_rate_limited(text)
            if url := public_url(text, pattern):
                self.url = url
                self._announced.set()

    async def _watch(self, on_exit: Callable[[str], None]) -> None:
        code = await self._process.wait()
        if self._reader is not None:
            await asyncio.wait({self._reader}, timeout=1.0)
        if not self._stopping:
            last = f"; its last words: {self._lines[-1]}" if self._lines else ""
            on_exit(f"the tunnel to the model ended with {_ending(code)}{last}")


def _ending(code: int | None) -> str:
    if code is not None and code < 0:
        return f"signal {signal.Signals(-code).name}"
    return f"exit code {code}"
