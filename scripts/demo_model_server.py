"""Serve SmolLM2-135M-Instruct on loopback as an OpenAI-compatible endpoint; the demo's cassette is recorded from it.

Runs in the environment that `record_demo.py` makes. llama-cpp-python's own server knows JSON schemas only in a dialect of its
own, so this one translates the `response_format` of the OpenAI protocol. Anything it does not understand is refused, never
dropped. Calls are answered one at a time.

The seed of a call is derived from the request and from how often the same request came before. Equal requests of different
runs are therefore answered differently, and a recording made with one rollout in flight can be made again.

The first line on standard output is the base URL. The server ends when its standard input is closed.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import threading
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from llama_cpp import Llama  # type: ignore[import-not-found, unused-ignore]  # only in the recording environment

MODEL = "smollm2-135m-instruct"
CONTEXT_TOKENS = 2048
LARGEST_BODY = 1_000_000
PASSED_THROUGH = ("messages", "temperature", "top_p", "max_tokens", "stop")
UNDERSTOOD = frozenset({*PASSED_THROUGH, "model", "n", "stream", "response_format"})


class RefusedError(Exception):
    """The request asks for something that this server does not do."""


class Model:
    """The model and the number of times that each request was seen."""

    def __init__(self, path: Path, threads: int) -> None:
        self._llama = Llama(str(path), n_ctx=CONTEXT_TOKENS, n_threads=threads, n_threads_batch=threads, verbose=False)
        self._seen: Counter[bytes] = Counter()
        self._turn = threading.Lock()

    def complete(self, body: dict[str, Any]) -> dict[str, Any]:
        """Answer one chat-completion request. Raises RefusedError."""
        arguments = _arguments(body)
        digest = hashlib.sha256(json.dumps(body, sort_keys=True).encode()).digest()
        with self._turn:
            seed = _seed(digest, self._seen[digest])
            self._seen[digest] += 1
            answer: dict[str, Any] = self._llama.create_chat_completion(**arguments, seed=seed)
        return {**answer, "model": MODEL}


def _seed(digest: bytes, ordinal: int) -> int:
    return int.from_bytes(hashlib.sha256(digest + ordinal.to_bytes(4, "big")).digest()[:4], "big") >> 1


def _arguments(body: dict[str, Any]) -> dict[str, Any]:
    if unknown := sorted(body.keys() - UNDERSTOOD):
        raise RefusedError(f"this server does not know: {', '.join(unknown)}")
    if body.get("stream") or body.get("n") not in (None, 1):
        raise RefusedError("this server gives one answer, unstreamed")
    if not isinstance(body.get("messages"), list):
        raise RefusedError("messages must be a list")
    arguments = {key: body[key] for key in PASSED_THROUGH if body.get(key) is not None}
    if response_format := body.get("response_format"):
        try:
            schema = response_format["json_schema"]["schema"]
        except (KeyError, TypeError):
            raise RefusedError("response_format must be of type json_schema") from None
        arguments["response_format"] = {"type": "json_object", "schema": schema}
    return arguments


class Handler(BaseHTTPRequestHandler):
    """`POST /v1/chat/completions` and `GET /v1/models`."""

    protocol_version = "HTTP/1.1"
    model: Model

    def do_GET(self) -> None:
        """List the one model."""
        if self.path == "/v1/models":
            self._answer(200, {"object": "list", "data": [{"id": MODEL, "object": "model"}]})
        else:
            self._refuse(404, "not found")

    def do_POST(self) -> None:
        """Complete a chat."""
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal() or int(length) > LARGEST_BODY:
            self.close_connection = True
            self._refuse(413, f"a body of at most {LARGEST_BODY} bytes with its length is needed")
            return
        data = self.rfile.read(int(length))
        if self.path != "/v1/chat/completions":
            self._refuse(404, "not found")
            return
        try:
            body = json.loads(data)
            if not isinstance(body, dict):
                raise RefusedError("the body must be a JSON object")
            self._answer(200, self.model.complete(body))
        except (RefusedError, ValueError) as error:
            self._refuse(400, str(error))

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name is inherited
        """Keep silent: the runner's output is the one to watch."""

    def _refuse(self, status: int, message: str) -> None:
        self._answer(status, {"error": {"message": message, "type": "invalid_request_error", "code": status}})

    def _answer(self, status: int, payload: dict[str, Any]) -> None:
        data = json.dumps(payload).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


def main() -> None:
    """Serve until standard input is closed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", type=Path, help="GGUF file of the model")
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    Handler.model = Model(options.model, options.threads)
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        print(f"http://127.0.0.1:{server.server_address[1]}/v1", flush=True)
        sys.stdin.read()
        server.shutdown()


if __name__ == "__main__":
    main()
