"""What every recorded failure is called, and what is made of failures that left no words."""

import ast
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import arcops.core
from arcops.core.diagnosis import Cause, Diagnosis, Evidence, diagnose
from arcops.core.diagnosis.causes import RULES
from arcops.core.phase import Phase
from arcops.core.profile import Profile

LOGS = Path(__file__).parents[1] / "data" / "vllm-logs"
CORE = Path(arcops.core.__file__).parent


def log_of(name: str) -> list[str]:
    return (LOGS / f"{name}.log").read_bytes().decode().split("\n")


def judge(
    log: list[str] | None = None,
    code: int | None = 1,
    phase: Phase = Phase.STARTING,
    *,
    speculates: bool = False,
) -> Diagnosis:
    return diagnose(Evidence(exit_code=code, phase=phase, log=log or [], profile_speculates=speculates))


@pytest.mark.parametrize(
    ("name", "cause", "deterministic", "summary"),
    [
        ("bad_badflag", Cause.UNKNOWN_FLAG, True, "this vLLM does not know --no-such-flag"),
        ("bad_badpath", Cause.MODEL_NOT_FOUND, True,
         "the model was not found, neither as a directory nor in the local cache"),
        ("bad_badspec_json", Cause.BAD_VALUE, True,
         '--speculative-config/-sc: Value {"method":"mtp",num:3} cannot be converted'),
        ("bad_badspec_key", Cause.UNKNOWN_FLAG, True, "this vLLM does not know num_spec in SpeculativeConfig"),
        ("bad_badspec_method", Cause.BAD_VALUE, True, "SpeculativeConfig does not take 'nosuch' for method"),
        ("bad_badtoolparser", Cause.BAD_VALUE, True, "there is no tool call parser nosuch"),
        ("bad_badvalue", Cause.BAD_VALUE, True, "--max-num-seqs: invalid int value: 'abc'"),
        ("bad_corrupt_weights", Cause.CORRUPT_WEIGHTS, True, "the weights cannot be read: a file is cut or damaged"),
        ("bad_kv_too_small", Cause.KV_CACHE_TOO_SMALL, True,
         "a context of 32768 tokens needs 0.03 GiB of KV cache, and there are 0.01 GiB"),
        ("bad_maxlen_gt_model", Cause.CONTEXT_TOO_LONG, True,
         "a context of 100000 tokens is more than the model was made for (32768)"),
        ("bad_portused", Cause.PORT_TAKEN, False, "the port is taken"),
        ("bad_spec_mtp_on_dense", Cause.DRAFT_INCOMPATIBLE, True,
         "the model has nothing for the speculative method mtp to work with"),
        ("bad_draft_path", Cause.DRAFT_INCOMPATIBLE, True, "the draft: there is no model at /nonexistent/draft"),
        ("gpu_err_len_over_cache", Cause.KV_CACHE_TOO_SMALL, True,
         "a context of 40960 tokens needs 5.62 GiB of KV cache, and there are 4.63 GiB"),
        ("gpu_err_no_cache_room", Cause.KV_CACHE_TOO_SMALL, True,
         "a context of 8192 tokens needs 1.12 GiB of KV cache, and there are 0.44 GiB"),
        ("gpu_err_oom_weights", Cause.OUT_OF_MEMORY, False, "the card's memory is full (CUDA out of memory)"),
        ("gpu_second", Cause.OUT_OF_MEMORY, False,
         "only 10.18 of 139.8 GiB of cuda:0 are free, and vLLM wants 128.62 GiB"),
    ],
)  # fmt: skip
def test_every_recorded_failure_to_start_has_its_cause(
    name: str, cause: Cause, deterministic: bool, summary: str
) -> None:
    got = judge(log_of(name), speculates="spec" in name or "draft" in name)
    assert (got.cause, got.deterministic) == (cause, deterministic)
    assert got.summary.startswith(summary)
    assert got.points_at_draft == ("spec" in name or "draft" in name)
    assert got.hint
    assert got.evidence
    for text in (got.summary, got.hint, got.evidence):
        assert "{" not in text or "badspec" in name or "toolparser" in name
        assert len(text) <= 300
        assert text.isprintable()


@pytest.mark.parametrize(
    ("name", "code", "phase", "cause", "summary"),
    [
        ("death_killengine_idle", 0, Phase.SERVING, Cause.ENGINE_DIED, "the engine died without saying why"),
        ("death_killengine_streaming", 0, Phase.SERVING, Cause.ENGINE_DIED, "the engine died without saying why"),
        ("gpu_hybrid_mtp", 0, Phase.SERVING, Cause.ENGINE_DIED, "the engine died without saying why"),
        ("fail_mtp_hybrid_first_request", 0, Phase.CHECKING, Cause.ENGINE_DIED,
         "the engine died: TypeError: 'function' object is not subscriptable"),
        ("startdeath_term_early", -2, Phase.STARTING, Cause.KILLED_BY_SIGNAL, "ended by SIGINT"),
        ("death_term_idle", -9, Phase.SERVING, Cause.OOM_KILLER, "killed by SIGKILL, which nobody here sent"),
        ("startup_mtp3", -9, Phase.SERVING, Cause.OOM_KILLER, "killed by SIGKILL, which nobody here sent"),
        ("startup_dense1", -11, Phase.SERVING, Cause.KILLED_BY_SIGNAL, "ended by SIGSEGV"),
        ("startup_hyb1", -70, Phase.SERVING, Cause.KILLED_BY_SIGNAL, "ended by signal 70"),
        ("startup_dfl1", 0, Phase.SERVING, Cause.ENGINE_DIED, "vLLM ended by itself"),
        ("orphan_second", 3, Phase.SERVING, Cause.UNKNOWN, "vLLM ended with exit code 3 and gave no reason"),
        ("gpu_q35_9b", None, Phase.SERVING, Cause.UNKNOWN, "vLLM ended with an unknown exit code and gave no reason"),
    ],
)  # fmt: skip
def test_every_recorded_death_has_its_cause_and_may_be_tried_again(
    name: str, code: int | None, phase: Phase, cause: Cause, summary: str
) -> None:
    got = judge(log_of(name), code, phase)
    assert (got.cause, got.summary, got.deterministic) == (cause, summary, False)


def test_weights_that_a_checkpoint_lacks_are_named() -> None:
    missing = "{'visual.blocks.1.norm2.weight', 'visual.merger.norm.bias'}"
    got = judge([engine(f"ValueError: Following weights were not initialized from checkpoint: {missing}")])
    assert (got.cause, got.deterministic) == (Cause.CORRUPT_WEIGHTS, True)
    assert (
        got.summary
        == "the checkpoint lacks weights that the model wants (visual.blocks.1.norm2.weight and perhaps more)"
    )
    assert "language_model_only" in got.hint


def test_the_largest_context_that_fits_is_told() -> None:
    assert judge(log_of("gpu_err_no_cache_room")).fits_context == 3200
    assert "max_model_len up to 3200 fits" in judge(log_of("gpu_err_no_cache_room")).hint
    assert judge(log_of("bad_maxlen_gt_model")).fits_context == 32768
    silent = engine(
        "ValueError: To serve at least one request with the model's max seq len (99), (1.12 GiB KV cache is needed, "
        "which is larger than the available KV cache memory (0.4 GiB)."
    )
    got = judge([silent])
    assert (got.cause, got.fits_context) == (Cause.KV_CACHE_TOO_SMALL, None)
    assert got.hint == "lower scheduling.max_model_len, or give the cache more memory"


def engine(text: str, process: str = "EngineCore", level: str = "ERROR") -> str:
    return f"({process} pid=7) {level} 11-30 09:37:11 [core.py:1374] {text}"


@pytest.mark.parametrize(
    ("text", "cause", "deterministic"),
    [
        (
            "RuntimeError: level_zero backend failed with error: 20 (UR_RESULT_ERROR_DEVICE_LOST)",
            Cause.DEVICE_LOST,
            False,
        ),
        (
            "RuntimeError: Native API failed. Native API returns: 20 (UR_RESULT_ERROR_DEVICE_LOST)",
            Cause.DEVICE_LOST,
            False,
        ),
        ("torch.AcceleratorError: CUDA error: an illegal memory access was encountered", Cause.DEVICE_LOST, False),
        ("RuntimeError: CUDA error: uncorrectable ECC error encountered", Cause.DEVICE_LOST, False),
        ("torch.OutOfMemoryError: XPU out of memory. Tried to allocate 2.00 GiB.", Cause.OUT_OF_MEMORY, False),
        ("RuntimeError: level_zero failed: 39 (UR_RESULT_ERROR_OUT_OF_DEVICE_MEMORY)", Cause.OUT_OF_MEMORY, False),
        ("ValueError: No available memory for the cache blocks. Try", Cause.KV_CACHE_TOO_SMALL, False),
        ("OSError: [Errno 98] Address already in use", Cause.PORT_TAKEN, False),
        ("FileNotFoundError: [Errno 2] No such file or directory: '/m/model.safetensors'", Cause.MODEL_NOT_FOUND, True),
        ("ValueError: Model architectures ['FooModel'] are not supported for now.", Cause.UNSUPPORTED, True),
        ("ModuleNotFoundError: No module named 'triton'", Cause.UNSUPPORTED, True),
        ("ValueError: FP8 KV cache is not supported on this platform", Cause.UNSUPPORTED, True),
        ("AssertionError", Cause.UNKNOWN, False),
        ("ValueError: something new", Cause.UNKNOWN, False),
    ],
)
def test_what_the_engine_says_has_its_cause(text: str, cause: Cause, deterministic: bool) -> None:
    got = judge([engine("Traceback (most recent call last):"), engine(text), engine("x = 1", level="INFO")])
    assert (got.cause, got.deterministic, got.evidence) == (cause, deterministic, text)


def test_the_first_cause_of_the_engine_wins_over_what_follows_from_it() -> None:
    log = [
        engine("Exception: WorkerProc initialization failed. See stack trace for root cause."),
        engine("safetensors.SafetensorError: header", process="Worker_TP1"),
        engine("ValueError: afterwards", process="Worker_TP0"),
        "(APIServer pid=1) RuntimeError: Engine core initialization failed. See root cause above.",
    ]
    assert judge(log).evidence == "safetensors.SafetensorError: header"


def test_lines_of_workers_that_write_at_the_same_time_are_kept_apart() -> None:
    log = [
        engine("Traceback (most recent call last):", process="Worker_TP0"),
        engine("Traceback (most recent call last):", process="Worker_TP1"),
        engine('File "/opt/vllm/v1/spec_decode/eagle.py", line 1, in load', process="Worker_TP1"),
        engine("RuntimeError: sizes differ:", process="Worker_TP0"),
        engine("not mine", process="Worker_TP1"),
        engine("  4096 and 5120", process="Worker_TP0"),
        engine("KeyError: 'other'", process="Worker_TP0"),
    ]
    got = judge(log, speculates=True)
    assert (got.evidence, got.points_at_draft) == ("RuntimeError: sizes differ: 4096 and 5120", False)


def test_a_draft_that_vllm_does_not_support_is_the_drafts_fault() -> None:
    log = [
        engine("Traceback (most recent call last):"),
        engine('File "/opt/vllm/config/speculative.py", line 900, in __post_init__'),
        engine("ValueError: Model architectures ['FooDraft'] are not supported for now."),
    ]
    got = judge(log, speculates=True)
    assert (got.cause, got.points_at_draft) == (Cause.DRAFT_INCOMPATIBLE, True)
    assert judge(log).cause is Cause.UNSUPPORTED


def test_a_native_abort_that_names_the_device_is_understood() -> None:
    log = ["terminate called after throwing an instance of 'sycl::exception'", "  what(): UR_RESULT_ERROR_DEVICE_LOST"]
    got = judge(log, -6, Phase.SERVING)
    assert (got.cause, got.evidence) == (Cause.DEVICE_LOST, "what(): UR_RESULT_ERROR_DEVICE_LOST")
    told = ["(APIServer pid=1) INFO 11-30 09:37:11 [log.py:1] prompt: 'what is UR_RESULT_ERROR_DEVICE_LOST?'"]
    assert judge(told, -6, Phase.SERVING).cause is Cause.KILLED_BY_SIGNAL


def test_a_fault_of_one_request_is_not_why_a_serving_backend_ended() -> None:
    log = [
        "(APIServer pid=1) ERROR 11-30 09:37:11 [serving.py:1] Traceback (most recent call last):",
        "(APIServer pid=1) ERROR 11-30 09:37:11 [serving.py:1] ValueError: logprobs are not supported here",
    ]
    assert judge(log, 1, Phase.SERVING).cause is Cause.UNKNOWN
    assert judge(log, 1, Phase.STARTING).cause is Cause.UNSUPPORTED


def texts_of(folder: Path) -> list[str]:
    """Every string in a package's code that is no docstring."""
    found: list[str] = []
    for file in folder.glob("*.py"):
        tree = ast.parse(file.read_text())
        bare = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in bare:
                found.append(node.value)
    return found


def test_every_dotted_key_in_a_hint_is_a_key_of_the_schema() -> None:
    sections = {name: field.annotation for name, field in Profile.model_fields.items()}
    keys = {name: set[str](getattr(kind, "model_fields", ())) for name, kind in sections.items()}
    dotted = re.compile(rf"(?<![\w.])({'|'.join(keys)})\.([a-z_]+)(?![\w(])")
    named = {
        match.groups()
        for package in ("diagnosis", "decide")
        for text in texts_of(CORE / package)
        for match in dotted.finditer(text)
    }
    assert {("scheduling", "max_model_len"), ("parsers", "tool_call"), ("limits", "start_stall")} <= named
    assert [f"{section}.{key}" for section, key in named if key not in keys[section]] == []


def test_a_hint_names_no_key_without_its_section() -> None:
    keys = {key for field in Profile.model_fields.values() for key in getattr(field.annotation, "model_fields", ())}
    keys = {key for key in keys if "_" in key} | {"served_model_name", "tool_call_parser"}
    bare = re.compile(rf"(?<![\w.-])({'|'.join(sorted(keys))})\b")
    assert [rule.hint for rule in RULES if bare.search(rule.hint)] == []


def test_colours_carriage_returns_and_huge_lines_do_not_hide_the_cause() -> None:
    coloured = (
        "\x1b[1;36m(EngineCore pid=7)\x1b[0;0m ERROR 11-30 09:37:11 [c.py:1] OSError: [Errno 98] Address\x07 in use\r"
    )
    got = judge(["(" * 5_000_000, "a." * 2_000_000, coloured, "[" * 5_000_000])
    assert (got.cause, got.evidence) == (Cause.PORT_TAKEN, "OSError: [Errno 98] Address in use")


LINES = st.one_of(
    st.text(),
    st.sampled_from(log_of("bad_corrupt_weights") + log_of("bad_spec_mtp_on_dense") + log_of("gpu_second")),
)


@given(
    st.lists(LINES, max_size=40),
    st.one_of(st.none(), st.integers(-130, 255)),
    st.sampled_from(Phase),
    st.booleans(),
)
def test_no_log_breaks_it_and_every_diagnosis_has_words(
    log: list[str], code: int | None, phase: Phase, speculates: bool
) -> None:
    got = diagnose(Evidence(code, phase, log, profile_speculates=speculates))
    assert got.summary
    assert got.hint
    assert got.points_at_draft <= speculates
    for text in (got.summary, got.hint, got.evidence):
        assert text.isprintable()
        assert len(text) <= 300


def test_a_draft_of_no_known_kind_points_at_the_draft_without_pydantics_noise() -> None:
    line = (
        "pydantic_core._pydantic_core.ValidationError: 1 validation error for SpeculativeConfig Value error, "
        "Unrecognized model in /models/draft. Should have a `model_type` key in its config.json. "
        "[type=value_error, input_value=ArgsKwargs((), {'model': ...}), input_type=ArgsKwargs]"
    )
    found = diagnose(Evidence(exit_code=1, phase=Phase.STARTING, log=[line], profile_speculates=True))
    assert (found.cause, found.points_at_draft) == (Cause.DRAFT_INCOMPATIBLE, True)
    assert found.summary == "the draft: vLLM cannot tell what kind of model /models/draft is"


def test_a_refused_value_is_told_without_pydantics_noise() -> None:
    line = "ValidationError: 1 validation error for VllmConfig Value error, no such thing [type=x, input_value=1]"
    found = diagnose(Evidence(exit_code=1, phase=Phase.STARTING, log=[line], profile_speculates=False))
    assert found.summary == "VllmConfig refuses a value: no such thing"
