"""What the tests share: random numbers of each format, scores in double precision, a connection."""
import unittest

import numpy as np
import psycopg

import multivec

RNG = np.random.default_rng(1)
SIGNS_AND_EXPONENTS = {"f32": ("u4", 0x7F800000), "f16": ("u2", 0x7C00), "bf16": ("u2", 0x7F80)}


def random_bits(format, shape):
    """Any numbers that a format has, subnormal ones and both zeros included, as what a value of it is read."""
    if format == "b1":
        return RNG.choice(np.array([-1, 1], dtype="f4"), shape)
    if format == "i8":
        return random_i8(shape)
    dtype, infinite = SIGNS_AND_EXPONENTS[format]
    bits = RNG.integers(0, np.iinfo(dtype).max, shape, dtype=dtype, endpoint=True)
    bits[bits & infinite == infinite] = 0
    special = np.array([0, np.iinfo(dtype).max // 2 + 1, 1, infinite - 1], dtype=dtype)
    bits.reshape(-1)[: special.size] = special[: bits.size]
    if format == "bf16":
        return (bits.astype("u4") << 16).view("f4")
    return bits.view("f" + dtype[1])


def random_i8(shape):
    """Tokens that were made by a conversion: the largest component is 127 or -127, the scale the least that gives it."""
    limit = np.nextafter(np.finfo("f4").max / np.float32(127), np.float32(0))
    scales = np.minimum(np.abs(random_bits("f32", (shape[0], 1))) / np.float32(127), limit)
    while (same := (np.nextafter(scales, np.float32(0)) * np.float32(127) == scales * np.float32(127)) & (scales > 0)).any():
        scales[same] = np.nextafter(scales[same], np.float32(0))
    integers = RNG.integers(-127, 127, shape, endpoint=True)
    integers[np.arange(shape[0]), RNG.integers(0, shape[1], shape[0])] = RNG.choice([-127, 127], shape[0])
    return scales * integers.astype("f4") + np.float32(0)  # no -0


def documents(count, dim=128, dtype="f2", low=1, high=200):
    return [RNG.standard_normal((n, dim), dtype="f4").astype(dtype) for n in RNG.integers(low, high, count)]


def double_score(query, document):
    """(score, sum of the terms' sizes) in double precision; the query is rounded to the document's type first."""
    terms = (query.astype(document.dtype).astype("f8") @ document.astype("f8").T).max(axis=1)
    return terms.sum(), np.abs(terms).sum()


class Case(unittest.TestCase):
    def setUp(self):
        self.conn = psycopg.connect(autocommit=True)
        multivec.register(self.conn)
        self.addCleanup(self.conn.close)

    def one(self, statement, *parameters, binary=True):
        return self.conn.execute(statement, parameters, binary=binary).fetchone()[0]

    def table(self, name, *columns):
        self.conn.execute(f"DROP TABLE IF EXISTS {name}")
        self.conn.execute(f"CREATE TABLE {name} ({', '.join(columns)})")

    def same_bits(self, got, expected):
        self.assertEqual((got.shape, got.dtype), (expected.shape, expected.dtype))
        self.assertEqual(got.tobytes(), expected.tobytes())

    def close_to_double(self, score, query, document):
        expected, size = double_score(query, document)
        self.assertLessEqual(abs(score - expected), 1e-5 * size)
