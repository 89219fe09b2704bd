"""What the lab's hooks are called elsewhere: every name is there, and what is there and has none is nothing that the lab has."""

from tramplab.base.errors import TramplabError
from tramplab.boot import saved as boots
from tramplab.boot.probes import PROBES
from tramplab.lab import names
from tramplab.lab.hooks import HOOKS, parted
from tramplab.native import cached
from tramplab.native.states import EMPTY
from tramplab.vmlinux import hooks as images
from tramplab.vmlinux.saved import saved

IMAGE = {called.image for called in names.NAMES.values()} - {""}
BOOT = {name for called in names.NAMES.values() for name in called.boot}
#: Hooks of images that the lab has none like.
ONLY_IMAGES = {"ops-assist", "ops+10-elsewhere", "livepatch", "graph-entry"}
#: Probes whose mechanism is no hook of the lab's, but for mixtures, which have a plus sign in their names.
ONLY_BOOT = set(
    "ops-assist ops-rcu bpf-fsession fprobe-both kprobe-inside kprobe-inside-optimised kprobe-event-inside profile".split()
)


def requests(asked):
    return [repr(request) for request in asked]


def test_names_are_of_the_lab_s_hooks_in_their_order():
    assert [name for name in HOOKS if name in names.NAMES] == list(names.NAMES)
    assert [name for name, hook in HOOKS.items() if hook.hypothetical and name in names.NAMES] == []


def test_every_name_is_there():
    """Among what can be attached, and in what was measured."""
    counted = {row["hook"] for one in saved.every() for row in one["hooks"]}
    booted = {row["probe"] for one in boots.every() for row in one["probes"]}
    assert IMAGE - images.HOOKS.keys() == IMAGE - counted == BOOT - PROBES.keys() == BOOT - booted == set()


def test_every_hook_of_images_is_named_or_no_hook_of_the_lab_s():
    every = [requests(hook.requests(callbacks)) for hook in HOOKS.values() for callbacks in (1, 2, 10)]
    unnamed = set()
    for name, hook in images.HOOKS.items():
        try:
            same, callbacks = names.of_image(name)
            assert not hook.asked or requests(hook.lab()) != requests(same.requests(callbacks)), "it is in the record"
        except TramplabError:
            unnamed.add(name)
            assert requests(hook.lab()) not in every
    assert unnamed == ONLY_IMAGES


def test_every_probe_of_boots_is_named_or_no_hook_of_the_lab_s():
    unnamed = {name for name in PROBES if parted(name)[0] not in BOOT}
    assert {name for name in unnamed if "+" not in name} == ONLY_BOOT
    assert unnamed & (HOOKS.keys() | IMAGE) == set()


def test_what_was_timed_has_the_names_of_the_lab():
    timed = {str(row["hook"]) for result in cached.saved(cached.HOOKS).values() for row in result.rows}
    assert len(timed) > 30 and not [name for name in timed if HOOKS[parted(name)[0]].traps]
    assert set(EMPTY.values()) - {""} <= HOOKS.keys()
