# shellcheck shell=bash
#
# lib.sh
#	What the scripts share: installing what is missing, and a private PostgreSQL.
#
# Sourced, not run.  Nothing here touches the system's PostgreSQL clusters, nor
# installs the extension into the system: prefix_make copies the server's files
# into the work folder (PostgreSQL finds its parts relative to its programs, so
# the copy is a whole installation of its own), and the extension goes there.
# All of it vanishes with the work folder when the script ends, however it ends.
#
# Called by root, everything but apt runs as an unprivileged user, because
# PostgreSQL refuses to run as root.

set -Eeuo pipefail
trap 'echo "${0##*/}: failed: $BASH_COMMAND" >&2' ERR

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
export DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8
# "make check" starts these scripts: its own flags are not meant for the makes below.
unset MAKEFLAGS MFLAGS MAKEOVERRIDES MAKELEVEL
# Nor is a connection that the caller has set up.
unset PGHOST PGHOSTADDR PGPORT PGUSER PGDATABASE PGPASSWORD PGSERVICE PGOPTIONS PGDATA

say()
{
	printf '%s\n' "$*"
}

die()
{
	printf '%s: %s\n' "${0##*/}" "$*" >&2
	exit 1
}

# --- the work folder ---------------------------------------------------------

work_make()
{
	WORK=$(mktemp -d "${TMPDIR:-/tmp}/flash_maxsim.XXXXXX")
	LOG=$WORK/log
	trap work_remove EXIT
	trap 'exit 129' HUP
	trap 'exit 130' INT
	trap 'exit 143' TERM
	mkdir "$LOG"
	chmod 755 "$WORK"
}

work_remove()
{
	local status=$?

	trap '' HUP INT TERM
	set +e
	createcluster_restore
	step_stop 2>/dev/null
	cluster_stop
	rm -rf "$WORK"
	exit "$status"
}

# Replaced by steps.sh where there are steps.
step_stop()
{
	:
}

# NAME COMMAND...: runs it quietly; its output is shown only if it fails.
quietly()
{
	local log=$LOG/$1

	shift
	"$@" >>"$log" 2>&1 </dev/null && return
	tail -n 60 "$log" >&2
	die "failed: $*"
}

# --- users -------------------------------------------------------------------

as_root()
{
	if [[ $(id -u) == 0 ]]; then
		"$@"
	elif command -v sudo >/dev/null; then
		sudo --preserve-env=DEBIAN_FRONTEND,http_proxy,https_proxy "$@"
	else
		die "needs root or sudo for: $*"
	fi
}

# The unprivileged user that owns the work folder and the cluster.
user_pick()
{
	RUN_USER=
	[[ $(id -u) == 0 ]] || return 0
	for RUN_USER in postgres nobody; do
		id "$RUN_USER" >/dev/null 2>&1 && return
	done
	die "found no unprivileged user to run PostgreSQL as"
}

as_user()
{
	if [[ -n $RUN_USER ]]; then
		setpriv --reuid="$RUN_USER" --regid="$(id -g "$RUN_USER")" --init-groups \
			env HOME="$WORK" USER="$RUN_USER" LOGNAME="$RUN_USER" "$@"
	else
		"$@"
	fi
}

# --- packages ----------------------------------------------------------------

# PACKAGE...: installs those that are missing.
apt_install()
{
	local package missing=()

	for package; do
		dpkg-query -W -f='${db:Status-Status}\n' "$package" 2>/dev/null | grep -qx installed ||
			missing+=("$package")
	done
	[[ ${#missing[@]} -gt 0 ]] || return 0

	say "installing with apt: ${missing[*]}"
	apt_update
	quietly apt.log as_root apt-get -qy --no-install-recommends \
		-o DPkg::Lock::Timeout=600 -o Acquire::Retries=3 install "${missing[@]}"
}

# Once a run.  One unreachable source of several is no reason to stop.
apt_update()
{
	[[ -z ${APT_UPDATED:-} ]] || return 0
	as_root apt-get -q -o DPkg::Lock::Timeout=600 -o Acquire::Retries=3 update \
		>>"$LOG/apt.log" 2>&1 </dev/null || true
	APT_UPDATED=yes
}

have_apt()
{
	command -v apt-get >/dev/null && command -v dpkg-query >/dev/null
}

# COMMAND PACKAGE...: the packages bring the command.
need()
{
	local command=$1

	shift
	command -v "$command" >/dev/null && return
	have_apt || die "needs $command: install it (Debian's packages: $*)"
	apt_install "$@"
}

compiler_need()
{
	echo '#include <stdio.h>' | gcc -fsyntax-only -x c - 2>/dev/null && return
	have_apt || die "needs gcc and the C library's headers"
	apt_install gcc libc6-dev
}

# --- PostgreSQL --------------------------------------------------------------

# Sets SYSTEM_PG_CONFIG to that of a server with headers: PG_CONFIG's if that is
# set, else the one in PATH, else Debian's newest; installs one if there is none.
postgres_find()
{
	local candidate version

	if [[ -n ${PG_CONFIG:-} ]]; then
		pg_config_usable "$PG_CONFIG" ||
			die "PG_CONFIG=$PG_CONFIG names no PostgreSQL with a server, its headers and PGXS"
		return
	fi
	while read -r candidate; do
		pg_config_usable "$candidate" && return
	done < <(command -v pg_config || true; pg_config_list)

	have_apt || die "found no PostgreSQL with a server, its headers and PGXS: install one or set PG_CONFIG"
	version=$(postgres_version_installed || true)
	if [[ -z $version ]]; then
		apt_update
		version=$(apt-cache show postgresql | sed -n 's/^Depends:.*postgresql-\([0-9]*\).*/\1/p' | sort -rn | sed -n 1p)
	fi
	[[ -n $version ]] || die "apt offers no PostgreSQL"
	createcluster_suppress
	apt_install "postgresql-$version" "postgresql-server-dev-$version"
	createcluster_restore
	pg_config_usable "/usr/lib/postgresql/$version/bin/pg_config" || die "could not install PostgreSQL $version"
}

pg_config_usable()
{
	local bindir

	bindir=$("$1" --bindir 2>/dev/null) || return 1
	[[ -x $bindir/postgres && -x $bindir/initdb && -x $bindir/pg_config ]] || return 1
	[[ -f $("$1" --pgxs) && -f $("$1" --includedir-server)/postgres.h ]] || return 1
	SYSTEM_PG_CONFIG=$bindir/pg_config
}

pg_config_list()
{
	printf '%s\n' /usr/lib/postgresql/*/bin/pg_config | sort -rV
}

postgres_version_installed()
{
	printf '%s\n' /usr/lib/postgresql/*/bin/postgres | cut -d/ -f5 | grep -x '[0-9]*' | sort -rn | sed -n 1p
}

# Debian's server packages make and start a cluster on port 5432 when first
# installed.  For the time of our installation they do not.
createcluster_suppress()
{
	apt_install postgresql-common
	CREATECLUSTER=/etc/postgresql-common/createcluster.conf
	as_root cp -p "$CREATECLUSTER" "$CREATECLUSTER.flash_maxsim"
	echo 'create_main_cluster = false' | as_root tee -a "$CREATECLUSTER" >/dev/null
}

createcluster_restore()
{
	[[ -n ${CREATECLUSTER:-} && -f $CREATECLUSTER.flash_maxsim ]] || return 0
	as_root mv -f "$CREATECLUSTER.flash_maxsim" "$CREATECLUSTER"
}

# Copies the server into $WORK/prefix and points PG_CONFIG and PATH there.
prefix_make()
{
	local bindir directory option prefix=$WORK/prefix

	bindir=$("$SYSTEM_PG_CONFIG" --bindir)
	mkdir -p "$prefix$bindir"
	# not all of it: where PostgreSQL shares /usr/bin, that is everything
	find "$bindir" -maxdepth 1 \( -name 'pg*' -o -name 'postgres*' -o -name psql -o -name initdb \
		-o -name 'create*' -o -name 'drop*' -o -name '*db' \) -exec cp -aL -t "$prefix$bindir" {} +
	for option in --pkglibdir --sharedir; do
		directory=$("$SYSTEM_PG_CONFIG" "$option")
		mkdir -p "$prefix$directory"
		cp -a "$directory/." "$prefix$directory/"
	done
	for option in --includedir --pkgincludedir --includedir-server; do
		directory=$("$SYSTEM_PG_CONFIG" "$option")
		[[ ! -e $prefix$directory ]] || continue
		mkdir -p "$(dirname "$prefix$directory")"
		ln -s "$directory" "$prefix$directory"
	done
	export PG_CONFIG=$prefix$bindir/pg_config
	export PATH=$prefix$bindir:$PATH
}

# Copies the sources to $WORK/tree, without what a build may have left there, and
# what lies in ../shared for the tests to read, and gives it all to RUN_USER.
tree_copy()
{
	mkdir "$WORK/tree"
	tar -C "$ROOT" -cf - --exclude=./.git --exclude=./build --exclude=./results --exclude=./tmp_check \
		--exclude='*.o' --exclude='*.bc' --exclude='*.so' --exclude='*.d' . |
		tar -C "$WORK/tree" -xf - --no-same-owner
	if [[ -d $ROOT/../shared/cranfield ]]; then
		mkdir "$WORK/shared"
		cp -r "$ROOT/../shared/cranfield" "$WORK/shared/"
		chmod -R u+w "$WORK/shared"
	fi
	[[ -z $RUN_USER ]] || chown -R "$RUN_USER:$(id -g "$RUN_USER")" "$WORK"
}

# ARGUMENT...: make, in the copy, for the private server.
tree_make()
{
	as_user make -C "$WORK/tree" --no-print-directory "$@"
}

# Everything up to an installed extension.  The arguments are make's.
extension_prepare()
{
	postgres_find
	compiler_need
	user_pick
	prefix_make
	tree_copy
	say "building for $("$PG_CONFIG" --version)"
	quietly build.log tree_make "-j$(nproc)" all "$@"
	quietly build.log tree_make install "$@"
}

# A cluster that listens on a socket in the work folder only; the environment
# then points there.
cluster_start()
{
	export PGHOST=$WORK/socket PGPORT=65432 PGUSER=postgres PGDATABASE=postgres
	as_user mkdir -m 700 "$PGHOST"
	quietly initdb.log as_user initdb -D "$WORK/data" -U postgres -A trust -E UTF8 --no-locale --no-sync
	as_user tee -a "$WORK/data/postgresql.conf" >/dev/null <<-END
		listen_addresses = ''
		unix_socket_directories = '$PGHOST'
		port = $PGPORT
		fsync = off
		shared_buffers = 256MB
	END
	quietly start.log as_user pg_ctl -D "$WORK/data" -l "$WORK/server.log" -w start
}

# Also the servers that an interrupted test has left in the work folder.
cluster_stop()
{
	local file pid tries

	while read -r file; do
		pid=$(head -n 1 "$file" 2>/dev/null)
		[[ $pid =~ ^[0-9]+$ ]] || continue
		kill -QUIT "$pid" 2>/dev/null
		for ((tries = 0; tries < 100; tries++)); do
			[[ -f $file ]] || continue 2 # it removes the file at its end
			sleep 0.1
		done
		kill -KILL "$pid" 2>/dev/null
	done < <(find "$WORK" -name postmaster.pid 2>/dev/null)
}
