"""Tool calls that a server has to get right: what is asked, which functions are offered, what is wrong with a call.

Speculation has broken the grammar of calls in servers that answered HTTP 200 all the same: only the call itself tells.
Texts and lists are bounded in their schemas, so that decoding that is guided by them comes to an end with any model.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Final, Literal, TypeAlias, cast

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from arcops.bench.chat import ChatAnswer, ToolCall
from arcops.bench.stream import printable

MARKUP: Final = (
    "<tool_call", "</tool_call", "<function=", "</function>", "<parameter=", "</parameter>", "<think>", "</think>",
    "<|im_start|>", "<|im_end|>", "<|tool", "[TOOL_CALLS]",
)  # fmt: skip
"""What models write for the server's parsers, and what is none of a client's business."""
MAX_TOKENS: Final = 512
"""For the answer to any of the cases."""
_FINISHED: Final = "tool_calls"
_CUT: Final = "length"
_SYSTEM: Final = "You act by calling functions. Call exactly one function for each request, and say nothing else."


class _Arguments(BaseModel):
    """Strict: 3 is no text, "3" is no number, and what was not asked for is not taken."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


class _Weather(_Arguments):
    city: Literal["Zürich", "København", "São Paulo", "東京"]
    days: Annotated[int, Field(ge=1, le=14)]
    unit: Literal["celsius", "fahrenheit"]


class _Address(_Arguments):
    street: Annotated[str, Field(min_length=1, max_length=60)]
    city: Annotated[str, Field(min_length=1, max_length=60)]


class _Line(_Arguments):
    article: Literal["bolt", "nut", "washer"]
    count: Annotated[int, Field(ge=1, le=1000)]
    price: Annotated[float, Field(ge=0, le=100)]


class _Order(_Arguments):
    address: _Address
    lines: Annotated[list[_Line], Field(min_length=1, max_length=4)]
    express: bool


class _Light(_Arguments):
    room: Literal["kitchen", "hall", "office"]
    on: bool
    brightness: Annotated[int, Field(ge=0, le=100)]


class _Heating(_Arguments):
    room: Literal["kitchen", "hall", "office"]
    celsius: Annotated[float, Field(ge=5, le=30)]


class _Blinds(_Arguments):
    room: Literal["kitchen", "hall", "office"]
    percent: Annotated[int, Field(ge=0, le=100)]


class _Readings(_Arguments):
    sensor: Annotated[str, Field(min_length=1, max_length=40)]
    kind: Literal["temperature", "pressure"]
    values: Annotated[list[Annotated[float, Field(ge=-1000, le=1000)]], Field(min_length=1, max_length=6)]


class _Note(_Arguments):
    text: Annotated[str, Field(min_length=1, max_length=200)]
    tags: Annotated[list[Literal["später", "wichtig", "家"]], Field(min_length=1, max_length=3)]
    priority: Literal[1, 2, 3]


@dataclass(frozen=True, slots=True)
class Function:
    """A function as it is offered."""

    name: str
    description: str
    arguments: type[BaseModel]

    @property
    def offer(self) -> Mapping[str, object]:
        """As the API takes it."""
        schema: dict[str, object] = self.arguments.model_json_schema()
        definitions = cast("dict[str, object]", schema.pop("$defs", {}))
        # Parsers that turn text into values look at a property's own type, and do not follow references.
        parameters = _inlined(schema, definitions)
        return {
            "type": "function",
            "function": {"name": self.name, "description": self.description, "parameters": parameters},
        }


@dataclass(frozen=True, slots=True)
class ToolCase:
    """A request, and the one function that it has to be answered with."""

    name: str
    question: str
    functions: tuple[Function, ...]
    wanted: str
    """The name of the function."""

    @property
    def messages(self) -> Sequence[Mapping[str, object]]:
        return ({"role": "system", "content": _SYSTEM}, {"role": "user", "content": self.question})

    @property
    def tools(self) -> Sequence[Mapping[str, object]]:
        return tuple(function.offer for function in self.functions)

    @property
    def choice(self) -> Mapping[str, object]:
        """`tool_choice` that leaves the model no choice: then the server itself holds it to the schema."""
        return {"type": "function", "function": {"name": self.wanted}}


_HOUSE: Final = (
    Function("set_light", "Switch the light of a room on or off and set its brightness in percent.", _Light),
    Function("set_heating", "Set the temperature that a room is heated to.", _Heating),
    Function("move_blinds", "Close the blinds of a room by so many percent.", _Blinds),
)
CASES: Final[tuple[ToolCase, ...]] = (
    ToolCase(
        "names in other scripts, whole numbers",
        'What will the weather be in "東京" for the next 5 days, in celsius?',
        (Function("get_weather", "The weather forecast of a city for the coming days.", _Weather),),
        "get_weather",
    ),
    ToolCase(
        "nested objects in a list",
        'Order 250 pieces of the article bolt at 0.35 each, to be sent to "Königsallee 7" in "Düsseldorf", express.',
        (Function("place_order", "Place an order: the address, the lines of it, and whether it is express.", _Order),),
        "place_order",
    ),
    ToolCase(
        "one function of several",
        "Set the heating of the office to a temperature of 21.5 celsius.",
        _HOUSE,
        "set_heating",
    ),
    ToolCase(
        "negative numbers and fractions",
        'Store the temperature readings -12.5, 0 and 3.75 of the sensor "roof-2".',
        (Function("store_readings", "Store the readings of a sensor, in their order.", _Readings),),
        "store_readings",
    ),
    ToolCase(
        "text with quotes, braces and signs",
        "Write a note with priority 2, tagged wichtig: “Pfad C:\\tmp\\{x} – größer als 3 €”.",
        (Function("write_note", "Write a note with its tags and its priority.", _Note),),
        "write_note",
    ),
)


def judge(case: ToolCase, answer: ChatAnswer, *, named: bool = False) -> str:
    """What is wrong with the answer to a case, in a sentence; empty where it is right. `named`: it was asked with
    `case.choice`, where servers give `stop` as the reason of the end."""
    if answer.problem:
        return answer.problem
    if answer.finish == _CUT:
        return f"the answer was cut at its longest: {_told(answer)}"
    found = _markup(answer.content)
    if not answer.tool_calls:
        what = f"a call was left in the text ({found})" if found else "no function was called"
        return f"{what}: {printable(answer.content) or 'the text is empty'}"
    call, *more = answer.tool_calls
    if more:
        return f"{len(answer.tool_calls)} functions were called, and one was asked for: {_told(answer)}"
    wrong = _wrong_call(case, call)
    if wrong:
        return wrong
    if found:
        return f"{found} was left in the text beside the call: {printable(answer.content)}"
    if answer.finish != _FINISHED and not (named and answer.finish == "stop"):
        return f"the answer has a call, and says that it ended for {answer.finish}, not for {_FINISHED}"
    return ""


def agree(streamed: ChatAnswer, whole: ChatAnswer) -> str:
    """What a streamed and a whole answer to the same question say differently, in a sentence; empty where nothing.

    Arguments are compared as values: in one of both the server may have written them anew, with other spaces.
    """
    for how, answer in (("streamed", streamed), ("whole", whole)):
        if answer.problem:
            return f"the {how} answer is none: {answer.problem}"
    if streamed.finish == whole.finish == _CUT:
        # A call that is not complete is text in one and a beginning in the other.
        return (
            "" if streamed.ids == whole.ids else f"both were cut at their longest{_of_tokens(streamed.ids, whole.ids)}"
        )
    what, calls = "", (_names(streamed), _names(whole))
    if calls[0] != calls[1]:
        what = f"the stream calls {calls[0]}, the whole answer {calls[1]}"
    elif any(_value(a) != _value(b) for a, b in zip(streamed.tool_calls, whole.tool_calls, strict=True)):
        what = f"the arguments differ: streamed {_told(streamed)}, whole {_told(whole)}"
    elif streamed.content.strip() != whole.content.strip():
        what = f"the texts differ: streamed {_quoted(streamed.content)}, whole {_quoted(whole.content)}"
    elif streamed.finish != whole.finish:
        what = f"the stream ended for {streamed.finish}, the whole answer for {whole.finish}"
    return f"{what}{_of_tokens(streamed.ids, whole.ids)}" if what else ""


def _of_tokens(streamed: tuple[int, ...] | None, whole: tuple[int, ...] | None) -> str:
    """Whose fault a difference is: the model's, or that of what made calls out of its tokens."""
    if streamed is None or whole is None:
        return ""
    if streamed == whole:
        return "; the tokens are the same"
    shared = next((at for at, (a, b) in enumerate(zip(streamed, whole, strict=False)) if a != b), None)
    return f"; the tokens differ from number {min(len(streamed), len(whole)) if shared is None else shared} on"


def _wrong_call(case: ToolCase, call: ToolCall) -> str:
    function = next(one for one in case.functions if one.name == case.wanted)
    if call.name != case.wanted:
        return f"{_quoted(call.name)} was called, and not {case.wanted}"
    found = _markup(call.arguments)
    if found:
        return f"{found} was left in the arguments: {printable(call.arguments)}"
    try:
        _json(call.arguments)
    except (ValueError, RecursionError) as error:
        words = "it is nested too deep" if isinstance(error, RecursionError) else printable(str(error))
        return f"the arguments are no JSON ({words}): {printable(call.arguments) or 'they are empty'}"
    try:
        function.arguments.model_validate_json(call.arguments)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        place = printable(".".join(str(part) for part in first["loc"])) or "the whole"
        return f"the arguments do not fit the schema at {place}: {printable(first['msg'])}: {printable(call.arguments)}"
    return ""


Json: TypeAlias = "dict[str, Json] | list[Json] | str | float | int | bool | None"


def _json(text: str) -> Json:
    """Raises ValueError or RecursionError; stricter than Python: no NaN, and no key twice."""
    return cast("Json", json.loads(text, object_pairs_hook=_once, parse_constant=_no_constant))


def _once(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key stands in it twice")
    return found


def _no_constant(name: str) -> Json:
    raise ValueError(f"{name} is no number")


def _value(call: ToolCall) -> tuple[bool, str]:
    """What is compared: the value in one spelling (Python's own comparison takes true for 1), or what is no JSON."""
    try:
        return True, json.dumps(_json(call.arguments), sort_keys=True)
    except (ValueError, RecursionError):
        return False, call.arguments


def _markup(text: str) -> str:
    """The first piece of markup in it, empty where there is none."""
    return next((mark for mark in MARKUP if mark in text), "")


def _names(answer: ChatAnswer) -> str:
    return ", ".join(_quoted(call.name) for call in answer.tool_calls) or "nothing"


def _told(answer: ChatAnswer) -> str:
    calls = "; ".join(f"{call.name}({call.arguments[:400]})" for call in answer.tool_calls[:4])
    return printable(calls or answer.content) or "nothing"


def _quoted(text: str) -> str:
    return f"“{printable(text)}”"


def _inlined(schema: object, definitions: Mapping[str, object]) -> object:
    """The schema with each reference to a definition replaced by it; none of them refers to itself."""
    if isinstance(schema, list):
        return [_inlined(one, definitions) for one in cast("list[object]", schema)]
    if not isinstance(schema, dict):
        return schema
    given = cast("dict[str, object]", schema)
    reference = given.get("$ref")
    if isinstance(reference, str):
        return _inlined(definitions[reference.removeprefix("#/$defs/")], definitions)
    return {name: _inlined(one, definitions) for name, one in given.items()}
