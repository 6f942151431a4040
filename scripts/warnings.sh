#!/bin/bash
#
# warnings.sh COMPILER
#	Builds the extension with warnings as errors, outside the source tree.
#
# PostgreSQL's own headers are not clean under -Wextra: -isystem keeps them out of
# it, and -Wno-sign-compare their macros.  A callback need not use every parameter,
# nor an initializer name every field.  gcc takes a variable of a function that it has
# inlined beside PG_TRY for clobbered.  The last two flags are for clang, which does
# not know all of the flags that PostgreSQL was configured with for gcc.
#
# The engine's own build, test/engine.mk, has all of -Wall -Wextra.

# shellcheck source=scripts/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

compiler=${1:-gcc}
flags="-Wall -Wextra -Werror -Wno-sign-compare -Wno-unused-parameter -Wno-missing-field-initializers -Wno-clobbered"
[[ $compiler != clang* ]] || flags+=" -Wno-ignored-optimization-argument -Wno-unknown-warning-option"

work_make
postgres_find
need "$compiler" "$compiler"
user_pick
tree_copy
tree_make -k "-j$(nproc)" PG_CONFIG="$SYSTEM_PG_CONFIG" CC="$compiler" with_llvm=no \
	COPT="$flags -isystem $("$SYSTEM_PG_CONFIG" --includedir-server)" all fake-scorer 2>&1 |
	{ grep -v "^$compiler " || true; }
