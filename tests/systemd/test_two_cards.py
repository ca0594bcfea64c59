"""Two instances of one user, each with a card of its own: the locks on the cards keep them apart."""

import json
from collections.abc import Generator

import pytest

from arcops.core.errors import ExitCode
from tests.helpers import eventually
from tests.systemd.box import Box
from tests.systemd.household import Household
from tests.systemd.needs import need_stand_in_cards

pytestmark = [pytest.mark.processes, pytest.mark.timeout(600)]

LEFT, RIGHT, UNSERVED = "0000:03:00.0", "0000:07:00.0", "0000:0b:00.0"
PORTS = {"left": 8201, "right": 8202}
CARDS = {"left": LEFT, "right": RIGHT}


@pytest.fixture(scope="module")
def box() -> Generator[Box]:
    need_stand_in_cards()
    with Box(cards=(LEFT, RIGHT, UNSERVED), served=(LEFT, RIGHT)) as one:
        yield one


@pytest.fixture(scope="module")
def installed(box: Box) -> Household:
    box.add_user("pair")
    house = Household(box, "pair").install()
    instances = {name: {"cards": [CARDS[name]], "port": PORTS[name]} for name in CARDS}
    house.write(".config/arcops/site.yaml", json.dumps({**house.site(), "instances": instances}))
    house.profile("own", device={"kind": "xpu"}, server={})
    for name, card in (*CARDS.items(), ("unserved", UNSERVED)):
        # By address: whoever orders it wants this card, and no other.
        house.profile(f"on-{name}", device={"kind": "xpu", "cards": [card]}, server={"port": 8210})
    return house


@pytest.fixture
def house(installed: Household) -> Household:
    """Both supervisors run, and neither has a backend."""
    for name in CARDS:
        installed.box.ctl("pair", "start", f"arcops@{name}")
        installed.curl("/v1/stop", name, "-d", '{"drain": 0}')
        installed.until("stopped", instance=name)
    return installed


def keepers_of(house: Household, card: str) -> list[str]:
    """Command lines of all that have a card's lock, by what the kernel says of their descriptors."""
    script = (
        'for fd in $(find /proc/[0-9]*/fd -lname "$1" 2>/dev/null); do'
        " grep -q ^lock: $(dirname $(dirname $fd))/fdinfo/$(basename $fd) 2>/dev/null &&"
        " tr '\\0' ' ' <$(dirname $(dirname $fd))/cmdline && echo; done; true"
    )
    return house.box.root("sh", "-c", script, "sh", f"/sys/bus/pci/devices/{card}").stdout.splitlines()


def test_two_instances_serve_at_once_each_with_the_lock_of_its_own_card(house: Household) -> None:
    served = {name: house.serve("own", name) for name in CARDS}
    assert served["left"].pid != served["right"].pid
    for name, card in CARDS.items():
        having = keepers_of(house, card)
        other = "right" if name == "left" else "left"
        assert any("keeper.py" in line and served[name].launch_id in line for line in having), having
        assert any(f"--instance {name}" in line for line in having), having
        assert not any(f"--instance {other}" in line for line in having), having
        asked = house.box.root("curl", "-sS", f"http://127.0.0.1:{PORTS[name]}/v1/models")
        assert "tiny" in asked.stdout

    house.box.ctl("pair", "stop", "arcops@left")
    assert keepers_of(house, LEFT) == []
    still = house.until("serving", instance="right").backend
    assert still is not None
    assert (still.launch_id, still.pid) == (served["right"].launch_id, served["right"].pid)


def test_a_profile_that_wants_the_others_card_is_blocked_and_names_who_has_it(house: Household) -> None:
    served = house.serve("own", "right")
    refused = house.arcops("switch", "on-right", instance="left", check=False)
    assert refused.returncode == ExitCode.BLOCKED, refused.stdout + refused.stderr
    assert f"lock of {RIGHT}" in refused.stdout + refused.stderr
    assert f"pid {served.pid}" in refused.stdout + refused.stderr
    assert keepers_of(house, LEFT) == []
    house.box.ctl("pair", "stop", "arcops@right")
    free = house.serve("on-right", "left")
    assert any(free.launch_id in line for line in keepers_of(house, RIGHT)), "what was in the way has gone"


def test_a_card_that_was_declared_wedged_is_named_and_nothing_is_launched_on_it(house: Household) -> None:
    box, fault = house.box, f"/run/cards/{house.box.node(LEFT)}"
    box.write(fault, "125\n")
    try:
        refused = house.arcops("switch", "own", instance="left", check=False)
        assert refused.returncode == ExitCode.WEDGED, refused.stdout + refused.stderr
        assert f"card {LEFT} is wedged" in refused.stdout + refused.stderr
        house.serve("own", "right")
    finally:
        box.root("rm", fault)
    assert house.backends() != []
    house.serve("own", "left")


def test_a_card_that_its_driver_does_not_serve_is_named_and_nothing_is_launched_on_it(house: Household) -> None:
    refused = house.curl("/v1/switch", "left", "-d", '{"profile": "on-unserved"}')
    assert refused.returncode != 0
    assert f"no render node for card {UNSERVED}" in refused.stdout
    eventually(lambda: house.backends() == [], within=90.0)
