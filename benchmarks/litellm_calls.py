"""What a person with LiteLLM and an afternoon writes. `litellm_calls.py ROWS URL OUT` asks each row, compares, writes lines.

No retries, no resume, no sandbox, no log: the floor of what Python with that library takes.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

import litellm

IN_FLIGHT = 64


async def ask(slots: asyncio.Semaphore, row: dict[str, str], url: str) -> str:
    """One call; the line that is written of it."""
    async with slots:
        answer = await litellm.acompletion(
            model="openai/stub", messages=[{"role": "user", "content": row["input"]}], api_base=url, api_key="benchmark"
        )
    text, usage = answer.choices[0].message.content, answer.usage.total_tokens
    return json.dumps({**row, "output": text, "tokens": usage, "reward": float(text == row["target"])}) + "\n"


async def ask_all(rows: list[dict[str, str]], url: str) -> list[str]:
    """Every row."""
    slots = asyncio.Semaphore(IN_FLIGHT)
    return await asyncio.gather(*(ask(slots, row, url) for row in rows))


def main(rows: str, url: str, out: str) -> None:
    """Exit code 1 unless every answer is right."""
    litellm.suppress_debug_info = True
    found = asyncio.run(ask_all([json.loads(line) for line in Path(rows).read_text().splitlines()], url))
    Path(out).write_text("".join(found))
    sys.exit(any(json.loads(line)["reward"] != 1.0 for line in found))


if __name__ == "__main__":
    main(*sys.argv[1:])
