#!/bin/bash
# Clears a box away when whoever made it closes the pipe on stdin, or is killed.
#   box_guard.sh CGROUP_PREFIX STATE
set -u
trap '' INT TERM HUP
read -r _
for cgroup in "$1"-*/; do
  [ -d "$cgroup" ] || continue
  until grep -q '^populated 0' "$cgroup/cgroup.events"; do
    echo 1 >"$cgroup/cgroup.kill"
    sleep 0.02
  done
  find "$cgroup" -depth -type d -exec rmdir {} +
done
rm -rf "$2"
