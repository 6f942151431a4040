#!/bin/bash
#
# upgrade.sh
#	That SQL scripts of released versions are what they were, and that what they make
#	becomes the newest version by the upgrade scripts.
#
# Both extensions.  A released script is listed with its checksum in sql/released.sha256
# and not changed any more; what changes comes as a script of its own, from one version to
# the next.

set -euo pipefail

passed=0 failed=0

# RESULT WHAT
report()
{
	if [[ $1 == ok ]]; then
		passed=$((passed + 1))
	else
		failed=$((failed + 1))
	fi
	printf '%s - %s\n' "$@"
}

# DATABASE EXTENSION: every object, how it is made, and what is said about it.
objects()
{
	psql -XAtq -d "$1" -v extension="$2" <<-'END'
		SELECT pg_describe_object(classid, objid, objsubid) AS object, obj_description(objid, classid::regclass::name),
			CASE WHEN classid = 'pg_proc'::regclass AND (SELECT prokind <> 'a' FROM pg_proc WHERE oid = objid) THEN pg_get_functiondef(objid)
				WHEN classid = 'pg_class'::regclass THEN pg_get_viewdef(objid) END,
			(SELECT proacl FROM pg_proc WHERE oid = objid AND classid = 'pg_proc'::regclass), (SELECT relacl FROM pg_class WHERE oid = objid AND classid = 'pg_class'::regclass)
		FROM pg_depend WHERE refclassid = 'pg_extension'::regclass AND deptype = 'e' AND refobjid = (SELECT oid FROM pg_extension WHERE extname = :'extension')
		ORDER BY object;
	END
}

if sha256sum --quiet --check sql/released.sha256; then
	report ok 'released scripts are what they were'
else
	report 'not ok' 'released scripts are what they were'
fi
for control in *.control; do
	extension=${control%.control}
	current=$(sed -n "s/^default_version = '\(.*\)'/\1/p" "$control")
	# one that needs another extension can be made only where that is
	createdb upgrade_newest
	if [[ $extension == flash_maxsim ]] || psql -Xqd upgrade_newest -c "CREATE EXTENSION $extension CASCADE" >/dev/null 2>&1; then
		psql -Xqd upgrade_newest -c "CREATE EXTENSION IF NOT EXISTS $extension CASCADE" 2>/dev/null
		objects upgrade_newest "$extension" >"$PGHOST/upgrade.newest"
		for script in sql/"$extension"--*.sql; do
			version=${script#"sql/$extension--"}
			version=${version%.sql}
			[[ $version != *--* ]] || continue
			createdb upgrade_older
			psql -Xqd upgrade_older -c "CREATE EXTENSION $extension VERSION '$version' CASCADE" -c "ALTER EXTENSION $extension UPDATE" 2>/dev/null
			if objects upgrade_older "$extension" | diff "$PGHOST/upgrade.newest" - && [[ -s $PGHOST/upgrade.newest ]]; then
				report ok "$extension $version becomes $current"
			else
				report 'not ok' "$extension $version becomes $current"
			fi
			dropdb upgrade_older
		done
	fi
	dropdb upgrade_newest
done
printf '%s passed, %s failed\n' "$passed" "$failed"
[[ $failed == 0 ]]
