# The CPU engine's test and benchmark, without PostgreSQL.
#
#	make -f test/engine.mk check            every instruction set, gcc
#	make -f test/engine.mk check-clang      the same built by clang
#	make -f test/engine.mk check-sanitize   small shapes, ASan and UBSan
#	make -f test/engine.mk check-neon       small shapes, 64-bit ARM under qemu
#	make -f test/engine.mk bench            bench/engine_bench.c's tables
#
# SEED=n repeats a run; BUILD=dir puts what is built elsewhere.

CC = gcc
CLANG = clang
CROSS_CC = aarch64-linux-gnu-gcc
QEMU = qemu-aarch64
BUILD = build/engine
SEED =

WARNINGS = -Wall -Wextra -Werror
ENGINE = src/engine_cpu.c src/engine_pack.c src/cpu_features.c $(wildcard src/kernel_*.c)
TEST = test/engine_test.c test/engine_shapes.c test/engine_cases.c test/engine_small.c test/check.c
HEADERS = $(wildcard src/engine*.h src/kernel_*.h src/cpu_features.h src/element.h) test/engine_test.h test/check.h
COMPILE = $(WARNINGS) -std=gnu99 -o $@ $(filter %.c,$^) -lm

check: $(BUILD)/test-gcc
	$< $(SEED)

check-clang: $(BUILD)/test-clang
	$< --quick $(SEED)

check-sanitize: $(BUILD)/test-sanitize
	$< --quick $(SEED)

check-neon: $(BUILD)/test-neon
	$(QEMU) $< --quick $(SEED)

check-all: check check-clang check-sanitize check-neon

bench: $(BUILD)/bench
	$<

$(BUILD)/test-gcc: $(ENGINE) $(TEST) $(HEADERS) | $(BUILD)
	$(CC) -O2 $(COMPILE)

$(BUILD)/test-clang: $(ENGINE) $(TEST) $(HEADERS) | $(BUILD)
	$(CLANG) -O2 $(COMPILE)

$(BUILD)/test-sanitize: $(ENGINE) $(TEST) $(HEADERS) | $(BUILD)
	$(CC) -O1 -g -fsanitize=address,undefined -fno-sanitize-recover=all $(COMPILE)

$(BUILD)/test-neon: $(ENGINE) $(TEST) $(HEADERS) | $(BUILD)
	$(CROSS_CC) -O2 -static $(COMPILE)

$(BUILD)/bench: $(ENGINE) bench/engine_bench.c $(HEADERS) | $(BUILD)
	$(CC) -O2 $(COMPILE)

# for bench/peers.py, which calls the engine through ctypes
$(BUILD)/libengine.so: $(ENGINE) $(HEADERS) | $(BUILD)
	$(CC) -O2 -fPIC -shared $(COMPILE)

$(BUILD):
	mkdir -p $@

.PHONY: check check-clang check-sanitize check-neon check-all bench
