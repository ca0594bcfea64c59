"""From a profile to a launch: everything that it names is looked for on this machine, and nothing is changed there."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from arcops.config.cards import counted_cards
from arcops.config.locate import (
    NotHereError,
    expand,
    find_directory,
    find_executable,
    find_file,
    find_model,
    find_secret,
)
from arcops.config.merge import Merged, Place
from arcops.config.paths import Paths
from arcops.config.problem import Problem
from arcops.config.site import Site
from arcops.config.source import KeyPath, dotted
from arcops.core.launch import Bindings, Launch, launch_of
from arcops.core.profile import Profile
from arcops.machine.gpu import CardIdentity, find_cards


@dataclass(frozen=True, slots=True)
class Machine:
    """What is known of this machine before a profile is looked at."""

    site: Site
    site_file: Path
    site_merged: Merged
    """For the places of the site's settings."""
    env: Mapping[str, str]
    paths: Paths
    sysfs: Path
    """Where the kernel shows its devices: /sys."""

    @property
    def devices(self) -> Path:
        """One directory per PCI address; also what is flocked to own a card."""
        return self.sysfs / "bus" / "pci" / "devices"


def bind(name: str, profile: Profile, merged: Merged, file: Path, machine: Machine) -> Launch | tuple[Problem, ...]:
    """The launch of a profile without faults, or everything that it names and this machine lacks."""
    search = _Search(profile, merged, file, machine)
    bindings = search.bindings()
    return tuple(search.problems) if search.problems else launch_of(name, profile, bindings)


class _Search:
    """One profile's search, and what it did not find."""

    def __init__(self, profile: Profile, merged: Merged, file: Path, machine: Machine) -> None:
        self.profile = profile
        self.merged = merged
        self.file = file
        self.machine = machine
        self.problems: list[Problem] = []

    def bindings(self) -> Bindings:
        profile, machine = self.profile, self.machine
        models = machine.site.models_dir
        # The backend reads the cache that its own environment names.
        env = {**machine.env, **profile.runtime.env}
        vllm, setup = self._runtime()
        model, draft = profile.model, profile.speculation.model
        cards = self._cards()
        found = find_cards(str(machine.sysfs)) if cards else ()
        return Bindings(
            vllm=vllm,
            model=self._look(("model", "path"), lambda: find_model(model.path, model.revision, models, env)),
            draft=self._maybe(draft, ("speculation", "model"), lambda text: find_model(text, None, models, env)),
            setup=setup,
            cards=cards,
            ordinals=self._ordinals(cards, found),
            locks=tuple(str(machine.devices / card) for card in cards) or (str(machine.paths.cpu_lock),),
            tokenizer=self._maybe(
                model.tokenizer, ("model", "tokenizer"), lambda text: find_directory(text, models, env)
            ),
            api_key_file=self._maybe(
                profile.server.api_key_file, ("server", "api_key_file"), lambda text: find_secret(text, machine.env)
            ),
            # Not looked for: what only a qualification needs keeps no backend from starting.
            image=self._expanded(profile.qualification.image),
        )

    def _expanded(self, text: str | None) -> str | None:
        return None if text is None else str(expand(text, self.machine.env))

    def _runtime(self) -> tuple[str, str | None]:
        """The vllm executable and its setup script, the profile's own or the site's."""
        own, env = self.profile.runtime, self.machine.env
        site, kind = self.machine.site, self.profile.device.kind
        beside: KeyPath = ("runtime",)
        at, named = (beside, own.vllm) if own.vllm is not None else site.vllm_for(kind)
        vllm = self._look((*at, "vllm"), lambda: find_executable(_named(named), env))
        at, setup = (
            (beside, own.setup) if own.setup is not None else site.setup_for(kind, own_vllm=own.vllm is not None)
        )
        return vllm, self._maybe(setup, (*at, "setup"), lambda text: find_file(text, env))

    def _ordinals(self, cards: tuple[str, ...], found: Sequence[CardIdentity]) -> tuple[int, ...]:
        """The numbers of `cards` among those that the device's runtime counts."""
        kind = self.profile.device.kind
        counted = counted_cards(kind, found)
        for card in cards:
            if card not in counted and (self.machine.devices / card).is_dir():
                self._miss(("device", "cards"), f"{card} is no card that {kind} can use here; its driver is another's")
        return tuple(counted.index(card) for card in cards if card in counted)

    def _cards(self) -> tuple[str, ...]:
        """The cards that the profile names, or the first of the site's, as many as it needs; in address order."""
        keys: KeyPath = ("device", "cards")
        machine, count = self.machine, self.profile.card_count
        cards = self.profile.device.cards
        if not isinstance(cards, tuple):
            ours = machine.site.cards_for(machine.paths.instance)
            if len(ours) < count:
                whose = f"the instance {machine.paths.instance}"
                self._miss(keys, f"{count} needed, {machine.site_file} names {len(ours)} for {whose}; set cards there")
            cards = tuple(sorted(ours[:count]))
        for card in cards:
            if not (machine.devices / card).is_dir():
                self._miss(keys, f"there is no card {card} in this machine")
        return cards

    def _maybe(self, text: str | None, keys: KeyPath, find: Callable[[str], str]) -> str | None:
        return None if text is None else self._look(keys, lambda: find(text))

    def _look(self, keys: KeyPath, find: Callable[[], str]) -> str:
        try:
            return find()
        except NotHereError as error:
            self._miss(keys, str(error))
            return ""

    def _miss(self, keys: KeyPath, message: str) -> None:
        self.problems.append(Problem(*self._place(keys), dotted(keys), message, here=True))

    def _place(self, keys: KeyPath) -> Place:
        """Where a setting was written: in the profile's files, or in site.yaml."""
        for merged in (self.merged, self.machine.site_merged):
            if keys in merged.places:
                return merged.places[keys]
        return self.merged.place(keys, self.file)


def _named(vllm: str | None) -> str:
    if vllm is None:
        raise NotHereError("no vllm is named, neither by the profile nor by site.yaml; `arcops init` looks for one")
    return vllm
