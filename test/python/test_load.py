"""load.py: what was sent is what is stored, and an error leaves nothing."""
import os
import subprocess
import sys
import tempfile
import unittest

import numpy as np
import psycopg

import load
import multivec
from common import Case, documents, random_bits


class Loading(Case):
    def test_megabytes(self):
        self.table("docs", "id bigint PRIMARY KEY", "embedding multivec(128, f16)")
        arrays = documents(500)
        arrays[10], arrays[20] = None, np.empty((0, 128), dtype="f2")
        ids = [3 * n - 700 for n in range(len(arrays))]
        self.assertGreater(sum(array.nbytes for array in arrays if array is not None), 10e6)
        load.load(self.conn, ids, arrays, format="f16")
        rows = self.conn.execute("SELECT id, embedding FROM docs ORDER BY id", binary=True).fetchall()
        self.assertEqual([id for id, _ in rows], ids)
        self.assertIsNone(rows[10][1])
        for (_, got), array in zip(rows, arrays):
            if array is not None:
                self.same_bits(got, array)

    def test_large_documents(self):
        # each larger than a block and than what is sent at once
        self.table("docs", "id integer", "embedding multivec(128)")
        arrays = documents(4, dtype="f4", low=9000, high=12000)
        load.load(self.conn, np.arange(4), arrays)
        rows = self.conn.execute("SELECT embedding FROM docs ORDER BY id", binary=True).fetchall()
        for (got,), array in zip(rows, arrays):
            self.same_bits(got, array)

    def test_types(self):
        for id_type in ("smallint", "integer", "bigint"):
            for format in multivec.FORMATS:
                with self.subTest(id=id_type, format=format):
                    self.conn.execute('CREATE SCHEMA IF NOT EXISTS "a b"')
                    self.table('"a b"."T t"', f'"i d" {id_type}', f"e multivec(8, {format})")
                    array = random_bits(format, (6, 8))
                    load.load(self.conn, [-5], [array], "a b.T t", ("i d", "e"), format=format)
                    id, got = self.conn.execute('SELECT "i d", e FROM "a b"."T t"', binary=True, prepare=False).fetchone()
                    self.assertEqual(id, -5)
                    self.same_bits(got, array)

    def test_nothing(self):
        self.table("docs", "id bigint", "embedding multivec")
        load.load(self.conn, [], [])
        self.assertEqual(self.one("SELECT count(*) FROM docs"), 0)

    def test_errors_leave_nothing(self):
        self.table("docs", "id bigint PRIMARY KEY", "embedding multivec(128)")
        arrays = documents(300, dtype="f4")
        bad = [*arrays[:-1], np.full((2, 128), np.nan)]
        short = [*arrays[:-1], np.zeros((2, 127))]
        flat = [*arrays[:-1], np.zeros(128)]
        # of an error in the client older versions of Psycopg show what the server made of it
        own = (ValueError, psycopg.errors.QueryCanceled)
        for ids, values, error, message in [
                (range(300), bad, psycopg.Error, "NaN is not allowed"),
                (range(300), short, psycopg.Error, "dimension 127"),
                ([0, *range(299)], arrays, psycopg.Error, "duplicate key"),
                (range(300), flat, own, r"shape \(128,\)"),
                (range(299), arrays, own, "argument 2 is longer")]:
            with self.subTest(message):
                with self.assertRaisesRegex(error, message):
                    load.load(self.conn, ids, values)
                self.assertEqual(self.one("SELECT count(*) FROM docs"), 0)
        self.table("named", "id text", "embedding multivec")
        with self.assertRaisesRegex(ValueError, '"id" of "named" must be'):
            load.load(self.conn, range(300), arrays, "named")
        load.load(self.conn, range(300), arrays)  # the connection still works
        self.assertEqual(self.one("SELECT count(*) FROM docs"), 300)

    def test_error_while_sending(self):
        # the first document is refused while megabytes are still to come
        self.table("docs", "id bigint", "embedding multivec(128)")
        arrays = documents(2000, low=128, high=129)
        with self.assertRaisesRegex(psycopg.Error, "dimension 3 "):
            load.load(self.conn, range(2001), [np.zeros((1, 3)), *arrays])
        self.assertEqual(self.one("SELECT count(*) FROM docs"), 0)

    def test_freeze(self):
        self.table("docs", "id bigint", "embedding multivec")
        with self.conn.transaction():
            self.conn.execute("TRUNCATE docs")
            load.load(self.conn, range(3), documents(3), freeze=True)
        self.assertEqual(self.one("SELECT count(*) FROM docs"), 3)
        with self.assertRaisesRegex(psycopg.Error, "FREEZE"):
            load.load(self.conn, range(3), documents(3), freeze=True)

    @unittest.skipUnless(os.path.exists("/proc/self/status"), "needs Linux")
    def test_memory(self):
        # what the server has not taken yet does not pile up here
        self.table("docs", "id bigint", "embedding multivec")
        program = """
import numpy, psycopg, load
peak = lambda: int(open("/proc/self/status").read().split("VmHWM:")[1].split()[0])
array = numpy.ones((256, 128), dtype="f4")
with psycopg.connect() as conn:
    load.load(conn, range(10), [array] * 10)
    before = peak()
    load.load(conn, range(1000), [array] * 1000)
print(peak() - before)
"""
        output = subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, check=True, text=True).stdout
        self.assertEqual(self.one("SELECT count(*) FROM docs"), 1010)
        self.assertLess(int(output), 16 * 1024)  # kB, of 131 MB

    def test_parallel(self):
        self.table("docs", "id bigint PRIMARY KEY", "embedding multivec(128, f16)")
        arrays = documents(301)
        load.load_parallel(3, range(301), arrays, table="docs")
        rows = self.conn.execute("SELECT id, embedding FROM docs ORDER BY id", binary=True).fetchall()
        self.assertEqual([id for id, _ in rows], list(range(301)))
        for (_, got), array in zip(rows, arrays):
            self.same_bits(got, array)
        with self.assertRaisesRegex(psycopg.Error, "duplicate key"):
            load.load_parallel(2, range(300, 306), arrays[:6], table="docs")

    def test_programs(self):
        def run(*arguments):
            command = [sys.executable, "examples/python/" + arguments[0], *arguments[1:]]
            return subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True).stdout

        for connections in ("1", "2"):
            output = run("load.py", "--documents", "1000", "--dtype", "float32", "--connections", connections)
            self.assertRegex(output, r"^1000 documents, 33 MB in [0-9.]+ s: [0-9]+ MB/s; the client's processor time is [0-9.]+ s$")
            self.assertEqual(self.one("SELECT count(*) FROM loaded WHERE multivec_format(embedding) = 'f16'"), 1000)
        output = run("query.py")
        norm = float(output.split()[-1])
        found = [line.split() for line in output.splitlines() if line.startswith("  ")]
        self.assertEqual(len(found), 9)
        for id, score in found[::3]:  # the best of each way: the document that the query was made from
            self.assertEqual(id, "7")
            self.assertAlmostEqual(float(score), norm, delta=norm * 1e-5)
        self.assertEqual([int(id) % 2 for id, _ in found[6:]], [1, 1, 1])
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        file = folder.name + "/rows"
        run("load.py", "--documents", "50", "--to", file)
        self.conn.execute("TRUNCATE loaded")
        with open(file, "rb") as data, self.conn.cursor() as cur:
            with cur.copy("COPY loaded FROM STDIN (FORMAT BINARY)") as copy:
                copy.write(data.read())
        self.assertEqual(self.one("SELECT count(*) FROM loaded"), 50)
