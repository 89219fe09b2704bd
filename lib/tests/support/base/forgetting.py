"""What a process of tests remembers of the files that it has read or made."""

import sys


def forget(*rooms: str) -> None:
    """Nothing any more, so that it looks at what is kept as another process would. rooms: of these alone (all but `ftrace`)."""
    for name, module in list(sys.modules.items()):
        package, _, room = name.partition(".")
        if package == "tramplab" and (room.partition(".")[0] in rooms if rooms else not room.startswith("ftrace")):
            for value in list(vars(module).values()):
                if hasattr(value, "cache_clear"):
                    value.cache_clear()
