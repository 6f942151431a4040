#!/bin/bash
#
# bare_root.sh [--lenient] [SUITE [GOAL...]]
#	Runs "make GOAL" (demo and check) as a newcomer would: on a fresh system of
#	Debian's SUITE (bookworm) with nothing but git and make, in a clean clone of
#	the last commit.
#
# The system lives in a folder that chroot enters, in mount and process
# namespaces of its own: when they end, so do its mounts and its processes.
# Needs root and the suite's package mirror: MIRROR, or the one that apt has.
# PACKAGES names packages to install beforehand, TOOLS and TAP are what check.sh says.
#
# Exits with 75 if no such system can be made, with --lenient also if the suite's
# own packages do not install (in sid they sometimes do not).

TMPDIR=${TMPDIR:-/var/tmp} # /tmp is often mounted without devices
# shellcheck source=scripts/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

EX_TEMPFAIL=75

# The first mirror of the whole distribution in apt's sources.
mirror_find()
{
	local file

	for file in /etc/apt/sources.list /etc/apt/sources.list.d/*.sources /etc/apt/sources.list.d/*.list; do
		[[ ! -f $file ]] || sed -nE 's,^(URIs:|deb( \[[^]]*\])?) +(https?://[^ ]*/debian)/?( .*)?$,\3,p' "$file"
	done | sed -n 1p
}

# What the host's apt needs to reach its mirrors, the root's apt needs too.
host_network_copy()
{
	local file

	apt-config dump | grep -E '^Acquire::(https?::.*(Proxy|Ca|Verify)|Check-)' >"$ROOTFS/etc/apt/apt.conf.d/90host" || true
	for file in /etc/resolv.conf /etc/hosts; do
		[[ ! -f $file ]] || cp -L "$file" "$ROOTFS$file"
	done
}

# A released suite gets its security fixes, as any system of it does, if the mirror
# has them beside it; they can be years newer than the rest.
security_add()
{
	local list=$ROOTFS/etc/apt/sources.list.d/security.list

	if [[ $SUITE != sid && $SUITE != unstable && $SUITE != experimental ]]; then
		echo "deb $MIRROR-security $SUITE-security main" >"$list"
		inside apt-get -q -o APT::Update::Error-Mode=any update >/dev/null 2>&1 || rm "$list"
	fi
}

root_make()
{
	local packages proxy

	proxy=$(apt-config shell proxy Acquire::http::Proxy | sed "s/^proxy='\(.*\)'$/\1/")
	[[ -z $proxy || -n ${http_proxy:-} ]] || export http_proxy=$proxy
	if ! unshare --mount debootstrap --variant=minbase "$SUITE" "$ROOTFS" "$MIRROR" \
		>"$LOG/debootstrap.log" 2>&1 </dev/null; then
		tail -n 5 "$LOG/debootstrap.log"
		return 1
	fi
	host_network_copy
	# it lives for minutes: no need to wait for the disk
	echo force-unsafe-io >"$ROOTFS/etc/dpkg/dpkg.cfg.d/unsafe-io"
	read -ra packages <<<"${PACKAGES:-}"
	security_add
	inside apt-get -q update >"$LOG/apt.log" 2>&1 &&
		inside apt-get -qy --no-install-recommends install git make ca-certificates "${packages[@]}" >>"$LOG/apt.log" 2>&1
}

# COMMAND...: runs it there, in the clone once there is one.
inside()
{
	# shellcheck disable=SC2016 # for the inner shell
	unshare --mount --pid --fork --kill-child --mount-proc="$ROOTFS/proc" \
		sh -c 'mkdir -p "$1/dev/shm" && mount -t tmpfs tmpfs "$1/dev/shm" && shift && exec "$@"' sh "$ROOTFS" \
		env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root \
		DEBIAN_FRONTEND=noninteractive ${http_proxy:+http_proxy="$http_proxy"} ${TOOLS:+TOOLS="$TOOLS"} ${TAP:+TAP="$TAP"} \
		chroot "$ROOTFS" sh -c 'cd /root/flash_maxsim 2>/dev/null; exec "$@"' sh "$@" </dev/null
}

lenient=
[[ ${1:-} != --lenient ]] || { lenient=yes; shift; }
SUITE=${1:-bookworm}
shift || true
[[ $# -gt 0 ]] || set -- demo check

[[ $(id -u) == 0 ]] || die "needs root"
work_make
ROOTFS=$WORK/root
need debootstrap debootstrap debian-archive-keyring
need git git
MIRROR=${MIRROR:-$(mirror_find)}
MIRROR=${MIRROR:-http://deb.debian.org/debian}

say "making a bare $SUITE from $MIRROR"
if ! root_make; then
	[[ ! -f $LOG/apt.log ]] || tail -n 20 "$LOG/apt.log"
	say "skipped: could not make a $SUITE"
	exit "$EX_TEMPFAIL"
fi
git -c safe.directory='*' clone -q --no-local "$ROOT" "$ROOTFS/root/flash_maxsim"
if [[ -d $ROOT/../shared/cranfield ]]; then
	mkdir "$ROOTFS/root/shared"
	cp -r "$ROOT/../shared/cranfield" "$ROOTFS/root/shared/"
fi

if [[ -n $lenient ]] && ! inside bash scripts/check.sh --prepare; then
	say "skipped: could not install what the tests need in $SUITE"
	exit "$EX_TEMPFAIL"
fi
status=0
for goal; do
	say "$SUITE: make $goal"
	inside make "$goal" || status=$?
done
exit "$status"
