"""Arrays and multivecs: every way in and out keeps the bits, what is wrong is an error."""
import unittest

import numpy as np
import psycopg

import multivec
from common import RNG, Case, random_bits

try:
    import ml_dtypes
except ImportError:
    ml_dtypes = None


class Values(Case):
    SHAPES = [(1, 1), (1, 128), (3, 5), (300, 128), (2, 65535)]

    def test_round_trip(self):
        for format in multivec.FORMATS:
            for shape in self.SHAPES:
                array = random_bits(format, shape)
                with self.subTest(format=format, shape=shape):
                    value = multivec.Multivec(array, format)
                    self.assertEqual(self.one("SELECT multivec_format(%s)", value), format)
                    self.same_bits(self.one("SELECT %s", value), array)

    def test_round_trip_text(self):
        for format in multivec.FORMATS:
            for shape in self.SHAPES[:4]:
                array = random_bits(format, shape)
                with self.subTest(format=format, shape=shape):
                    value = multivec.Multivec(array, format)
                    # as text the format is the column's
                    self.same_bits(self.one(f"SELECT %t::multivec({shape[1]}, {format})", value), array)
                    self.same_bits(self.one("SELECT %s", value, binary=False), array.astype("f4"))
                    self.same_bits(self.one("SELECT %t", value, binary=False), array.astype("f4"))

    def test_round_trip_copy(self):
        self.table("copied", "n integer", "e multivec")
        arrays = [random_bits(format, shape) for format in multivec.FORMATS for shape in self.SHAPES]
        formats = [format for format in multivec.FORMATS for _ in self.SHAPES]
        with self.conn.cursor() as cur:
            with cur.copy("COPY copied FROM STDIN (FORMAT BINARY)") as copy:
                copy.set_types(["int4", "multivec"])
                for n, (array, format) in enumerate(zip(arrays, formats)):
                    copy.write_row((n, multivec.Multivec(array, format)))
            with cur.copy("COPY (SELECT e, multivec_format(e) FROM copied ORDER BY n) TO STDOUT (FORMAT BINARY)") as copy:
                copy.set_types(["multivec", "text"])
                rows = list(copy.rows())
        self.assertEqual([format for _, format in rows], formats)
        for (got, _), array in zip(rows, arrays):
            self.same_bits(got, array)

    def test_client_cursor(self):
        array = random_bits("f32", (3, 4))
        with psycopg.ClientCursor(self.conn) as cur:
            self.same_bits(cur.execute("SELECT %s", (array,)).fetchone()[0], array)

    def test_format_of_dtype(self):
        formats = {"f2": "f16", "f4": "f32", "f8": "f32", "i1": "f32", "u8": "f32", ">f4": "f32", ">f2": "f16"}
        for dtype, format in formats.items():
            array = np.arange(6).reshape(2, 3).astype(dtype)
            with self.subTest(dtype=dtype):
                self.assertEqual(self.one("SELECT multivec_format(%s)", array), format)
                self.assertEqual(self.one("SELECT %s", array).tolist(), [[0, 1, 2], [3, 4, 5]])

    def test_layouts(self):
        array = RNG.standard_normal((6, 8), dtype="f4")
        for name, view in [("transposed", array.T), ("steps", array[::2, 1::3]), ("backwards", array[::-1])]:
            with self.subTest(name):
                self.same_bits(self.one("SELECT %s", view), np.ascontiguousarray(view))

    def test_bf16_rounds_as_the_server(self):
        array = random_bits("f32", (200, 128))
        array[np.abs(array) > 3.38e38] = 1  # would be rounded to infinity
        # halves: to the even neighbour
        array[0, :4] = np.array([0x3F808000, 0x3F818000, 0xBF808001, 0x00008000], dtype="u4").view("f4")
        self.same_bits(self.one("SELECT %s", multivec.Multivec(array, "bf16")),
                       self.one("SELECT %s::multivec(128, bf16)", array))

    def as_the_server(self, array, format):
        """The bytes of an array in a format are those that the server makes of the same numbers."""
        sent = self.one(f"SELECT multivec_send(%s::multivec({array.shape[1]}, {format}))", array)
        self.assertEqual(multivec.to_binary(multivec.Multivec(array, format)), sent)

    def test_small_formats_are_the_servers(self):
        for dim in (1, 5, 8, 9, 13, 128):
            # of all sizes in one token, and of one size: what small formats are for
            mixed = random_bits("f32", (500, dim))
            alike = RNG.standard_normal((2000, dim), dtype="f4") * np.exp(RNG.uniform(-90, 80, (2000, 1))).astype("f4")
            subnormal = RNG.integers(0, 1000, (500, dim), dtype="u4").view("f4")
            largest = np.full((500, dim), np.finfo("f4").max)
            largest.view("u4")[:, 0] -= np.arange(500, dtype="u4")
            for format in ("i8", "b1"):
                for name, array in [("mixed", mixed), ("alike", alike), ("subnormal", subnormal), ("largest", largest),
                                    ("half", alike.clip(-60000, 60000).astype("f2")), ("double", alike.astype("f8") / 3)]:
                    with self.subTest(dim=dim, format=format, name=name):
                        self.as_the_server(array, format)

    def test_small_formats_at_their_edges(self):
        # halves go to the even neighbour, a token of zeros has scale 0, zeros and what float32 makes zero have no bit
        array = np.array([[2.5, 3.5, -2.5, 127], [0, -0.0, 0, 0], [1e-44, -3e-45, 1e-60, 0]])
        self.as_the_server(array, "i8")
        self.as_the_server(array, "b1")
        self.assertEqual(multivec.to_bytes(array[:1], 4, "i8").hex(), "0000803f" + "0204fe7f")
        self.assertEqual(multivec.to_bytes(array, 4, "b1").hex(), "d0" + "00" + "80")
        self.assertEqual(self.one("SELECT %s", multivec.Multivec(array[:2], "i8")).tolist(), [[2, 4, -2, 127], [0, 0, 0, 0]])
        self.assertEqual(self.one("SELECT %s", multivec.Multivec(array[:2], "b1")).tolist(), [[1, 1, -1, 1], [-1, -1, -1, -1]])
        # what others have made is read as it is
        self.assertEqual(self.one("SELECT multivec_i8(%s, %s)", [[1, -100], [0, 3]], [0.5, 0.0]).tolist(), [[0.5, -50], [0, 0]])
        signs = RNG.choice(np.array([-1, 1], dtype="f4"), (7, 13))
        self.same_bits(self.one("SELECT multivec(%b, 13, 'b1')", np.packbits(signs > 0, axis=1).tobytes()), signs)
        self.assertEqual(self.one("SELECT ARRAY[B'101010101', B'011111110']::multivec").tolist(),
                         [[1, -1, 1, -1, 1, -1, 1, -1, 1], [-1, 1, 1, 1, 1, 1, 1, 1, -1]])

    @unittest.skipUnless(ml_dtypes, "needs ml_dtypes")
    def test_bf16_of_ml_dtypes(self):
        array = random_bits("bf16", (30, 16))
        value = array.astype(ml_dtypes.bfloat16)
        self.assertEqual(self.one("SELECT multivec_format(%s)", value), "bf16")
        self.same_bits(self.one("SELECT %s", value), array)
        self.same_bits(self.one("SELECT %s", multivec.Multivec(value, "f32")), array)

    def test_empty(self):
        for format in multivec.FORMATS:
            value = multivec.Multivec(np.empty((0, 16), dtype="f4"), format)
            with self.subTest(format=format):
                got = self.one("SELECT %s", value)
                self.assertEqual((got.shape, self.one("SELECT multivec_format(%s)", value)), ((0, 16), format))
                self.assertEqual(self.one("SELECT %t", value, binary=False).shape, (0, 0))
        self.assertEqual(self.one("SELECT '[]'::multivec").shape, (0, 0))
        self.assertIsNone(self.one("SELECT maxsim(%s, %s)", np.ones((1, 16)), np.empty((0, 16))))

    def test_null(self):
        self.assertIsNone(self.one("SELECT NULL::multivec"))
        self.assertIsNone(self.one("SELECT %s::multivec", None, binary=False))

    def test_result_is_a_copy(self):
        array = self.one("SELECT %s", np.zeros((2, 2), dtype="f4"))
        array[0, 0] = 1
        self.assertEqual(array.tolist(), [[1, 0], [0, 0]])

    def test_wrong_arrays(self):
        for array, message in [
                (np.zeros(3), r"shape \(3,\)"), (np.zeros((1, 2, 3)), r"shape \(1, 2, 3\)"),
                (np.float32(1), r"shape \(\)"), (np.array([["a"]]), "not of <U1"),
                (np.array([[1j]]), "not of complex128"), (np.array([[True]]), "not of bool")]:
            with self.subTest(message), self.assertRaisesRegex(ValueError, message):
                multivec.to_binary(array)
        with self.assertRaisesRegex(ValueError, "dimension 3 does not fit multivec\\(2, f16\\)"):
            multivec.to_bytes(np.zeros((2, 3)), 2, "f16")
        with self.assertRaisesRegex(ValueError, "'f8' does not exist"):
            multivec.to_binary(multivec.Multivec(np.zeros((2, 3)), "f8"))
        with self.assertRaisesRegex(ValueError, r"shape \(3,\): .*tolist"):
            self.one("SELECT %s", np.zeros(3))
        with self.assertRaisesRegex(psycopg.Error, "dimension 3 does not fit type multivec\\(2\\)"):
            self.one("SELECT %s::multivec(2)", np.zeros((2, 3)))
        with self.assertRaisesRegex(psycopg.Error, "65536 dimensions"):
            self.one("SELECT %s", np.zeros((1, 65536), dtype="f2"))

    def test_not_finite(self):
        for format in multivec.FORMATS:
            for bits, message in [(0x7FC00000, "NaN"), (0xFFFFFFFF, "NaN"), (0x7F800001, "NaN"),
                                  (0x7F800000, "infinity"), (0xFF800000, "infinity")]:
                array = np.zeros((2, 3), dtype="f4")
                array.view("u4")[1, 0] = bits
                # an integer or a bit cannot say it
                error = ValueError if format in ("i8", "b1") else psycopg.Error
                for place in ("%s", "%t"):
                    with self.subTest(format=format, bits=hex(bits), place=place):
                        with self.assertRaisesRegex(error, f"(?s){message} is not allowed.*number 4"):
                            self.one(f"SELECT {place}::multivec", multivec.Multivec(array, format))
        with self.assertRaisesRegex(psycopg.Error, "infinity is not allowed"):
            self.one("SELECT %s", multivec.Multivec(np.array([[70000.0]]), "f16"))
        with self.assertRaisesRegex(psycopg.Error, "infinity is not allowed"):
            self.one("SELECT %s", np.array([[1e300]]))

    def test_damaged_binary(self):
        good = multivec.to_binary(np.ones((2, 3), dtype="f4"))
        self.assertEqual(multivec.from_binary(good).tolist(), [[1, 1, 1], [1, 1, 1]])
        for data, message in [(b"\2" + good[1:], "version 2"), (b"\1\x63" + good[2:], "format 99"),
                              (good[:2] + b"\0\1" + good[4:], "reserved 1")]:
            with self.subTest(message), self.assertRaisesRegex(ValueError, message):
                multivec.from_binary(data)
        for data in (good[:-1], good + b"\0", good[:12]):
            with self.assertRaises(ValueError):
                multivec.from_binary(data)

    def test_lists_of_integers(self):
        for number, sql_type in [(1, "smallint"), (2**15, "integer"), (2**31, "bigint"), (2**62, "bigint"),
                                 (2**70, "numeric"), (1.5, "double precision")]:
            with self.subTest(sql_type):
                ask = [[number, type(number)(2)]]
                self.assertEqual(self.one("SELECT pg_typeof(%s)::text", ask), sql_type + "[]")
                expected = float(np.float32(number) + np.float32(4))
                self.assertEqual(self.one("SELECT maxsim(%s, %s)", ask, [[1, 2]]), expected)
                self.assertEqual(self.one("SELECT maxsim(%s, %s)", ask, np.array([[1, 2]])), expected)
                self.assertEqual(self.one("SELECT maxsim(%s, %s)", np.array([[1, 2]]), ask), expected)
