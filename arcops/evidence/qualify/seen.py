"""What a qualification asked, and what came of it: facts, of which `gates` makes verdicts."""

from dataclasses import dataclass

from arcops.bench.chat import ChatAnswer
from arcops.core.evidence.qualification import Gate, Verdict
from arcops.core.evidence.run import Counters, Request, Run
from arcops.core.evidence.soak import Soak
from arcops.core.launch import Launch, Qualifying

DEFAULT_PROMPT = "Reply with exactly READY."
DEFAULT_EXPECT = "READY."
HEADROOM = 512 << 20
"""Bytes of each card that have to be left where nobody says otherwise."""


@dataclass(frozen=True, slots=True)
class Question:
    """A chat whose answer is known."""

    prompt: str = DEFAULT_PROMPT
    expect: str = DEFAULT_EXPECT
    exactly: bool = True
    """The answer is `expect`, white space around it and a full stop aside, which may belong to the question's own
    sentence as well; otherwise `expect` stands somewhere in the answer."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is asked of this profile."""

    question: Question = Question()
    tools: bool = True
    long_tokens: int | None = None
    """Of the prompt; None: three quarters of what the server takes."""
    image: str | None = None
    """The picture as a `data:` URL."""
    soak: float | None = None
    """Seconds."""
    headroom: int = HEADROOM
    accepted: str = ""
    """Why a divergence is accepted; empty where none is."""


@dataclass(frozen=True, slots=True)
class ToolSeen:
    """A case, asked once streamed and once whole; what was wrong, empty where it was right."""

    case: str
    streamed: str
    whole: str
    apart: str
    """What the two say differently."""


@dataclass(frozen=True, slots=True)
class LongSeen:
    """A long prompt and what it was answered."""

    tokens: int
    request: Request | None
    """None: it could not be asked; then `problem` says why."""
    text: str = ""
    ids: tuple[int, ...] = ()
    problem: str = ""
    output: int = 0
    """Tokens that were asked for, all of them."""


@dataclass(frozen=True, slots=True)
class Mark:
    """What the daemon runs at one moment, and by whose order."""

    order_id: int
    launch_id: str | None


@dataclass(frozen=True, slots=True)
class Course:
    """The marks before the first question and after the last. None: of a server that is not the daemon's, nobody
    says; or, at the end alone, the daemon did not."""

    begun: Mark | None = None
    ended: Mark | None = None


@dataclass(frozen=True, slots=True)
class Seen:
    """Everything of one server that served."""

    chat: ChatAnswer
    tools: tuple[ToolSeen, ...] | None
    """None: not asked for."""
    named: bool
    """The functions were named in `tool_choice`: the server has no parser for calls of text."""
    long: LongSeen
    run: Run
    """The suite's questions, and the canaries."""
    image: ChatAnswer | None
    soak: Soak | None
    first: Counters
    last: Counters


def wanted_of(
    launch: Launch | None,
    *,
    question: Question | None = None,
    long_tokens: int | None = None,
    headroom: int | None = None,
    soak: float | None = None,
    image: str | None = None,
    accepted: str = "",
) -> Wanted:
    """What a person says goes before what the profile says, and that before what is asked of every one."""
    own = Qualifying() if launch is None else launch.qualification
    if question is None and own.chat_prompt is not None and own.chat_expect is not None:
        question = Question(own.chat_prompt, own.chat_expect, exactly=False)
    floor = own.headroom if headroom is None else headroom
    return Wanted(
        question=question or Question(),
        tools=own.tools,
        long_tokens=long_tokens or own.long_tokens,
        image=image,
        soak=soak,
        headroom=HEADROOM if floor is None else floor,
        accepted=accepted,
    )


def not_asked(start: Gate) -> tuple[Gate, ...]:
    """All gates of a profile whose start failed."""
    rest = ("chat", "tools", "long-request", "identity", "image", "soak", "memory", "undisturbed")
    return (start, *(Gate(name, Verdict.SKIPPED, "nothing serves that could be asked") for name in rest))
