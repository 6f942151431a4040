"""Times of other MaxSim kernels for GPUs on the rows of cuda_bench.cu.

    python3 bench/cuda_peers.py [name ...]

Needs torch with a GPU, and of the packages flash-maxsim and late-interaction-kernels
what is to be timed.  As cuda_bench does: one call between two events, 256 MB written
before it ("flush"), then 512 MB read ("clean"), the median of 50; the host is ahead of
the GPU by a sleep there, so that a package's Python is not timed.  A row is the fastest
of each package's entries for that layout.
"""

import statistics
import sys

import torch

ROWS = [  # name, documents, query tokens, lengths
    ("colbert", 1000, 32, (300, 300)),
    ("colbert10k", 10000, 32, (300, 300)),
    ("longdoc", 1000, 32, (1024, 1024)),
    ("medium", 1000, 128, (1024, 1024)),
    ("colpali", 1000, 1024, (1024, 1024)),
    ("ragged", 1000, 32, None),
    ("short", 1000, 32, (16, 128)),
    ("tiny", 50, 32, (64, 300)),
]


def measure(call, scratch, clean, rounds=50):
    times = []
    for i in range(rounds + 3):
        scratch[: 64 << 20].fill_(float(i))
        if clean:
            scratch[64 << 20 :].sum()
        torch.cuda._sleep(400_000)
        start = torch.cuda.Event(enable_timing=True)
        stop = torch.cuda.Event(enable_timing=True)
        start.record()
        call()
        stop.record()
        torch.cuda.synchronize()
        if i >= 3:
            times.append(start.elapsed_time(stop) * 1000)
    return statistics.median(times)


def lengths_of(row, generator):
    _, n, _, span = row
    if span is None:
        normal = torch.randn(n, generator=generator)
        lengths = torch.exp(4.1 + 0.6 * normal).clamp(1, 512).int()
        lengths[0] = 512
        return lengths
    return torch.randint(span[0], span[1] + 1, (n,), generator=generator, dtype=torch.int32)


def entries(query, lengths):
    """Calls by name, and what each must return."""
    n = len(lengths)
    longest = int(lengths.max())
    ends = torch.zeros(n + 1, dtype=torch.int32)
    ends[1:] = torch.cumsum(lengths, 0)
    packed = torch.randn(int(ends[-1]), 128, device="cuda", dtype=torch.float16)
    offsets, ends, on_gpu = ends[:-1].cuda(), ends.cuda(), lengths.cuda()
    calls = {}
    padded = None
    if n * longest * 256 < 4 << 30:
        padded = torch.zeros(n, longest, 128, device="cuda", dtype=torch.float16)
        for i in range(n):
            padded[i, : lengths[i]] = packed[ends[i] : ends[i + 1]] if n <= 1000 else 0.01
        if n > 1000:
            padded = torch.randn(n, longest, 128, device="cuda", dtype=torch.float16)
    try:
        import flash_maxsim as fm

        calls["flash-maxsim direct"] = lambda: fm.flash_maxsim_rerank_direct(query, packed, offsets, on_gpu, longest)
        calls["flash-maxsim packed"] = lambda: fm.flash_maxsim_packed(query, packed, ends, longest)
        if padded is not None:
            calls["flash-maxsim padded"] = lambda: fm.flash_maxsim(query, padded, on_gpu)
    except ImportError as error:
        print("not here:", error)
    try:
        import late_interaction_kernels as lik

        if padded is not None:
            mask = torch.arange(longest, device="cuda")[None, :] < on_gpu[:, None]
            uniform = bool((lengths == longest).all())
            calls["late-interaction-kernels padded"] = lambda: lik.maxsim(query, padded, d_mask=None if uniform else mask)
    except ImportError as error:
        print("not here:", error)
    return calls


def main():
    torch.manual_seed(1)
    generator = torch.Generator().manual_seed(1)
    scratch = torch.empty(192 << 20, device="cuda")
    print(torch.cuda.get_device_name(), "torch", torch.__version__)
    for row in ROWS:
        if len(sys.argv) > 1 and row[0] not in sys.argv[1:]:
            continue
        query = torch.randn(row[2], 128, device="cuda", dtype=torch.float16)
        for name, call in entries(query, lengths_of(row, generator)).items():
            try:
                with torch.no_grad():
                    call()
                    torch.cuda.synchronize()
                    flush = measure(call, scratch, False)
                    clean = measure(call, scratch, True)
                print(f"{row[0]:12s} {name:34s} {flush:8.1f} {clean:8.1f}", flush=True)
            except Exception as error:  # a peer that cannot is a row that says so
                print(f"{row[0]:12s} {name:34s} {type(error).__name__}: {str(error)[:80]}", flush=True)


if __name__ == "__main__":
    main()
