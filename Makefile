# Makefile
#
#   make, make install, make installcheck, make uninstall    against the PostgreSQL of PG_CONFIG, by PGXS
#   make CUDA=yes, make CUDA=yes install     with the GPU engine; needs CUDA's compiler
#   make check    every test there is, in a throw-away PostgreSQL; installs what is missing
#   make demo     the demonstration, likewise
#   make bench    the benchmarks
#   make quality  what each way of searching finds, of QUALITY_DATA (see bench/README.md)
#   make format, make format-check           the C sources, by clang-format
#   make help     this list
#
# The lines but the first two must work where no PostgreSQL is installed yet, and PGXS has
# a "check" target of its own that refuses.  So PGXS is read only for the goals of these.

# The second one, casts from and to pgvector's types, has its functions in the one library.
EXTENSION = flash_maxsim flash_maxsim_pgvector
MODULE_big = flash_maxsim
DATA = $(sort $(wildcard sql/*--*.sql))
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
format_files = $(sort $(wildcard src/*.[ch] scorer/*.[ch] test/*.[ch] bench/*.[ch] cuda/*.cu cuda/*.cuh cuda/*.h cuda/*.c))

own_goals = check demo bench quality format format-check help

# The scorer: a program of its own beside the library, from its own files and the
# engine's.
SCORER = scorer/flash_maxsim_scorer
scorer_objects := $(patsubst %.c,%.o,$(sort $(wildcard scorer/*.c)))
engine_objects := src/engine_cpu.o src/engine_pack.o src/cpu_features.o $(patsubst %.c,%.o,$(sort $(wildcard src/kernel_*.c)))
# CUDA=yes, on a machine with CUDA's compiler: with the GPU engine in the scorer.
ifeq ($(CUDA),yes)
CUDA_LIBRARY := build/cuda/libmaxsim_cuda.a
SCORER_LIBS := $(CUDA_LIBRARY) $(shell $(MAKE) -s --no-print-directory -f cuda/cuda.mk cuda-libs)
scorer_flags := -DMAXSIM_CUDA -Isrc -Icuda
endif
# What its objects are built with, whose flags it inherits.  It is written where that has
# changed, and then they are built anew.
SCORER_STAMP = build/scorer.flags
# The scorer with imaginary GPUs, which only tests run and nobody installs.  Built with
# FAKE_FLAGS=-fsanitize=thread it tells test/t/scorer_devices.pl of races as well.
FAKE_SCORER = build/test/flash_maxsim_scorer
EXTRA_CLEAN = $(SCORER) $(scorer_objects) $(SCORER_STAMP) $(FAKE_SCORER)

ifneq (,$(filter-out $(own_goals),$(or $(MAKECMDGOALS),all)))
PGXS := $(shell $(PG_CONFIG) --pgxs)
ifeq (,$(wildcard $(PGXS)))
$(error no PGXS from "$(PG_CONFIG)": install PostgreSQL's server headers (Debian: postgresql-server-dev-NN) or set PG_CONFIG)
endif
include $(PGXS)

# The engine is C99, as test/engine.mk builds it, without PostgreSQL's stricter style.
src/engine_%.o src/kernel_%.o src/cpu_features.o: override CFLAGS += -Wno-declaration-after-statement

# What is computed here is stored, and must be the same bits on every machine.
exact_objects = src/encode.o src/format.o src/matrix.o src/pool.o src/rotate.o
$(exact_objects): override CFLAGS += -ffp-contract=off
$(exact_objects:.o=.bc): override BITCODE_CFLAGS += -ffp-contract=off

all: $(SCORER)

$(SCORER): $(scorer_objects) $(engine_objects) $(CUDA_LIBRARY)
	$(CC) $(CFLAGS) -o $@ $(scorer_objects) $(engine_objects) $(LDFLAGS) $(SCORER_LIBS) -lpthread -lm

ifdef CUDA_LIBRARY
$(CUDA_LIBRARY): $(wildcard cuda/*)
	$(MAKE) -f cuda/cuda.mk cuda
endif

fake-scorer: $(FAKE_SCORER)
installcheck: fake-scorer

$(FAKE_SCORER): $(scorer_objects:.o=.c) test/fake_cuda.c $(engine_objects) $(wildcard scorer/*.h cuda/engine_cuda.h)
	@$(MKDIR_P) $(@D)
	$(CC) $(CFLAGS) -std=gnu11 -Wno-declaration-after-statement -DMAXSIM_CUDA -Isrc -Icuda $(FAKE_FLAGS) -o $@ $(filter %.c %.o,$^) $(LDFLAGS) -lpthread -lm

$(scorer_objects): override CFLAGS += -std=gnu11 -Wno-declaration-after-statement $(scorer_flags)
$(scorer_objects): $(wildcard scorer/*.h src/engine.h) $(SCORER_STAMP)

$(SCORER_STAMP): FORCE
	@$(MKDIR_P) $(@D)
	@echo '$(CC) $(CFLAGS)' | cmp -s - $@ || echo '$(CC) $(CFLAGS)' >$@

install: install-scorer
install-scorer: $(SCORER)
	$(MKDIR_P) '$(DESTDIR)$(pkglibdir)'
	$(INSTALL_PROGRAM) $(SCORER) '$(DESTDIR)$(pkglibdir)/flash_maxsim_scorer'

uninstall: uninstall-scorer
uninstall-scorer:
	rm -f '$(DESTDIR)$(pkglibdir)/flash_maxsim_scorer'

# PGXS knows nothing of headers.
$(OBJS) $(OBJS:.o=.bc): $(wildcard src/*.h scorer/*.h)
endif

# Only then, or PGXS would warn of two rules for "check".
ifneq (,$(filter $(own_goals),$(MAKECMDGOALS)))
check:
	@bash scripts/check.sh

demo:
	@bash scripts/demo.sh

bench:
	@bash bench/run.sh

quality:
	@bash bench/quality.sh

format:
	$(or $(CLANG_FORMAT),$(error needs clang-format)) -i $(format_files)

help:
	@sed -n 's/^#   //p' $(firstword $(MAKEFILE_LIST))

format-check:
	$(or $(CLANG_FORMAT),$(error needs clang-format)) --dry-run -Werror $(format_files)

endif

.PHONY: $(own_goals) fake-scorer FORCE
