"""Run names: generated as adjective-animal-number, or given with `--name` (E19; contract `eval_local.md` section 6).

A name becomes a directory and, with a suffix, an archive directory and a lock file. Chance comes in as a number.
"""

from __future__ import annotations

from osmosis.pure.errors import OsmosisError

MAX_NAME_LENGTH = 96
MAX_NAME_BYTES = 200
"""File systems allow 255 bytes a name; the rest is room for `.archive-<utc-timestamp>-<n>` and temporary suffixes."""

_ADJECTIVES = """
agile amber arctic bold brave breezy bright brisk calm candid cheerful clever coastal copper cosmic crisp curious
dapper daring deft eager early fabled gentle golden hardy hidden humble jolly keen kind limber lively lucid lunar
mellow merry misty nimble noble patient placid proud quick quiet rapid roving sage serene silver smooth snowy solar
steady stellar sunny swift tidy upbeat velvet vivid warm wise witty
"""
ADJECTIVES = tuple(_ADJECTIVES.split())
_ANIMALS = """
alpaca antelope axolotl badger beaver bison bobcat capybara caracal cheetah condor cormorant cougar coyote crane dingo
dolphin eagle egret falcon ferret finch fox gazelle gecko gibbon hare hawk heron hornbill ibex ibis iguana jackal
jaguar kestrel kingfisher koala lemur leopard llama lynx macaw magpie manatee marmot marten meerkat narwhal newt
ocelot orca osprey otter owl panda pelican penguin puffin quail raven salmon seal sparrow stork swan tapir tern toucan
walrus wombat wren yak zebra
"""
ANIMALS = tuple(_ANIMALS.split())
NAME_COUNT = len(ADJECTIVES) * len(ANIMALS) * 100
"""How many names there are; `generate` gives a different one for each number below it."""


def generate(number: int) -> str:
    """The generated name for a random `number` >= 0: `<adjective>-<animal>-<0..99>`. Numbers wrap around at NAME_COUNT."""
    rest, suffix = divmod(number % NAME_COUNT, 100)
    animal, adjective = divmod(rest, len(ADJECTIVES))
    return f"{ADJECTIVES[adjective]}-{ANIMALS[animal]}-{suffix}"


def validate_name(name: str) -> str:
    """Return `name` if a run may be called that; raise OsmosisError with the reason otherwise.

    At most 96 characters (and 200 bytes), each a letter, a digit or one of `.`, `_`, `-`; the first neither `.` nor `-`. So a
    name is always one path segment, never an option, and never the reserved `.locks`.
    """
    reason = _objection(name)
    if reason is not None:
        raise OsmosisError(
            f"{name[:MAX_NAME_LENGTH]!r} cannot be the name of a run: {reason}.",
            hint="Use letters, digits, '.', '_' and '-', for example `--name gsm8k-baseline-2`.",
        )
    return name


def _objection(name: str) -> str | None:
    if not name:
        return "it is empty"
    if len(name) > MAX_NAME_LENGTH:
        return f"it has {len(name)} characters, and {MAX_NAME_LENGTH} are allowed"
    if name == ".locks":
        return "it is reserved for lock files"
    if name[0] in ".-":
        return f"it begins with {name[0]!r}"
    if wrong := sorted({character for character in name if not (character.isalnum() or character in "._-")}):
        return f"it holds {', '.join(map(ascii, wrong[:5]))}"
    size = len(name.encode())
    return f"it takes {size} bytes, and {MAX_NAME_BYTES} are allowed" if size > MAX_NAME_BYTES else None
