"""The life of the fake server: start by stages, serve, and end in one of the ways that the real one has."""

import json
import os
import signal
import socket
import time
from contextlib import suppress
from queue import Empty, SimpleQueue
from threading import Thread, Timer
from typing import NoReturn, cast

from fake_vllm_lib import failures, log, process
from fake_vllm_lib.api import DEAD, Api
from fake_vllm_lib.engine import Engine
from fake_vllm_lib.flags import Flags
from fake_vllm_lib.litter import Litter
from fake_vllm_lib.log import Log
from fake_vllm_lib.reports import Reports
from fake_vllm_lib.settings import Settings
from fake_vllm_lib.text import Tokenizer
from fake_vllm_lib.web import Call, Web

TERM, ENGINE_DIED, HURRY, DIE = "term", "engine died", "hurry", "die"
FLOOD = "x" * 200


class Server:
    """One `vllm serve`. The main thread runs `run`; everything that happens reaches it as an event."""

    def __init__(self, flags: Flags, settings: Settings) -> None:
        self._flags = flags
        self._given = settings
        self.settings = settings if settings.strike_after <= 0 else settings.without_strikes()
        self._events: SimpleQueue[str] = SimpleQueue()
        self._log = Log("APIServer")
        self._tokenizer = Tokenizer()
        names = (settings.served_name,) if settings.served_name else flags.names or (flags.model,)
        self._engine = Engine(flags, names[0], self._tokenizer, lambda: self.settings)
        self._api = Api(
            flags,
            names,
            self._engine,
            self._tokenizer,
            lambda: self.settings,
            self._misbehave,
            lambda: self._events.put(HURRY),
        )
        self._web = Web(self._api.handle, self._access)
        self._listener = socket.socket(socket.AF_INET6 if ":" in flags.host else socket.AF_INET)
        self._core = 0
        """Pid of EngineCore; 0 before it was started."""
        self._litter = Litter()
        self._flooding = False
        self._first_term: float | None = None

    def run(self) -> NoReturn:
        signal.signal(signal.SIGTERM, self._on_term)
        signal.signal(signal.SIGINT, self._on_term)
        process.set_name("vllm")
        self._start()
        self._serve()
        self._watch()

    # Start

    def _start(self) -> None:
        fails = self._failure()
        stages = failures.STAGES
        for stage in stages:
            self._enter(stage)
            if fails is not None and fails.stage == stage:
                self._fail(fails)
            if self._given.busy_at == stage:
                process.burn(self._given.busy_seconds)
                self._pause(self._given.busy_seconds)
            while self._given.stall_at == stage:
                self._pause(3600)
            if stage == "weights" and self._given.start_gate:
                self._wait_at_gate(self._given.start_gate)
            self._pause(self._given.start_seconds / len(stages))

    def _wait_at_gate(self, gate: str) -> None:
        """Wait until the file is gone, with a line now and then as long as EngineCore lives and is not stopped."""
        while True:
            try:
                with open(gate) as file:
                    order = file.read().split()
            except FileNotFoundError:
                return
            if order[:1] == ["exit"]:
                self._end_core()
                os._exit(int(order[1]))
            if process.state_of(self._core) not in ("T", "t"):
                self._log.line("gate.py:1", "waiting at the gate")
            self._pause(0.1)

    def _failure(self) -> failures.Failure | None:
        """How this start is to fail, if it is."""
        starts = self._count_start()
        name = self._given.fail_with
        if name and (not self._given.fail_starts or starts <= self._given.fail_starts):
            known = failures.FAILURES[name]
            return failures.Failure(self._given.fail_at or known.stage, known.process, known.cause, known.code)
        if self._given.any_model:
            return None
        asked = self._flags.speculation
        needs_draft = asked is not None and asked.model is not None and asked.method != "ngram"
        draft_exists = not needs_draft or os.path.isdir(str(asked.model if asked else ""))
        return failures.from_flags(self._flags, self._config(), draft_exists)

    def _count_start(self) -> int:
        """Note this start in the file of starts, and return how many there are now."""
        if not self._given.starts_file:
            return 1
        with open(self._given.starts_file, "a+") as starts:
            starts.write(f"{os.getpid()} {self._flags.model}\n")
            starts.flush()
            starts.seek(0)
            return len(starts.readlines())

    def _config(self) -> dict[str, object] | None:
        """The model's config.json; empty if the folder has none, None if there is no folder."""
        if not os.path.isdir(self._flags.model):
            return None
        with suppress(OSError, ValueError), open(os.path.join(self._flags.model, "config.json")) as file:
            value: object = json.load(file)
            return cast("dict[str, object]", value) if isinstance(value, dict) else {}
        return {}

    def _enter(self, stage: str) -> None:
        core = Log("EngineCore")
        flags = self._flags
        match stage:
            case "arguments":
                log.greeting(self._log, flags)
                self._bind()
                if self._given.escape:
                    process.escape(self._listener.fileno(), self._given.escape_seconds)
            case "config":
                self._log.line("model.py:684", "Resolved architecture: Qwen3ForCausalLM")
                self._log.line("model.py:2021", f"Using max model len {flags.max_model_len or 32768}")
            case "engine":
                deaf, workers = self._given.sigterm_deaf, self._given.workers
                self._litter.make(shared_memory=self._given.shared_memory)
                self._core = process.engine_core(self._given.stop_seconds, workers, deaf, self._given.segv_hangs)
                config = f"model='{flags.model}', speculative_config={flags.speculation and flags.speculation.method}"
                core.line("core.py:123", f"Initializing a V1 LLM engine (v0.29.0) with config: {config}")
            case "weights":
                self._load(core)
            case "kv_cache":
                size = self._engine.blocks * self._engine.block
                longest = flags.max_model_len or 32768
                core.line(
                    "kv_cache_utils.py:2032",
                    f"GPU KV cache size: {size:,} tokens, Maximum concurrency for {longest:,} tokens per request: "
                    f"{size / longest:.2f}x",
                )
            case "warmup":
                took = self._given.start_seconds / 3
                core.line("core.py:368", f"init engine (profile, create kv cache, warmup model) took {took:.2f} s")
            case _:
                self._log.line("entry.py:135", "Supported tasks: ['generate']")
                self._log.line("entry.py:139", f"Starting vLLM server on http://{flags.host or '0.0.0.0'}:{flags.port}")
                log.routes(self._log)
                self._log.raw(f"INFO:     Started server process [{os.getpid()}]")
                self._log.raw("INFO:     Waiting for application startup.")

    def _bind(self) -> None:
        """Bind, but do not listen: connections are refused until ready, and the port is taken."""
        self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if self._given.reuse_port:
            self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        try:
            self._listener.bind((self._flags.host, self._flags.port))
        except OSError:
            self._fail(failures.FAILURES["port_in_use"])

    def _load(self, core: Log) -> None:
        core.line("cpu_model_runner.py:131", f"Starting to load model {self._flags.model}...")
        shards = max(1, self._given.shards)
        for done in range(shards + 1):
            log.shard(core, done, shards)
            self._pause(self._given.start_seconds / len(failures.STAGES) / shards)
        core.line("default_loader.py:430", "Loading weights took 0.00 seconds")
        asked = self._flags.speculation
        if asked is not None and asked.model is not None:
            core.line("cpu_model_runner.py:138", "Loading drafter model...")
            core.line("default_loader.py:430", "Loading weights took 0.00 seconds")
        if self._given.weights_gib:
            took = f"Model loading took {self._given.weights_gib} GiB memory and 0.815070 seconds"
            core.line("gpu_model_runner.py:5153", took)

    def _pause(self, seconds: float) -> None:
        """Let time pass during the start, with an ear for signals and for the death of EngineCore."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            if self._core and os.waitpid(self._core, os.WNOHANG)[0]:
                self._core = 0
                self._fail(
                    failures.Failure(
                        "",
                        "APIServer",
                        "RuntimeError: Engine core initialization failed. See root "
                        "cause above. Failed core proc(s): {'EngineCore': -9}",
                    )
                )
            with suppress(Empty):
                if self._events.get(timeout=min(left, 0.05)) == TERM:
                    self._term_during_start()

    def _term_during_start(self) -> None:
        """Before the engine is there SIGTERM ends the start; later the first one is lost and a repeated one counts."""
        now = time.monotonic()
        if self._core and self._first_term is None:
            self._first_term = now
            return
        if self._core and self._first_term is not None and now - self._first_term < self._given.init_term_gap:
            return
        self._log.raw('Traceback (most recent call last):\n    raise KeyboardInterrupt("terminated")')
        self._log.raw("KeyboardInterrupt: terminated")
        self._end_core()
        process.end_by_signal(signal.SIGINT)

    def _fail(self, failure: failures.Failure) -> NoReturn:
        failures.report(failure, Log("EngineCore"), self._log)
        self._end_core()
        os._exit(failure.code)

    # Serving

    def _serve(self) -> None:
        try:
            self._listener.listen(2048)
        except OSError:
            self._fail(failures.FAILURES["port_in_use"])
        if self._given.hold_port:
            process.hold(self._given.escape_seconds)
        self._engine.start(self._core)
        self._web.serve(self._listener)
        Thread(target=self._wait_for_core, daemon=True).start()
        self._log.raw("INFO:     Application startup complete.")
        Reports(self._engine, self._log, lambda: self.settings).start()
        if self._given.strike_after > 0:
            timer = Timer(self._given.strike_after, self._adopt, (self._given,))
            timer.daemon = True
            timer.start()
        else:
            self._strike()

    def _watch(self) -> NoReturn:
        """Wait for what ends the server."""
        while True:
            match self._events.get():
                case "term":
                    self._shut_down()
                case "die":
                    process.end_by_signal(self.settings.die_signal)
                case "engine died":
                    self._after_engine_death()
                case _:
                    pass  # a request met a dead engine: its death is reported separately

    def _access(self, call: Call, status: int) -> None:
        if not self._flags.quiet(call.path):
            phrase = "OK" if status == 200 else "Error"
            self._log.raw(f'INFO:     {call.client} - "{call.method} {call.path} HTTP/1.1" {status} {phrase}')

    def _wait_for_core(self) -> None:
        with suppress(ChildProcessError):
            os.waitpid(self._core, 0)
        self._events.put(ENGINE_DIED)

    def _on_term(self, *_: object) -> None:
        if not self.settings.sigterm_deaf:
            self._events.put(TERM)

    # Misbehaviour

    def _misbehave(self, values: dict[str, object]) -> None:
        """Change settings at once, and strike with those that are deeds; SettingsError if they are not understood."""
        self._adopt(self.settings.changed(values))

    def _adopt(self, settings: Settings) -> None:
        self.settings = settings
        self._engine.recount()
        with suppress(ProcessLookupError):
            os.kill(self._core, process.DEAF_ON if settings.sigterm_deaf else process.DEAF_OFF)
        self._strike()

    def _strike(self) -> None:
        settings = self.settings
        if settings.exit_code >= 0:
            self._end_core()
            os._exit(settings.exit_code)
        if settings.die_signal:
            self._events.put(DIE)  # only the main thread may give the signal its default action back
        if settings.started_anew:
            self._engine.forget()
            self.settings = settings.changed({"started_anew": False})
        if settings.kill_engine:
            os.kill(self._core, signal.SIGKILL)
        if settings.log_bytes_per_second and not self._flooding:
            self._flooding = True
            Thread(target=self._flood, daemon=True).start()

    def _flood(self) -> None:
        while (rate := self.settings.log_bytes_per_second) > 0:
            for _ in range(max(1, rate // 20 // len(FLOOD))):
                self._log.line("flood.py:1", FLOOD)
            time.sleep(0.05)
        self._flooding = False

    # Ending

    def _shut_down(self) -> NoReturn:
        """SIGTERM when ready: drain for `--shutdown-timeout`, abort what is left, end with code 0."""
        timeout = self._flags.integer("shutdown-timeout", 0)
        mode = "drain" if timeout else "abort"
        self._log.line("launcher.py:124", "[shutdown] API server: shutdown triggered")
        self._log.line(
            "launcher.py:140", f"[shutdown] API server: stopping engine client mode={mode} timeout={timeout}s"
        )
        self._api.draining = True
        end = time.monotonic() + timeout
        while not self._engine.idle and not self._engine.dead and time.monotonic() < end:
            time.sleep(0.01)
        lost = self.settings.lost_streams and not timeout
        if not lost:
            self._engine.end_all("abort")
        self._end_core()
        while lost and self._web.awaited:
            time.sleep(0.01)
        self._finish(patience=0.0 if lost else 5.0)

    def _after_engine_death(self) -> NoReturn:
        """/health says 503 for a while, then the API server ends by itself, with code 0."""
        self._engine.die()
        text = f"AsyncLLM output_handler failed.\nvllm.v1.engine.exceptions.EngineDeadError: {DEAD}"
        self._log.line("async_llm.py:819", text, "ERROR")
        end = time.monotonic() + self.settings.engine_death_exit
        with suppress(Empty):
            while (left := end - time.monotonic()) > 0:
                if self._events.get(timeout=left) == HURRY:
                    break
        self._finish()

    def _finish(self, patience: float = 5.0) -> NoReturn:
        """Let the open answers be written for at most `patience` seconds, then end with code 0."""
        self._litter.tidy()
        self._log.line("launcher.py:173", "[shutdown] API server: shutting down FastAPI HTTP server")
        self._log.raw("INFO:     Shutting down")
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        end = time.monotonic() + patience
        while self._web.busy and time.monotonic() < end:
            time.sleep(0.005)
        self._log.raw("INFO:     Waiting for application shutdown.\nINFO:     Application shutdown complete.")
        os._exit(0)

    def _end_core(self) -> None:
        """SIGTERM to EngineCore, and SIGKILL if it takes more than a second longer than it should."""
        self._litter.tidy()
        if not self._core:
            return
        with suppress(ProcessLookupError):
            os.kill(self._core, signal.SIGTERM)
        patience = time.monotonic() + self._given.stop_seconds + 1.0
        while process.state_of(self._core) not in ("Z", "") and time.monotonic() < patience:
            with suppress(ChildProcessError):
                os.waitpid(self._core, os.WNOHANG)
            time.sleep(0.005)
        with suppress(ProcessLookupError):
            os.kill(self._core, signal.SIGKILL)
