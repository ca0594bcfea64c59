"""The content of prompts: exact in tokens, none used twice, the same again when it is asked for again."""

from itertools import islice

import pytest

from arcops.bench.content.cut import LEAST, Content
from arcops.bench.content.documents import documents
from arcops.bench.content.suite import QUESTIONS
from arcops.bench.content.texts import Kind, lines
from arcops.core.errors import ArcopsError, ExitCode

BEGIN, END = 1, 2


async def words_of_four(text: str, *, special: bool = False) -> tuple[int, ...]:
    """A tokenizer with four characters a token; an id tells what it stands for."""
    ids = tuple(100 + int.from_bytes(text[at : at + 4].encode(), "big") for at in range(0, len(text), 4))
    return (BEGIN, *ids, END) if special else ids


def content(salt: str = "") -> Content:
    return Content(words_of_four, salt)


@pytest.mark.asyncio
@pytest.mark.parametrize("tokens", [LEAST, 33, 96, 1000, 4096, 8191])
@pytest.mark.parametrize("kind", list(Kind))
async def test_a_prompt_has_exactly_as_many_tokens_as_asked(kind: Kind, tokens: int) -> None:
    made = content()
    assert len(await made.cut(kind, "one", tokens)) == tokens
    assert len(await made.cut(kind, "two", tokens)) == tokens


@pytest.mark.asyncio
async def test_a_prompt_of_all_kinds_is_exact_too_and_has_each_of_them() -> None:
    made, apart = content(), content()
    mixed = await made.mixed("one", 5000)
    assert len(mixed) == 5000
    for kind in Kind:
        first = (await apart.cut(kind, "other", 100))[50:]
        assert any(mixed[at : at + 50] == first for at in range(4950)), f"no {kind.value} in it"


@pytest.mark.asyncio
@pytest.mark.parametrize("kind", list(Kind))
async def test_nothing_is_used_twice(kind: Kind) -> None:
    made = content()
    prompts = [await made.cut(kind, f"prompt-{number}", 1000) for number in range(20)]
    windows = [prompt[at : at + 64] for prompt in prompts for at in range(0, 936, 64)]
    assert len(set(windows)) == len(windows)


@pytest.mark.asyncio
async def test_each_prompt_begins_in_its_own_way_after_the_token_that_begins_all() -> None:
    made = content()
    prompts = [await made.cut(kind, f"prompt-{number}", 100) for number in range(10) for kind in (Kind.PROSE,)]
    assert {prompt[0] for prompt in prompts} == {BEGIN}
    assert len({prompt[1:3] for prompt in prompts}) == 10
    assert END not in {token for prompt in prompts for token in prompt}


@pytest.mark.asyncio
async def test_the_same_is_asked_again_and_another_salt_asks_something_else() -> None:
    first = await content().cut(Kind.CODE, "one", 500)
    assert await content().cut(Kind.CODE, "one", 500) == first
    salted = await content("salt").cut(Kind.CODE, "one", 500)
    assert salted[1:3] != first[1:3]
    assert salted[5:] == first[5:], "what it decodes over must not change with the salt"


@pytest.mark.asyncio
async def test_a_depth_that_needs_more_than_there_is_is_refused_in_words() -> None:
    with pytest.raises(ArcopsError, match=r"not enough prose for the prompt 1M") as refused:
        await content().cut(Kind.PROSE, "1M", 1_000_000)
    assert refused.value.exit_code is ExitCode.USAGE
    assert refused.value.hint


@pytest.mark.asyncio
async def test_there_is_enough_for_all_depths_and_for_two_of_the_longest_prompts() -> None:
    made = content()
    for kind in Kind:
        for depth in (2048, 4096, 8192, 16_384, 24_576, 32_768):
            assert len(await made.cut(kind, f"{depth}", depth)) == depth
    longest = content()
    assert [len(await longest.mixed(name, 262_144)) for name in ("one", "two")] == [262_144] * 2


@pytest.mark.asyncio
async def test_too_short_a_prompt_has_no_room_for_its_own_beginning() -> None:
    with pytest.raises(ArcopsError, match="too short"):
        await content().cut(Kind.PROSE, "tiny", LEAST - 1)


@pytest.mark.asyncio
async def test_a_tokenizer_that_gives_nothing_ends_it() -> None:
    async def nothing(text: str, *, special: bool = False) -> tuple[int, ...]:
        return ()

    with pytest.raises(ArcopsError, match="no tokens"):
        await Content(nothing).cut(Kind.DOCUMENTS, "one", 100)


@pytest.mark.parametrize("kind", [Kind.PROSE, Kind.CODE])
def test_the_edition_is_the_one_that_was_made(kind: Kind) -> None:
    assert sum(len(line) for line in lines(kind)) > 500_000


def test_documents_are_of_five_forms_and_never_the_same() -> None:
    made = list(islice(documents(), 500))
    assert len(set(made)) == 500
    assert made[:5] == list(islice(documents(), 5))
    assert all(400 < len(document) < 8000 for document in made)


def test_the_suite_has_six_classes_of_two_questions() -> None:
    kinds = [kind for kind, _, _ in QUESTIONS]
    assert len(kinds) == 12
    assert {kind: kinds.count(kind) for kind in kinds} == dict.fromkeys(dict.fromkeys(kinds), 2)
    assert len({text for _, _, text in QUESTIONS}) == 12
