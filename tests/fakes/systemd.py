"""systemctl, loginctl and journalctl that only write down what they are told: for tests that need no real systemd."""

import os
from pathlib import Path

_SCRIPT = r"""#!/bin/bash
# state: a directory; `fail-NAME-VERB` there makes a call fail with its content.
state=STATE tool=${0##*/}
echo "$tool $*" >>"$state/calls"
words=()
for word in "$@"; do case $word in -*) ;; *) words+=("$word") ;; esac; done
verb=${words[0]:-none} unit=${words[1]:-}
if [ -e "$state/hang-$tool" ]; then sleep 600; fi
if [ -e "$state/fail-$tool-$verb" ]; then cat "$state/fail-$tool-$verb" >&2; exit 1; fi
case $tool-$verb in
systemctl-show)
  case "$*" in *=Version*) echo Version=252; exit ;; esac
  file=$unit; case $unit in *@*) file=${unit%%@*}@.service ;; esac
  path=$HOME/.config/systemd/user/$file
  case "$*" in *--system*) path=$state/root/etc/systemd/system/$file ;; esac
  load=not-found fragment= program= enabled= environment=
  if [ -e "$path" ]; then
    load=loaded fragment=$path
    program=$(sed -n 's/^ExecStart=\([^ ]*\).*/\1/p' "$path")
    environment=$(sed -n 's/^Environment=//p' "$path" | tr '\n' ' ')
    enabled=disabled; [ -e "$state/enabled-$unit" ] && enabled=enabled
  fi
  active=inactive sub=dead pid=0
  if [ -e "$state/active-$unit" ]; then active=active sub=running pid=4242; fi
  [ -e "$state/failed-$unit" ] && active=failed sub=failed
  echo "LoadState=$load"
  echo "UnitFileState=$enabled"
  echo "ActiveState=$active"
  echo "SubState=$sub"
  echo "MainPID=$pid"
  echo "NRestarts=0"
  echo "Result=success"
  echo "WatchdogUSec=30s"
  echo "FragmentPath=$fragment"
  echo "DropInPaths="
  echo "NeedDaemonReload=no"
  echo "StatusText="
  echo "ExecStart={ path=$program ; argv[]=$program --instance main ; ignore_errors=no }"
  echo "Environment=$environment"
  echo "TimeoutStopUSec=4min"
  echo "TimeoutStartUSec=1min 30s"
  ;;
systemctl-enable) touch "$state/enabled-$unit" ;;
systemctl-disable) rm -f "$state/enabled-$unit" ;;
systemctl-start | systemctl-restart) touch "$state/active-$unit" ;;
systemctl-stop) rm -f "$state/active-$unit" ;;
systemctl-list-units) cat "$state/units" 2>/dev/null ;;
loginctl-enable-linger) touch "$state/linger/$unit" ;;
loginctl-disable-linger) rm -f "$state/linger/$unit" ;;
loginctl-show-user)
  case "$*" in *=Sessions*) echo "Sessions=3"; exit ;; esac
  [ -e "$state/linger/$unit" ] && echo Linger=yes || echo Linger=no
  ;;
journalctl-none) cat "$state/journal" 2>/dev/null ;;
esac
exit 0
"""


class FakeSystemd:
    """Put `bin` first on PATH. Units are looked for below $HOME; `linger` is logind's directory."""

    def __init__(self, root: Path) -> None:
        self.state = root / "systemd"
        self.bin = self.state / "bin"
        self.linger = self.state / "linger"
        self.root = self.state / "root"
        """Above the system's own units."""
        for directory in (self.bin, self.linger):
            directory.mkdir(parents=True)
        for name in ("systemctl", "loginctl", "journalctl"):
            tool = self.bin / name
            tool.write_text(_SCRIPT.replace("STATE", str(self.state)))
            tool.chmod(0o755)

    @property
    def path(self) -> str:
        """A PATH that finds these first."""
        return f"{self.bin}:{os.environ.get('PATH', '/usr/bin:/bin')}"

    def calls(self) -> list[str]:
        """What was asked so far, `show` excepted."""
        file = self.state / "calls"
        lines = file.read_text().splitlines() if file.exists() else []
        return [line for line in lines if " show" not in line]

    def put(self, name: str, text: str = "") -> None:
        (self.state / name).write_text(text)

    def has(self, name: str) -> bool:
        return (self.state / name).exists()
