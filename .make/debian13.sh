#!/bin/sh
# Unpacks Debian 13 into FOLDER, with its Ruby: Sidekiq 7.3 and Rails 7.2, for the tests marked debian_13.
# Packages come from the mirror that apt uses here. Where that cannot be done, it says why and ends with 0: the tests
# report then what they did not run, and fail under CI=true.
set -eu
root=$1
packages=ruby-sidekiq,ruby-activejob,ruby-webrick,ruby-rackup,ruby-rack-session

not_set_up() {
    echo "NOT SET UP: Debian 13 in $root, for the tests on Sidekiq 7.3: $1" >&2
    exit 0
}

as_root() {
    if [ "$(id -u)" -eq 0 ]; then "$@"; else sudo -n "$@"; fi
}

# shellcheck source=/dev/null
codename=$(. /etc/os-release && [ "$ID" = debian ] && echo "$VERSION_CODENAME") || not_set_up "this system is not Debian, so apt has no mirror with it"
as_root true 2>/dev/null || not_set_up "debootstrap must run as root, and sudo wants a password; run it as root, or sudo -v first"
PATH=$PATH:/usr/sbin
command -v debootstrap >/dev/null || not_set_up "install it: apt-get install debootstrap"
mirror=$(apt-get indextargets --format "\$(REPO_URI) \$(RELEASE) \$(COMPONENT)" 'Created-By: Packages' |
    awk -v codename="$codename" '$2 == codename && $3 == "main" { print $1; exit }')
[ -n "$mirror" ] || not_set_up "apt has no source of $codename main, whose mirror it would use"

echo "Setting up $root, Debian 13 with Ruby (first time, or packages changed) …"
as_root rm -rf "$root.new"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
if ! as_root debootstrap --variant=minbase --include="$packages" trixie "$root.new" "$mirror" >"$log" 2>&1; then
    tail -n 5 "$log" >&2
    not_set_up "debootstrap failed (above); it needs the network once"
fi
# Where tests/support/debian_13.sh mounts this checkout: who is not root cannot make it.
as_root mkdir -p "$root.new$PWD"
as_root touch "$root.new/.root"
as_root rm -rf "$root"
as_root mv "$root.new" "$root"
