"""A process that takes what others leave."""

import subprocess
import sys

SCRIPT = """
import os
from arcops.machine import idle
idle.become()
import ctypes, platform
get = {"x86_64": 252, "aarch64": 31}.get(platform.machine())
print(os.getpriority(os.PRIO_PROCESS, 0), get and ctypes.CDLL(None).syscall(get, 1, 0) >> 13)
"""


def test_it_has_the_lowest_priority_of_processor_and_disk() -> None:
    said = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True).stdout.split()
    assert said[0] == "19"
    assert said[1] in ("3", "None")
