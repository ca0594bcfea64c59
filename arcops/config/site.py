"""`site.yaml`: what this machine has, so that profiles need not say it."""

from typing import Annotated, Literal, TypeAlias

from pydantic import Field

from arcops.core.profile.sections import Addresses
from arcops.core.speculation import Fault
from arcops.core.speculation.schema import Section, setting

Kind: TypeAlias = Literal["xpu", "cuda", "cpu"]


class SiteRuntime(Section):
    """A vLLM of this machine, and the script that its environment needs."""

    vllm: str | None = setting("The vllm executable, absolute or from ~.", example="/opt/vllm/bin/vllm", min_length=1)
    setup: str | None = setting(
        "A script that is sourced once before a launch; for profiles that name no vllm of their own.",
        example="/opt/intel/oneapi/setvars.sh",
        min_length=1,
    )


class Instance(Section):
    """What one supervisor of several has for itself."""

    cards: Addresses | None = setting("Its cards; all of the site's unless set.", example=["0000:03:00.0"])
    port: int | None = setting("The port of profiles that name none.", example=8001, ge=1, le=65535)


class Site(Section):
    """Site settings; every one of them is optional."""

    runtime: SiteRuntime = Field(default=SiteRuntime(), description="The vLLM of profiles that name none.")
    runtimes: dict[Kind, SiteRuntime] = Field(
        default_factory=dict[Kind, SiteRuntime],
        description="By kind of device, where one vLLM does not serve them all; goes before runtime.",
        examples=[{"cpu": {"vllm": "/opt/vllm-cpu/bin/vllm"}}],
    )
    models_dir: str | None = setting("Where relative model paths begin.", example="/opt/models", min_length=1)
    cards: Addresses = setting("The cards that profiles may have, in order.", default=(), example=["0000:03:00.0"])
    instances: dict[Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]{0,31}$")], Instance] = Field(
        default_factory=dict, description="By instance name.", examples=[{"second": {"port": 8001}}]
    )

    def runtime_for(self, kind: Kind) -> tuple[str, SiteRuntime]:
        """The vLLM for a kind of device, and the key that it stands under."""
        return (f"runtimes.{kind}", self.runtimes[kind]) if kind in self.runtimes else ("runtime", self.runtime)

    def cards_for(self, instance: str) -> tuple[str, ...]:
        """The cards that `instance` may have, in order."""
        own = self.instances.get(instance, Instance()).cards
        return self.cards if own is None else own


def site_faults(site: Site) -> list[Fault]:
    """What is wrong between the keys of the site's settings."""
    taken: dict[int, str] = {}
    faults: list[Fault] = []
    for name, instance in site.instances.items():
        if instance.port is not None and instance.port in taken:
            faults.append(Fault(f"instances.{name}.port", f"{instance.port} is the instance {taken[instance.port]}'s"))
        elif instance.port is not None:
            taken[instance.port] = name
    return faults
