"""query.py: orders and scores as in double precision."""
import numpy as np

import load
import multivec
import query
from common import RNG, Case, documents, double_score

try:
    import ml_dtypes
except ImportError:
    ml_dtypes = None


class Querying(Case):
    def setUp(self):
        super().setUp()
        self.query = RNG.standard_normal((32, 128), dtype="f4")
        self.arrays = documents(200)
        self.table("docs", "id bigint PRIMARY KEY", "embedding multivec(128, f16)")
        load.load(self.conn, range(200), self.arrays)
        load.load(self.conn, [200, 201], [None, np.empty((0, 128))])
        self.expected = sorted(range(200), key=lambda id: -double_score(self.query, self.arrays[id])[0])

    def check(self, rows, expected):
        self.assertEqual([id for id, _ in rows], expected)
        for id, score in rows:
            self.close_to_double(score, self.query, self.arrays[id])

    def test_rerank(self):
        ids = list(range(0, 200, 3))
        expected = [id for id in self.expected if id % 3 == 0]
        self.check(query.rerank(self.conn, self.query, ids), expected)
        self.check(query.rerank(self.conn, self.query, [*ids, 10**12], top_k=5), expected[:5])
        self.assertEqual(query.rerank(self.conn, self.query, [201, 200]), [(200, None), (201, None)])
        self.assertEqual(query.rerank(self.conn, self.query, []), [])

    def test_scores(self):
        got = query.scores(self.conn, self.query, [5, 201, 999, 7])
        self.assertEqual([score is None for score in got], [False, True, True, False])
        self.close_to_double(got[0], self.query, self.arrays[5])
        self.close_to_double(got[3], self.query, self.arrays[7])

    def test_best(self):
        self.check(query.best(self.conn, self.query), self.expected[:10])
        self.assertEqual([id for id, _ in query.best(self.conn, self.query, limit=300)][200:], [200, 201])

    def test_prefilter(self):
        prefilter = "SELECT id FROM docs WHERE id BETWEEN %s AND %s"
        rows = query.prefilter_and_rerank(self.conn, self.query, prefilter, [50, 99], top_k=7)
        self.check(rows, [id for id in self.expected if 50 <= id <= 99][:7])

    def test_prepared(self):
        for _ in range(10):  # from the sixth time on PostgreSQL may use a generic plan
            self.check(query.best(self.conn, self.query), self.expected[:10])
            self.check(query.rerank(self.conn, self.query, range(1000, -1, -1), top_k=10), self.expected[:10])
        self.assertGreaterEqual(self.one("SELECT count(*) FROM pg_prepared_statements"), 2)

    def test_formats(self):
        for format, dtype in [("f32", "f4"), ("f16", "f2")]:
            for scored in ("f4", "f2"):
                document, ask = self.arrays[3].astype(dtype), self.query.astype(scored)
                with self.subTest(document=format, query=scored):
                    self.close_to_double(self.one("SELECT maxsim(%s, %s)", ask, document), ask, document)
        if ml_dtypes:
            document = self.arrays[3].astype(ml_dtypes.bfloat16)
            self.close_to_double(self.one("SELECT maxsim(%s, %s)", self.query, document), self.query, document)

    def test_small_formats(self):
        for format in ("i8", "b1"):
            document = multivec.Multivec(self.arrays[3], format)
            stored = self.one("SELECT %s", document)  # what is scored, as float32
            expected, _ = double_score(self.query, stored)
            terms = (np.abs(self.query) @ np.abs(stored).T).max(axis=1).sum()
            with self.subTest(document=format):
                self.assertLessEqual(abs(self.one("SELECT maxsim(%s, %s)", self.query, document) - expected), 1e-3 * terms)
        signs = [np.where(array > 0, 1, -1).astype("f4") for array in (self.query, self.arrays[3])]
        self.assertEqual(self.one("SELECT maxsim_hamming(%s, %s)", self.query, document), double_score(*signs)[0])

    def test_one_token(self):
        ask, document = self.query[:1], self.arrays[3][:1]
        self.close_to_double(self.one("SELECT maxsim(%s, %s)", ask, document), ask, document)
