"""`site.yaml`: what this machine has, so that profiles need not say it."""

from typing import Annotated, Literal, TypeAlias

from pydantic import Field

from arcops.config.paths import INSTANCE_NAME, RESERVED_INSTANCES
from arcops.config.source import KeyPath
from arcops.core.profile.sections import Addresses
from arcops.core.speculation import Fault
from arcops.core.speculation.schema import Section, setting

Kind: TypeAlias = Literal["xpu", "cuda", "cpu"]


class SiteRuntime(Section):
    """A vLLM of this machine, and the script that its environment needs."""

    vllm: str | None = setting("The vllm executable, absolute or from ~.", example="/opt/vllm/bin/vllm", min_length=1)
    setup: str | None = setting(
        "A script that is sourced once before a launch. On Intel's cards it is for every profile that names none, "
        "elsewhere for those that take the vllm beside it.",
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
        description="By kind of device, where one vLLM does not serve them all; goes before runtime, key by key.",
        examples=[{"cpu": {"vllm": "/opt/vllm-cpu/bin/vllm"}}],
    )
    models_dir: str | None = setting("Where relative model paths begin.", example="/opt/models", min_length=1)
    cards: Addresses = setting("The cards that profiles may have, in order.", default=(), example=["0000:03:00.0"])
    instances: dict[Annotated[str, Field(pattern=f"^{INSTANCE_NAME.pattern}$")], Instance] = Field(
        default_factory=dict, description="By instance name.", examples=[{"second": {"port": 8001}}]
    )

    def vllm_for(self, kind: Kind) -> tuple[KeyPath, str | None]:
        """The vLLM for a kind of device, and the section that it stands in (or belongs into)."""
        own = self.runtimes.get(kind, SiteRuntime()).vllm
        return (("runtime",), self.runtime.vllm) if own is None else (("runtimes", kind), own)

    def setup_for(self, kind: Kind, *, own_vllm: bool) -> tuple[KeyPath, str | None]:
        """The script for a profile that names none, and the section that it stands in.

        oneAPI is Intel's for every vLLM of the machine; any other script goes with the site's vLLM that it stands
        beside, and a profile with a vLLM of its own says itself what that needs.
        """
        of_kind = self.runtimes.get(kind, SiteRuntime())
        intel = kind == "xpu"
        if of_kind.setup is not None and (intel or not own_vllm):
            return ("runtimes", kind), of_kind.setup
        beside = of_kind.vllm is None and not own_vllm
        return ("runtime",), self.runtime.setup if intel or beside else None

    def cards_for(self, instance: str) -> tuple[str, ...]:
        """The cards that `instance` may have, in order."""
        own = self.instances.get(instance, Instance()).cards
        return self.cards if own is None else own


def site_faults(site: Site) -> list[Fault]:
    """What is wrong between the keys of the site's settings."""
    taken: dict[int, str] = {}
    faults = [
        Fault(f"instances.{name}", "cannot be an instance's name: its lock would be the CPU's own")
        for name in site.instances
        if name in RESERVED_INSTANCES
    ]
    for name, instance in site.instances.items():
        if instance.port is not None and instance.port in taken:
            faults.append(Fault(f"instances.{name}.port", f"{instance.port} is the instance {taken[instance.port]}'s"))
        elif instance.port is not None:
            taken[instance.port] = name
    return faults
