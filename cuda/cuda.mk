# The CUDA engine, its tests and its benchmark, without PostgreSQL.  The only file that
# names nvcc.
#
#	make -f cuda/cuda.mk              build/cuda/libmaxsim_cuda.a, to link with C++'s
#	                                  runtime and CUDA_LIBS
#	make -f cuda/cuda.mk programs     the tests and the benchmark too
#	make -f cuda/cuda.mk check-plan   what needs no GPU and no nvcc
#	make -f cuda/cuda.mk check        the tests on this machine's GPU
#	make -f cuda/cuda.mk check-sanitize   small ones under compute-sanitizer
#	make -f cuda/cuda.mk bench        the tables of cuda/README.md
#
# Or include it: then "cuda" builds the library, and nothing else is of the same name.
# All kernels are compiled for all of CUDA_ARCHS, and the last of these as PTX for
# what comes later; about three minutes of one core.  BUILD_CUDA=dir puts what is
# built elsewhere, SEED=n repeats a test.

CUDA_HOME ?= /usr/local/cuda
NVCC ?= $(or $(shell command -v nvcc),$(CUDA_HOME)/bin/nvcc)
# to run it, or say what is missing
nvcc = $(if $(shell command -v $(firstword $(NVCC))),$(NVCC),$(error there is no "$(firstword $(NVCC))": CUDA's compiler is needed. Set CUDA_HOME to the folder that has bin/nvcc, or NVCC to the program))
BUILD_CUDA ?= build/cuda
CUDA_ARCHS ?= 80 90 100 120

cuda_c_flags = -Wall -Wextra -Werror -std=gnu99 -O2 -Isrc -Icuda
cuda_flags = -O3 -std=c++17 -Isrc -Icuda -Werror all-warnings -Xcompiler -fPIC,-Wall,-Wextra --threads 2 $(CUDA_FLAGS)
cuda_codes = $(foreach a,$(CUDA_ARCHS),-gencode arch=compute_$(a),code=sm_$(a)) \
	-gencode arch=compute_$(lastword $(CUDA_ARCHS)),code=compute_$(lastword $(CUDA_ARCHS)) \
	-gencode arch=compute_80,code=compute_80
cuda_warpgroup_codes = -gencode arch=compute_90a,code=sm_90a

cuda_headers = $(wildcard cuda/*.h cuda/*.cuh) src/engine.h src/element.h
cuda_sources = $(wildcard cuda/*.cu)
cuda_objects = $(patsubst cuda/%.cu,$(BUILD_CUDA)/%.o,$(cuda_sources)) $(BUILD_CUDA)/plan.o
CUDA_LIBRARY = $(BUILD_CUDA)/libmaxsim_cuda.a
# after the library; nothing of CUDA's is a shared library
CUDA_LIBS = -L$(dir $(NVCC))../lib64 -lcudart_static -lstdc++ -ldl -lrt -lpthread -lm

cuda: $(CUDA_LIBRARY)

# what to link with after the library, for the Makefile of the scorer
cuda-libs:
	@echo $(CUDA_LIBS)

cuda-programs programs: $(BUILD_CUDA)/cuda_test $(BUILD_CUDA)/plan_test $(BUILD_CUDA)/cuda_bench

check-plan: $(BUILD_CUDA)/plan_test
	$<

cuda-check check: $(BUILD_CUDA)/cuda_test $(BUILD_CUDA)/plan_test
	$(BUILD_CUDA)/plan_test
	$(BUILD_CUDA)/cuda_test $(SEED)

check-sanitize: $(BUILD_CUDA)/cuda_test
	compute-sanitizer --report-api-errors no --tool memcheck --error-exitcode 9 $< --quick $(SEED)
	compute-sanitizer --report-api-errors no --tool racecheck --error-exitcode 9 $< --few $(SEED)

cuda-bench bench: $(BUILD_CUDA)/cuda_bench
	$<

$(CUDA_LIBRARY): $(cuda_objects)
	rm -f $@
	$(AR) rcs $@ $^

# wgmma exists for compute capability 9.0a alone; kernel_packed.cu does without it elsewhere
$(BUILD_CUDA)/kernel_packed.o: cuda_codes = $(foreach a,$(patsubst 90,90a,$(CUDA_ARCHS)),-gencode arch=compute_$(a),code=sm_$(a)) \
	-gencode arch=compute_$(lastword $(CUDA_ARCHS)),code=compute_$(lastword $(CUDA_ARCHS)) \
	-gencode arch=compute_80,code=compute_80
$(BUILD_CUDA)/kernel_rows.o $(BUILD_CUDA)/kernel_blocks.o: cuda_codes = $(cuda_warpgroup_codes)

$(BUILD_CUDA)/%.o: cuda/%.cu $(cuda_headers) | $(BUILD_CUDA)
	$(nvcc) $(cuda_flags) $(cuda_codes) -c -o $@ $<

$(BUILD_CUDA)/plan.o: cuda/plan.c $(cuda_headers) | $(BUILD_CUDA)
	$(CC) $(cuda_c_flags) -fPIC -c -o $@ $<

$(BUILD_CUDA)/plan_test: test/plan_test.c test/check.c cuda/plan.c test/check.h $(cuda_headers) | $(BUILD_CUDA)
	$(CC) $(cuda_c_flags) -o $@ $(filter %.c,$^)

$(BUILD_CUDA)/cuda_test: test/cuda_test.c test/cuda_cases.c test/cuda_reference.c test/check.c test/cuda_test.h test/check.h $(CUDA_LIBRARY) $(cuda_headers)
	$(CC) $(cuda_c_flags) -O3 -fopenmp -o $@ $(filter %.c,$^) $(CUDA_LIBRARY) $(CUDA_LIBS)

$(BUILD_CUDA)/cuda_bench: bench/cuda_bench.cu $(CUDA_LIBRARY) $(cuda_headers)
	$(nvcc) $(cuda_flags) -gencode arch=compute_90,code=sm_90 -gencode arch=compute_80,code=compute_80 -o $@ $< $(CUDA_LIBRARY)

$(BUILD_CUDA):
	mkdir -p $@

.PHONY: cuda cuda-libs cuda-programs programs check-plan cuda-check check check-sanitize cuda-bench bench
