#!/bin/bash
# First process of a box (box.py): builds the box's file system, then becomes its systemd.
#   box_init.sh STATE FAKE_BUS [PATH...]     PATHs are shown in the box where they are on the host, read-only
# It runs as PID 1 of fresh mount, PID, cgroup, IPC, UTS and network namespaces: every mount below ends with them.
set -euo pipefail
state=$1 fake_bus=$2
shift 2
root=$state/root

mount -t overlay box -o "lowerdir=/,upperdir=$state/upper,workdir=$state/work" "$root"
mount -t proc -o nosuid,nodev,noexec box "$root/proc"
mount -t sysfs -o ro,nosuid,nodev,noexec box "$root/sys"
mount -t cgroup2 -o nsdelegate,nosuid,nodev,noexec box "$root/sys/fs/cgroup"
mount -t tmpfs -o mode=755,nosuid box "$root/dev"
mount -t tmpfs -o mode=755,nosuid,nodev box "$root/run"
mount -t tmpfs -o mode=1777,nosuid,nodev box "$root/tmp"
if [ "$fake_bus" = yes ]; then
  mount -t tmpfs -o mode=755,nosuid,nodev box "$root/sys/bus" # hides the host's cards; a test makes its own
  mkdir -p "$root/sys/bus/pci/devices"
fi

for node in null zero full random urandom tty fuse; do
  [ -e "/dev/$node" ] || continue
  : >"$root/dev/$node"
  mount --bind "/dev/$node" "$root/dev/$node"
done
mkdir "$root/dev/pts" "$root/dev/shm"
mount -t devpts -o newinstance,ptmxmode=0666,mode=620 box "$root/dev/pts"
mount -t tmpfs -o mode=1777,nosuid,nodev box "$root/dev/shm"
ln -s pts/ptmx "$root/dev/ptmx"
ln -s /proc/self/fd "$root/dev/fd"
for number in 0:stdin 1:stdout 2:stderr; do ln -s "/proc/self/fd/${number%%:*}" "$root/dev/${number#*:}"; done
: >"$root/dev/console"
mount --bind "$state/console" "$root/dev/console"

for path in "$@"; do
  if [ -d "$path" ]; then
    mkdir -p "$root$path"
  else
    mkdir -p "$root$(dirname "$path")"
    : >"$root$path"
  fi
  mount --bind "$path" "$root$path"
  mount -o remount,bind,ro "$root$path"
done

# A boot has an id of its own here too: by it stale records are told from those of this boot.
cat /proc/sys/kernel/random/uuid >"$state/boot_id"
mount --bind "$state/boot_id" "$root/proc/sys/kernel/random/boot_id"
ip link set lo up

units=$root/etc/systemd/system
mkdir -p "$units" "$root/var/log/journal"
[ -s "$root/etc/machine-id" ] || tr -d - </proc/sys/kernel/random/uuid >"$root/etc/machine-id"
printf '%s\n' '[Unit]' 'Requires=basic.target' 'AllowIsolate=yes' \
  'Wants=dbus.service systemd-logind.service systemd-user-sessions.service multi-user.target' \
  'After=basic.target dbus.service systemd-logind.service systemd-user-sessions.service' >"$units/box.target"
# No devices, no clock, no network beyond lo, and none of the host's own services.
for unit in systemd-{timesyncd,resolved,networkd,remount-fs,modules-load,sysctl,random-seed,pstore,binfmt,udevd,udev-trigger}.service \
  {getty,cryptsetup,remote-fs}.target console-getty.service dev-{hugepages,mqueue}.mount sys-kernel-{debug,tracing,config}.mount \
  sys-fs-fuse-connections.mount proc-sys-fs-binfmt_misc.automount; do
  ln -sf /dev/null "$units/$unit"
done
# logind waits ten seconds after a last logout before it ends the user's manager: one is as good, and saves a test nine.
mkdir -p "$root/etc/systemd/logind.conf.d"
printf '%s\n' '[Login]' 'UserStopDelaySec=1s' >"$root/etc/systemd/logind.conf.d/box.conf"
if [ ! -e "$state/booted" ]; then # later it is the box's own
  rm -rf "$units"/multi-user.target.wants "$units"/timers.target.wants
  : >"$state/booted"
fi

cd "$root"
mkdir -p .host
pivot_root . .host
umount -l /.host
exec env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin container=arcops-box TERM=dumb \
  /usr/lib/systemd/systemd --system --unit=box.target --log-target=journal --show-status=no
