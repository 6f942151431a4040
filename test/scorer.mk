# The test of what the scorer takes from backends, without PostgreSQL.
#
#	make -f test/scorer.mk check            with ASan and UBSan
#
# BUILD=dir puts what is built elsewhere.

CC = gcc
BUILD = build/scorer

check: $(BUILD)/scorer_test
	$<

$(BUILD)/scorer_test: test/scorer_test.c test/check.c scorer/connection.c $(wildcard scorer/*.h) test/check.h src/engine.h | $(BUILD)
	$(CC) -Wall -Wextra -Werror -std=gnu99 -O1 -g -fsanitize=address,undefined -fno-sanitize-recover=all -o $@ $(filter %.c,$^) -lpthread

$(BUILD):
	mkdir -p $@

.PHONY: check
