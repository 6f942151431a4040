#!/usr/bin/env python3
"""Compares the CPU engine with maxsim-cpu and numpy on one core.

    make -f test/engine.mk build/engine/libengine.so
    python3 -m venv /tmp/peers && /tmp/peers/bin/pip install maxsim-cpu numpy threadpoolctl
    /tmp/peers/bin/python bench/peers.py [build/engine/libengine.so]

All of them score the same float32 documents in one process with one thread on
one core, in rounds that take turns; medians are reported in the format of
engine_bench.c, and the ratio within a round below.  Values are positive, since
maxsim-cpu pads documents with zeros.  numpy multiplies, takes the maximum and
sums; it is given whichever number of documents a piece is fastest for it.
"""

import ctypes
import os
import statistics
import sys
import time

# OpenBLAS is to choose its kernel for this processor, and all one thread.
for name in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE"):
    os.environ.pop(name, None)
for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "RAYON_NUM_THREADS"):
    os.environ[name] = "1"
os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})

import maxsim_cpu  # noqa: E402
import numpy  # noqa: E402
import threadpoolctl  # noqa: E402

ROUNDS = 15
SHAPES = [(32, 300, 128, 1000), (32, 35, 128, 4000), (32, 1030, 128, 250), (32, 300, 96, 1000),
          (16, 300, 128, 1000), (4, 300, 128, 1000)]
F32 = 0


class Query(ctypes.Structure):
    _fields_ = [("tokens", ctypes.c_void_p), ("weights", ctypes.c_void_p),
                ("ntokens", ctypes.c_uint32), ("dim", ctypes.c_uint32), ("signs", ctypes.c_bool)]


class Document(ctypes.Structure):
    _fields_ = [("tokens", ctypes.c_void_p), ("ntokens", ctypes.c_uint32)]


class Batch(ctypes.Structure):
    _fields_ = [("query", ctypes.c_void_p), ("documents", ctypes.POINTER(Document)),
                ("ndocuments", ctypes.c_uint32), ("scores", ctypes.c_void_p),
                ("interrupt", ctypes.c_void_p), ("interrupt_arg", ctypes.c_void_p)]


PREPARED_SIZE = ctypes.CFUNCTYPE(ctypes.c_size_t, ctypes.POINTER(Query), ctypes.c_int)
PREPARE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(Query), ctypes.c_int, ctypes.c_void_p,
                           ctypes.POINTER(ctypes.c_void_p), ctypes.c_char_p)
SCORE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(Batch))


class Engine(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("prepared_size", PREPARED_SIZE),
                ("prepare", PREPARE), ("score", SCORE)]


def load_engines(path):
    """The engines that run here: [Engine]."""
    library = ctypes.CDLL(os.path.abspath(path))
    library.maxsim_cpu_engine_at.restype = ctypes.POINTER(Engine)
    supported = ctypes.c_bool()
    engines = []
    i = 0
    while engine := library.maxsim_cpu_engine_at(i, ctypes.byref(supported)):
        if supported.value and engine.contents.name != b"portable":
            engines.append(engine.contents)
        i += 1
    return engines


def engine_scorer(engine, query, documents):
    """A function that prepares the query and scores all documents."""
    ndocuments, ntokens, dim = documents.shape
    scores = numpy.empty(ndocuments, numpy.float32)
    c_query = Query(query.ctypes.data, None, len(query), dim)
    size = engine.prepared_size(ctypes.byref(c_query), F32)
    memory = ctypes.create_string_buffer(size)
    message = ctypes.create_string_buffer(160)
    addresses = (Document * ndocuments)(*(Document(d.ctypes.data, ntokens) for d in documents))

    def run():
        prepared = ctypes.c_void_p()
        engine.prepare(ctypes.byref(c_query), F32, memory, ctypes.byref(prepared), message)
        batch = Batch(prepared, addresses, ndocuments, scores.ctypes.data, None, None)
        engine.score(ctypes.byref(batch))
        return scores

    return run


def numpy_scorer(query, documents, piece):
    """numpy with so many documents a matrix product."""
    ndocuments, ntokens, dim = documents.shape

    def run():
        scores = numpy.empty(ndocuments, numpy.float32)
        for i in range(0, ndocuments, piece):
            part = documents[i:i + piece]
            similarities = part.reshape(-1, dim) @ query.T
            scores[i:i + piece] = similarities.reshape(len(part), ntokens, -1).max(1).sum(1)
        return scores

    return run


def seconds(run):
    start = time.process_time()
    run()
    return time.process_time() - start


def compare(engines, shape):
    nquery, ntokens, dim, ndocuments = shape
    generator = numpy.random.default_rng(1)
    query = generator.random((nquery, dim), numpy.float32)
    documents = generator.random((ndocuments, ntokens, dim), numpy.float32)
    as_list = list(documents)

    scorers = {engine.name.decode(): engine_scorer(engine, query, documents) for engine in engines}
    scorers["maxsim-cpu"] = lambda: maxsim_cpu.maxsim_scores(query, documents)
    scorers["maxsim-cpu-list"] = lambda: maxsim_cpu.maxsim_scores_variable(query, as_list)
    pieces = {n: numpy_scorer(query, documents, n) for n in (1, 4, 16, 64, ndocuments)}
    best = min(pieces, key=lambda n: min(seconds(pieces[n]) for _ in range(3)))
    scorers["numpy"] = pieces[best]

    ours = engines[0].name.decode()
    expected = scorers[ours]().copy()
    for name, run in scorers.items():
        if not numpy.allclose(run(), expected, rtol=1e-4):
            sys.exit(f"{name} disagrees with {ours} at {shape}")

    times = {name: [] for name in scorers}
    for _ in range(ROUNDS):
        for name, run in scorers.items():
            times[name].append(seconds(run))
    text = f"{nquery}x{ntokens}x{dim}"
    for name in scorers:
        rate = ndocuments / statistics.median(times[name])
        gflops = rate * 2e-9 * nquery * ntokens * dim
        print(f"peers\t{name}\tf32\t{text}\tbatch\t{rate:.0f}\t{1e6 / rate:.3f}\t{gflops:.1f}\t-")
    for name in scorers:
        if name != ours:
            ratio = statistics.median(a / b for a, b in zip(times[name], times[ours]))
            print(f"# {text}: {ours} is {ratio:.2f} times as fast as {name}")
    print(f"# {text}: numpy in pieces of {best} documents", flush=True)


def main():
    library = sys.argv[1] if len(sys.argv) > 1 else "build/engine/libengine.so"
    with open("/proc/cpuinfo") as file:
        model = next(line for line in file if line.startswith("model name")).split(": ")[1].strip()
    print(f"# cpu: {model}")
    for pool in threadpoolctl.threadpool_info():
        if pool["internal_api"] == "openblas":
            print(f"# numpy {numpy.__version__}: OpenBLAS {pool['version']}, kernel {pool['architecture']}, "
                  f"{pool['num_threads']} thread")
    print(f"# date: {time.strftime('%Y-%m-%d')}")
    print(f"# command: {' '.join(sys.argv)}")
    print("# benchmark\tengine\tformat\tshape\tmode\tdocs_per_s\tus_per_doc\tgflops\tshare_of_peak")
    engines = load_engines(library)
    for shape in SHAPES:
        compare(engines, shape)


if __name__ == "__main__":
    main()
