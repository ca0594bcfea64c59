"""Real vLLM below the unit: what the unit forbids is forbidden for the backend too, and it has to do without."""

import json
from collections.abc import Generator

import pytest
import yaml

from tests.fakes.runtime import REAL_ENVIRONMENT, real_runtime
from tests.helpers import eventually
from tests.systemd.box import Box
from tests.systemd.household import Household
from tests.systemd.needs import need_box

pytestmark = [pytest.mark.real, pytest.mark.timeout(600)]

START_WITHIN = 240.0


@pytest.fixture(scope="module")
def house() -> Generator[Household]:
    need_box()
    runtime = real_runtime()
    with Box([runtime.vllm.parents[1], runtime.models]) as box:
        box.add_user("op")
        one = Household(box, "op").install()
        # The weights are for their owner alone, who is somebody else here.
        box.root("sh", "-c", 'cp -r "$1/dense" "$2" && chmod -R a+rX "$2"', "sh", str(runtime.models), "/srv/dense")
        site = {"runtime": {"vllm": str(runtime.vllm)}, "models_dir": "/srv"}
        one.write(".config/arcops/site.yaml", yaml.safe_dump(site))
        one.profile(
            "real",
            model={"path": "dense", "served_name": "tiny", "dtype": "float32"},
            scheduling={"max_model_len": 512, "max_num_seqs": 4},
            compilation={"enforce_eager": True},
            runtime={"env": REAL_ENVIRONMENT},
        )
        one.ctl("start", one.unit)
        yield one


def test_real_vllm_serves_below_the_unit_and_outlives_a_crash_of_its_supervisor(house: Household) -> None:
    done = house.curl("/v1/switch", "main", "-d", json.dumps({"profile": "real"}))
    assert done.returncode == 0, done.stdout
    eventually(lambda: "real: starting" in house.show("StatusText")["StatusText"], within=90.0)
    assert house.show("ActiveState")["ActiveState"] == "active", "ready while the model loads"

    def ended() -> str | None:
        status = house.status()
        return status.phase if status is not None and status.phase in ("serving", "failed", "backoff") else None

    phase = eventually(ended, within=START_WITHIN, every=0.5)
    assert phase == "serving", house.arcops("logs", "-n", "40", check=False).stdout
    served = house.until("serving", "real").backend
    assert served is not None
    before = house.main_pid()
    stream = house.stream(tokens=400).began()
    house.box.root("kill", "-KILL", str(before))
    eventually(lambda: house.main_pid() not in (0, before), within=150.0, every=0.1)
    adopted = house.until("serving", "real").backend
    assert adopted is not None
    assert (adopted.launch_id, adopted.pid, adopted.adopted) == (served.launch_id, served.pid, True)
    assert stream.is_whole()
    assert house.box.root("grep", "^Seccomp:", f"/proc/{served.pid}/status").stdout.split()[1] == "2", "it is filtered"
    house.ctl("stop", house.unit)
    assert house.show("Result")["Result"] == "success"
    assert house.backends() == []
