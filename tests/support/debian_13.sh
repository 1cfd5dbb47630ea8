#!/bin/sh
# Runs a command in the Debian 13 that `make .debian13/.root` has unpacked, as a user who may make a mount namespace:
# `unshare --mount debian_13.sh COMMAND`. It sees this checkout and the folder of temporary files by their own names;
# the mounts end with it.
set -eu
checkout=$(cd "$(dirname "$0")/../.." && pwd)
root=$checkout/.debian13
for folder in /proc "${TMPDIR:-/tmp}" "$checkout"; do
    mkdir -p "$root$folder"
    mount --rbind "$folder" "$root$folder"
done
exec chroot "$root" "$@"
