"""The digest of an environment: what counts changes it, what does not leaves it, and a comparison says the same."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arcops.core.evidence.environment import (
    ChangedFile,
    Departure,
    Distribution,
    Environment,
    EnvironmentCard,
    EnvironmentChange,
    ModelFacts,
    changes,
    digest_of,
    unread_in_either,
    words,
)

A, B = "sha256:" + "a" * 64, "sha256:" + "b" * 64
MODEL = ModelFacts(
    path="/models/qwen",
    revision=None,
    config_digest=A,
    index_digest=A,
    headers_digest=A,
    samples_digest=A,
    tokenizer_digest=A,
)
ONE = Environment(
    interpreter="CPython 3.12.14",
    prefix="/opt/vllm",
    distributions=(
        Distribution("torch", "2.13.0+xpu", content_digest=A),
        Distribution("vllm", "0.29.0", files=(ChangedFile("vllm/dflash.py", Departure.CHANGED, A),), content_digest=A),
    ),
    system=(("kernel", "6.18.1"), ("level-zero", "1.21.9")),
    cards=(EnvironmentCard("Arc Pro B70", "xe of Linux 6.18.1", "8086:e223", (("firmware", "GuC 70.36.0"),)),),
    model=MODEL,
    draft=replace(MODEL, path="/models/draft"),
    argv=(
        *("/opt/vllm/bin/vllm", "serve", "/models/qwen", "--host", "127.0.0.1", "--port", "8000"),
        *("--max-model-len", "4096", "--speculative-config", '{"method":"dflash","model":"/models/draft"}'),
    ),
    environment=(("ONEAPI_DEVICE_SELECTOR", "level_zero:gpu"), ("ZE_AFFINITY_MASK", "0")),
    launcher={"/opt/vllm/bin/vllm": A, "/opt/intel/oneapi/setvars.sh": A},
    profile="dflash2",
)
Edit = Callable[[Environment], Environment]


def with_model(**new: str | None) -> Edit:
    return lambda one: replace(one, model=None if one.model is None else replace(one.model, **new))


def with_first(**new: object) -> Edit:
    def edit(one: Environment) -> Environment:
        first = replace(one.distributions[0], **new)  # pyright: ignore[reportArgumentType] - each case names its field
        return replace(one, distributions=(first, *one.distributions[1:]))

    return edit


def with_vllm(**new: object) -> Edit:
    def edit(one: Environment) -> Environment:
        return replace(
            one,
            distributions=tuple(
                # pyright's view of replace() with names that a case chooses
                replace(each, **new) if each.name == "vllm" else each  # pyright: ignore[reportArgumentType]
                for each in one.distributions
            ),
        )

    return edit


def with_card(**new: object) -> Edit:
    # pyright's view of replace() with names that a case chooses
    return lambda one: replace(one, cards=(replace(one.cards[0], **new),))  # pyright: ignore[reportArgumentType]


def with_word(old: str, new: str) -> Edit:
    return lambda one: replace(one, argv=tuple(word.replace(old, new) for word in one.argv))


COUNTS: dict[str, Edit] = {
    "the interpreter": lambda one: replace(one, interpreter="CPython 3.12.15"),
    "a package's version": with_first(version="2.13.1+xpu"),
    "a package's content": with_first(content_digest=B),
    "a package that nobody can check any more": with_first(checked=False),
    "a package that has gone": lambda one: replace(one, distributions=one.distributions[1:]),
    "a package that has come": lambda one: replace(one, distributions=(*one.distributions, Distribution("new", "1"))),
    "a patched file": with_first(files=(ChangedFile("torch/a.py", Departure.CHANGED, A),)),
    "a missing file": with_first(files=(ChangedFile("torch/a.py", Departure.MISSING, None),)),
    "another patch": with_vllm(files=(ChangedFile("vllm/dflash.py", Departure.CHANGED, B),)),
    "a patch that has gone": with_vllm(files=()),
    "a loose module": lambda one: replace(one, loose=(ChangedFile("sitecustomize.py", Departure.ADDED, A),)),
    "the kernel": lambda one: replace(one, system=(("kernel", "6.18.2"), *one.system[1:])),
    "a library of the system's that has come": lambda one: replace(
        one, system=(*one.system, ("compute-runtime", "25"))
    ),
    "the card's driver": with_card(driver="xe of Linux 6.18.2"),
    "the card's firmware": with_card(firmware=(("firmware", "GuC 70.45.2"),)),
    "firmware that cannot be read any more": with_card(firmware=()),
    "the kind of card": with_card(device_id="8086:e20b"),
    "a second card": lambda one: replace(one, cards=one.cards * 2),
    "the model's configuration": with_model(config_digest=B),
    "the model's index": with_model(index_digest=B),
    "the model's tensors": with_model(headers_digest=B),
    "the model's values": with_model(samples_digest=B),
    "the tokenizer": with_model(tokenizer_digest=B),
    "the model's revision": with_model(revision="c" * 40),
    "a model that cannot be read any more": with_model(headers_digest=None),
    "a draft that has gone": lambda one: replace(one, draft=None),
    "a flag": with_word("4096", "8192"),
    "a flag that has come": lambda one: replace(one, argv=(*one.argv, "--enforce-eager")),
    "a key within a flag": with_word('"dflash"', '"mtp"'),
    "a variable": lambda one: replace(
        one, environment=(("ONEAPI_DEVICE_SELECTOR", "opencl:gpu"), *one.environment[1:])
    ),
    "a variable that has come": lambda one: replace(one, environment=(*one.environment, ("VLLM_USE_V2", "1"))),
    "a launcher's file": lambda one: replace(one, launcher={**one.launcher, "/opt/vllm/bin/vllm": B}),
}

DOES_NOT: dict[str, Edit] = {
    "the folder of the environment": lambda one: replace(
        one,
        prefix="/home/me/.venv",
        argv=("/home/me/.venv/bin/vllm", *one.argv[1:]),
        launcher={"/home/me/.venv/bin/vllm": A, "/opt/intel/oneapi/setvars.sh": A},
    ),
    "the port": with_word("8000", "8001"),
    "the host": with_word("127.0.0.1", "::1"),
    "the folder of a model whose content is known": lambda one: with_word("/models/qwen", "/srv/qwen")(
        with_model(path="/srv/qwen")(one)
    ),
    "which of two like cards": lambda one: replace(one, environment=(one.environment[0], ("ZE_AFFINITY_MASK", "1"))),
    "the order of packages": lambda one: replace(one, distributions=one.distributions[::-1]),
    "the order of facts": lambda one: replace(one, system=one.system[::-1], environment=one.environment[::-1]),
    "the order of flags": lambda one: replace(one, argv=(*one.argv[:3], *one.argv[7:], *one.argv[3:7])),
    "how a flag is written": lambda one: replace(one, argv=(*one.argv[:7], "--max_model_len=4096", *one.argv[9:])),
    "where a package was installed from": with_first(origin="file:///tmp/torch.whl"),
    "how a package's name is written": with_first(name="Torch"),
    "the profile's name": lambda one: replace(one, profile="another"),
    "weights that were read, which is not always": with_model(weights_digest=A),
    "what could not be read on the way": lambda one: replace(one, unread=("something",)),
}


@pytest.mark.parametrize("what", COUNTS)
def test_what_counts_changes_the_digest_and_is_named(what: str) -> None:
    other = COUNTS[what](ONE)
    assert digest_of(other) != digest_of(ONE)
    assert changes(ONE, other)
    assert changes(other, ONE)


@pytest.mark.parametrize("what", DOES_NOT)
def test_what_does_not_count_leaves_it(what: str) -> None:
    other = DOES_NOT[what](ONE)
    assert other != ONE
    assert digest_of(other) == digest_of(ONE)
    assert changes(ONE, other) == ()


@given(
    st.lists(st.sampled_from(sorted(COUNTS)), unique=True, max_size=4),
    st.lists(st.sampled_from(sorted(DOES_NOT)), unique=True, max_size=4),
)
def test_a_comparison_and_the_digests_agree_whatever_changes_together(counts: list[str], others: list[str]) -> None:
    one = ONE
    for what in (*counts, *others):
        one = DOES_NOT[what](one) if what in DOES_NOT else COUNTS[what](one)
    found = changes(ONE, one)
    assert (digest_of(one) == digest_of(ONE)) == (found == ())
    back = {(change.part, change.name): (change.becomes, change.was) for change in changes(one, ONE)}
    assert back == {(change.part, change.name): (change.was, change.becomes) for change in found}


TEXTS = st.text(max_size=8)
ENVIRONMENTS = st.builds(
    Environment,
    interpreter=TEXTS,
    prefix=TEXTS,
    distributions=st.lists(
        st.builds(
            Distribution,
            TEXTS,
            TEXTS,
            files=st.lists(
                st.builds(ChangedFile, TEXTS, st.sampled_from(Departure), st.none() | TEXTS), max_size=2
            ).map(tuple),
        ),
        max_size=3,
    ).map(tuple),
    system=st.lists(st.tuples(TEXTS, TEXTS), max_size=3).map(tuple),
    cards=st.lists(st.builds(EnvironmentCard, TEXTS, TEXTS), max_size=2).map(tuple),
    model=st.none() | st.builds(ModelFacts, TEXTS, *[st.none() | TEXTS] * 6),
    draft=st.none(),
    argv=st.lists(TEXTS, max_size=5).map(tuple),
    environment=st.lists(st.tuples(TEXTS, TEXTS), max_size=3).map(tuple),
    launcher=st.dictionaries(TEXTS, TEXTS, max_size=2),
)


@given(ENVIRONMENTS, ENVIRONMENTS)
def test_any_two_environments_have_the_same_digest_only_where_nothing_is_named(
    one: Environment, two: Environment
) -> None:
    assert digest_of(one).startswith("sha256:")
    same_weights = [None if each.model is None else each.model.weights_digest for each in (one, two)]
    if None in same_weights or len(set(same_weights)) == 1:
        assert (digest_of(one) == digest_of(two)) == (changes(one, two) == ())


def test_weights_count_only_where_both_sides_have_read_them() -> None:
    read, other = with_model(weights_digest=A)(ONE), with_model(weights_digest=B)(ONE)
    assert changes(ONE, other) == ()
    assert changes(read, other) == (EnvironmentChange("model", "weights", A, B),)


def test_the_folder_of_a_model_that_cannot_be_read_counts_since_nothing_else_tells_it_from_another() -> None:
    unknown = with_model(headers_digest=None)(ONE)
    moved = with_word("/models/qwen", "/srv/other")(unknown)
    assert digest_of(unknown) != digest_of(moved)
    assert [change.name for change in changes(unknown, moved)] == ["model"]


def test_what_could_not_be_read_on_either_side_is_not_called_the_same() -> None:
    assert unread_in_either(replace(ONE, unread=("b", "a")), replace(ONE, unread=("a",))) == ("a", "b")


def test_a_change_in_words() -> None:
    assert words(EnvironmentChange("system", "kernel", "6.18.1", "6.18.2")) == "system kernel: 6.18.1 -> 6.18.2"
    assert words(EnvironmentChange("file", "vllm/a.py", None, f"changed {A}")) == (
        "file vllm/a.py: changed aaaaaaaaaaaa (was not there)"
    )
    assert words(EnvironmentChange("variable", "X", "1", None)) == "variable X: gone (was 1)"
    assert words(EnvironmentChange("interpreter", "", "3.11", "3.12")) == "interpreter: 3.11 -> 3.12"
