"""Chats that have an answer of their own: a word that was asked for, a sum, a tool call; and what is thought before."""

import re
from dataclasses import dataclass

from fake_vllm_lib import tools
from fake_vllm_lib.flags import Flags
from fake_vllm_lib.settings import Settings
from fake_vllm_lib.text import END, THOUGHT, Tokenizer

EXACTLY = re.compile(r"(?i)\bexactly(?: (?:this|the)(?: \w+)?)?[:,]? +(?:([\"'`])(.+?)\1|(.+?)(?:[.!](?:\s|$)|$))")
SUM = re.compile(r"(\d+) *(\+|-|\*|x|×|plus|minus|times) *(\d+)")
KNOWN = (("capital of france", "Paris"), ("capital of italy", "Rome"), ("opposite of hot", "cold"))
THOUGHTS = "If it comes as a request, say what it is. "
OTHER = "it is not ready"

REASONING, CONTENT, HEAD, ARGUMENTS, SILENT = "reasoning", "content", "head", "arguments", "silent"


@dataclass(frozen=True, slots=True)
class Script:
    """An answer that is known before: its tokens, and where each of them goes."""

    tokens: list[int]
    places: list[str]
    name: str = ""
    """Of the tool that is called."""
    by_choice: bool = False
    """The request named it, or said that there has to be a call: then a whole answer has a text, if an empty one."""
    named: bool = False
    """The request named it: then the answer ends for `stop` and not for `tool_calls`."""


class Playwright:
    """Writes the script for a chat, where its question has an answer."""

    def __init__(self, tokenizer: Tokenizer, flags: Flags, settings: Settings) -> None:
        self._tokenizer = tokenizer
        self._flags = flags
        self._settings = settings

    def write(self, body: dict[str, object], messages: list[tuple[str, str]]) -> Script | None:
        """None: the model just goes on from the prompt."""
        role, question = messages[-1] if messages else ("", "")
        offered = self._offered(body)
        if offered and role != "tool" and self._settings.tool_fault != "missing":
            return self._call(body, tools.chosen(offered, question), question)
        answer = self._settings.chat_answer or (question if role == "tool" else _answer(question))
        if answer is None and offered:
            answer = "I can not"
        if answer is None:
            return None
        answer = OTHER if self._settings.wrong_chat else answer
        return self._script(body, [(answer, CONTENT)])

    def _offered(self, body: dict[str, object]) -> list[tools.Schema]:
        choice = body.get("tool_choice", "auto")
        if choice == "none":
            return []
        named = tools.inner(tools.inner(choice).get("function")).get("name")
        return [one for one in tools.functions(body) if named in (None, one.get("name"))]

    def _call(self, body: dict[str, object], function: tools.Schema, question: str) -> Script:
        fault = self._settings.tool_fault
        where = self._settings.tool_fault_in
        if where and (where == "stream") != bool(body.get("stream")):
            fault = ""
        given = tools.arguments(function, question)
        text = tools.compact(tools.misfit(given) if fault == "misfit" else given)
        text = text[: len(text) * 2 // 3] if fault == "no_json" else text
        name = str(function.get("name"))
        parts = [
            (f'<tool_call>\n{{"name": "{name}", "arguments": ', HEAD),
            (text, ARGUMENTS),
            ("}\n</tool_call>", SILENT),
        ]
        if fault == "text":
            parts = [(part, CONTENT) for part, _ in parts]
        script = self._script(body, parts)
        if fault == "text":
            return script
        choice = body.get("tool_choice", "auto")
        named = bool(tools.inner(choice))
        return Script(script.tokens, script.places, name, by_choice=named or choice == "required", named=named)

    def _script(self, body: dict[str, object], parts: list[tuple[str, str]]) -> Script:
        tokens: list[int] = []
        places: list[str] = []
        if thinks(body, self._flags):
            thoughts = self._tokenizer.encode(THOUGHTS * self._settings.reasoning_tokens)
            tokens = [*thoughts[: self._settings.reasoning_tokens], THOUGHT]
            places = [*[REASONING] * (len(tokens) - 1), SILENT]
        for text, place in parts:
            fresh = self._tokenizer.encode(text)
            tokens += fresh
            places += [place] * len(fresh)
        return Script([*tokens, END], [*places, SILENT])


def thinks(body: dict[str, object], flags: Flags) -> bool:
    """Whether the chat begins with reasoning."""
    template = tools.inner(body.get("chat_template_kwargs"))
    return bool(flags.values.get("reasoning-parser")) and template.get("enable_thinking", True) is not False


def _answer(question: str) -> str | None:
    exact = EXACTLY.search(question)
    if exact is not None:
        return str(exact.group(2) or exact.group(3))
    asked = SUM.search(question)
    if asked is not None:
        left, sign, right = int(asked.group(1)), asked.group(2), int(asked.group(3))
        if sign in ("+", "plus"):
            return str(left + right)
        return str(left - right if sign in ("-", "minus") else left * right)
    return next((answer for words, answer in KNOWN if words in question.lower()), None)


def chat_prompt(messages: list[tuple[str, str]], body: dict[str, object]) -> str:
    """Messages (role, text) and the tools as one prompt."""
    offered = tools.compact(body["tools"]) if body.get("tools") else ""
    turns = "".join(f"<|im_start|>{role}\n{text}<|im_end|>\n" for role, text in messages)
    return f"{offered}{turns}<|im_start|>assistant\n"
