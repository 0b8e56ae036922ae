#!/bin/sh
# Runs a command as an ordinary user: `as_user.sh PYTHON ARGUMENT ...`, as root.
# Python may be below a home directory that is closed to others: a mount namespace of this command's own shows it there.
set -eu
prefix=$("$1" -c 'import sys; print(sys.base_prefix)')
if [ -z "${OPENENV_AS_USER:-}" ]; then
    OPENENV_AS_USER=1 exec unshare --mount --propagation private sh "$0" "$@"
fi
closed=$(dirname "$prefix")
while [ "$(dirname "$closed")" != / ]; do closed=$(dirname "$closed"); done
if [ "$(stat -c %A "$closed" | cut -c10)" != x ]; then
    kept=$(mktemp -d)
    mount --bind "$prefix" "$kept"
    mount -t tmpfs -o mode=755 tmpfs "$closed"
    mkdir -p "$prefix"
    mount --bind "$kept" "$prefix"
    umount "$kept"
    rmdir "$kept"
fi
exec setpriv --reuid 1234 --regid 1234 --clear-groups env HOME=/tmp PYTHONDONTWRITEBYTECODE=1 "$@"
