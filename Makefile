# Makefile
#
#   make, make install, make installcheck    against the PostgreSQL of PG_CONFIG, by PGXS
#   make check    every test there is, in a throw-away PostgreSQL; installs what is missing
#   make demo     the demonstration, likewise
#   make bench    the benchmarks
#   make format, make format-check           the C sources, by clang-format
#
# The last three lines must work where no PostgreSQL is installed yet, and PGXS has a
# "check" target of its own that refuses.  So PGXS is read only for the goals of the
# first line.

EXTENSION = flash_maxsim
MODULE_big = flash_maxsim
DATA = sql/flash_maxsim--0.1.0.sql
PGFILEDESC = "flash_maxsim - late-interaction scoring and reranking"

# A kernel file for another architecture compiles to nothing.
OBJS := $(patsubst %.c,%.o,$(sort $(wildcard src/*.c)))

# The file that creates the extension goes first; the others need no order.
regress_files := $(sort $(basename $(notdir $(wildcard test/sql/*.sql))))
REGRESS := $(strip $(filter setup,$(regress_files)) $(filter-out setup,$(regress_files)))
REGRESS_OPTS = --inputdir=test

TAP_TESTS := $(if $(wildcard test/t/*.pl),1)
PROVE_TESTS = test/t/*.pl

PG_CONFIG ?= pg_config

CLANG_FORMAT ?= $(firstword $(shell command -v clang-format-14 clang-format))
format_files = $(sort $(wildcard src/*.[ch] test/*.[ch] bench/*.[ch] cuda/*.cu cuda/*.cuh cuda/*.h cuda/*.c))

own_goals = check demo bench format format-check

ifneq (,$(filter-out $(own_goals),$(or $(MAKECMDGOALS),all)))
PGXS := $(shell $(PG_CONFIG) --pgxs)
ifeq (,$(wildcard $(PGXS)))
$(error no PGXS from "$(PG_CONFIG)": install PostgreSQL's server headers (Debian: postgresql-server-dev-NN) or set PG_CONFIG)
endif
include $(PGXS)

# The engine is C99, as test/engine.mk builds it, without PostgreSQL's stricter style.
src/engine_%.o src/kernel_%.o src/cpu_features.o: override CFLAGS += -Wno-declaration-after-statement

# PGXS knows nothing of headers.
$(OBJS) $(OBJS:.o=.bc): $(wildcard src/*.h)
endif

# Only then, or PGXS would warn of two rules for "check".
ifneq (,$(filter $(own_goals),$(MAKECMDGOALS)))
check:
	@bash scripts/check.sh

demo:
	@bash scripts/demo.sh

bench:
	@bash bench/run.sh

format:
	$(or $(CLANG_FORMAT),$(error needs clang-format)) -i $(format_files)

format-check:
	$(or $(CLANG_FORMAT),$(error needs clang-format)) --dry-run -Werror $(format_files)

endif

.PHONY: $(own_goals)
