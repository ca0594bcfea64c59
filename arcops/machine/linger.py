"""Whether the user's services run without a login."""

import os
import time

from arcops.core.quantity import Known, Reading, Unknown

_DIRECTORY = "/var/lib/systemd/linger"


def lingering(user: str, directory: str = _DIRECTORY) -> Reading[bool]:
    """Whether lingering is on for a user, from logind's own file, which every user may look for.

    loginctl is not asked: it fails where lingering is off and the user is not logged in, the very case that matters.
    """
    now = time.monotonic()
    try:
        os.stat(os.path.join(directory, user))
    except FileNotFoundError:
        return Known(value=False, at=now)
    except OSError as error:
        return Unknown(f"{directory} cannot be looked into: {error.strerror}", now)
    return Known(value=True, at=now)
