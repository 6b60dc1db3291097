"""What the agent tells the model, and the shape of the replies that it asks for.

The prompt is made for a model of 135 million parameters: one plain sentence, three worked examples, and a JSON schema that
keeps each reply to the point. A large model does well with it too.
"""

from typing import Any

INSTRUCTIONS = """\
Write the calculation that solves the problem. The calculator gives the result.

Tom has 31 nuts and finds 17 more. How many nuts does Tom have?
{"expression": "31 + 17"}
calculator: 48
{"answer": 48}

Eva had 52 sweets and ate 15 of them. How many sweets are left?
{"expression": "52 - 15"}
calculator: 37
{"answer": 37}

There are 6 bags. Each bag holds 12 tiles. How many tiles are there?
{"expression": "6 * 12"}
calculator: 72
{"answer": 72}"""

RESULT = "calculator: "
"""What comes before the calculator's result in the message that the model reads."""


def reply_format(name: str, value: dict[str, Any]) -> dict[str, Any]:
    """A `response_format` for a JSON object that has the one key `name`, whose value fits the schema `value`."""
    schema = {"type": "object", "properties": {name: value}, "required": [name], "additionalProperties": False}
    return {"type": "json_schema", "json_schema": {"name": name, "strict": True, "schema": schema}}


EXPRESSION = reply_format("expression", {"type": "string", "pattern": "^[0-9]+( [-+*/] [0-9]+){1,2}$"})
ANSWER = reply_format("answer", {"type": "integer"})
