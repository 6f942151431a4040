"""multivec.register(): schemas, asynchronous connections, and other dumpers of arrays."""
import asyncio
import unittest

import numpy as np
import psycopg
from psycopg.adapt import Dumper

import multivec
from common import Case, random_bits

try:
    import pgvector.psycopg as pgvector
except ImportError:
    pgvector = None


class Registration(Case):
    def test_no_type(self):
        for name in ("nothing", "pg_catalog.multivec"):
            with self.assertRaisesRegex(psycopg.ProgrammingError, f"type {name} does not exist"):
                multivec.register(self.conn, name)

    def test_other_schema(self):
        self.conn.execute("CREATE SCHEMA elsewhere")
        self.conn.execute("ALTER EXTENSION flash_maxsim SET SCHEMA elsewhere")
        try:
            with psycopg.connect(autocommit=True) as other:
                with self.assertRaisesRegex(psycopg.ProgrammingError, "type multivec does not exist"):
                    multivec.register(other)
                multivec.register(other, "elsewhere.multivec")
                array = random_bits("f16", (3, 4))
                for cursor in (other.cursor(binary=True), psycopg.ClientCursor(other)):
                    got = cursor.execute("SELECT elsewhere.multivec_token(%s, 2)", (array,)).fetchone()[0]
                    self.assertEqual(np.array(got, dtype="f4").tolist(), array[1].astype("f4").tolist())
        finally:
            self.conn.execute("ALTER EXTENSION flash_maxsim SET SCHEMA public")

    def test_connection_without(self):
        with psycopg.connect(autocommit=True) as other:
            with self.assertRaisesRegex(psycopg.ProgrammingError, "cannot adapt type 'ndarray'"):
                other.execute("SELECT %s", (np.zeros((2, 2)),))

    def test_async(self):
        async def round_trip(array):
            async with await psycopg.AsyncConnection.connect(autocommit=True) as conn:
                await multivec.register_async(conn)
                return (await (await conn.execute("SELECT %s", (array,), binary=True)).fetchone())[0]

        array = random_bits("f32", (5, 7))
        self.same_bits(asyncio.run(round_trip(array)), array)

    def test_beside_another_dumper(self):
        class ListDumper(Dumper):
            oid = self.conn.adapters.types["float4"].array_oid

            def dump(self, obj):
                return ("{" + ",".join(map(str, obj)) + "}").encode()

        with psycopg.connect(autocommit=True) as conn:
            conn.adapters.register_dumper("numpy.ndarray", ListDumper)
            multivec.register(conn)
            for place in ("%s", "%t"):
                types = [conn.execute(f"SELECT pg_typeof({place})::text", (np.ones(shape),)).fetchone()[0]
                         for shape in (2, (2, 2), 3)]
                self.assertEqual(types, ["real[]", "multivec", "real[]"])

    @unittest.skipUnless(pgvector, "needs the package pgvector")
    def test_beside_pgvector(self):
        if not self.one("SELECT count(*) FROM pg_available_extensions WHERE name = 'vector'"):
            self.skipTest("needs pgvector on the server")
        self.conn.execute("CREATE EXTENSION IF NOT EXISTS vector")
        with psycopg.connect(autocommit=True) as conn:
            pgvector.register_vector(conn)
            multivec.register(conn)
            one, two = np.arange(3, dtype="f4"), random_bits("f32", (4, 3))
            for binary in (False, True):
                got = conn.execute("SELECT %s, %s, %s::real[]", (one, two, one), binary=binary).fetchone()
                vector = got[0].to_numpy() if hasattr(got[0], "to_numpy") else got[0]  # older versions give an array
                self.assertEqual(vector.tolist(), [0, 1, 2])
                self.same_bits(got[1], two)
                self.assertEqual(got[2], [0, 1, 2])
