"""sqlalchemy_multivec.py, with the driver that this SQLAlchemy can use."""
import unittest

import numpy as np
import psycopg

from common import RNG, Case, documents, double_score, random_bits

try:
    import sqlalchemy
except ImportError:
    sqlalchemy = None


@unittest.skipUnless(sqlalchemy, "needs SQLAlchemy")
class SQLAlchemy(Case):
    def setUp(self):
        super().setUp()
        from sqlalchemy.orm import Session, declarative_base

        from sqlalchemy_multivec import Multivec

        newer = int(sqlalchemy.__version__.split(".")[0]) >= 2
        try:
            import psycopg2
        except ImportError:
            psycopg2 = None
        if not newer and not psycopg2:
            self.skipTest("SQLAlchemy before 2 needs psycopg2")
        driver = psycopg if newer else psycopg2
        self.engine = sqlalchemy.create_engine(f"postgresql+{driver.__name__}://", creator=lambda: driver.connect(""))
        self.addCleanup(self.engine.dispose)
        base = declarative_base()

        class Doc(base):
            __tablename__ = "alchemy"
            id = sqlalchemy.Column(sqlalchemy.BigInteger, primary_key=True)
            plain = sqlalchemy.Column(Multivec(8))
            f16 = sqlalchemy.Column(Multivec(8, "f16"))
            bf16 = sqlalchemy.Column(Multivec(8, "bf16"))

        self.conn.execute("DROP TABLE IF EXISTS alchemy")
        base.metadata.create_all(self.engine)
        self.Doc, self.Multivec, self.session = Doc, Multivec, Session(self.engine)
        self.addCleanup(self.session.close)

    def test_round_trip(self):
        shapes = {"plain": ("f32", 5), "f16": ("f16", 1), "bf16": ("bf16", 9)}
        arrays = {name: random_bits(format, (ntokens, 8)) for name, (format, ntokens) in shapes.items()}
        self.session.add(self.Doc(id=1, **arrays))
        self.session.add(self.Doc(id=2, plain=np.empty((0, 8)), f16=np.empty((0, 8))))
        self.session.commit()
        got = self.session.get(self.Doc, 1)
        for name, array in arrays.items():
            self.same_bits(getattr(got, name), array)
            format = self.one(f"SELECT multivec_format({name}) FROM alchemy WHERE id = 1")
            self.assertEqual(format, shapes[name][0])
        got = self.session.get(self.Doc, 2)
        self.assertEqual((got.plain.shape, got.f16.shape, got.bf16), ((0, 8), (0, 8), None))
        self.assertEqual(self.one("SELECT count(*) FROM alchemy WHERE bf16 IS NULL"), 1)

    def test_update(self):
        array = random_bits("f32", (5, 8))
        self.session.add(self.Doc(id=1, plain=array))
        self.session.commit()
        got = self.session.get(self.Doc, 1)
        got.plain = array.copy()
        self.assertFalse(self.session.is_modified(got))
        got.plain = random_bits("f32", (2, 8))
        self.assertTrue(self.session.is_modified(got))
        self.session.commit()
        self.assertEqual(self.one("SELECT multivec_ntokens(plain) FROM alchemy"), 2)
        got.plain = None
        self.session.commit()
        self.assertIsNone(self.one("SELECT plain FROM alchemy"))

    def test_scores(self):
        arrays, ask = documents(50, dim=8), RNG.standard_normal((4, 8), dtype="f4")
        self.session.add_all(self.Doc(id=id, f16=array) for id, array in enumerate(arrays))
        self.session.add(self.Doc(id=50))
        self.session.commit()
        expected = sorted(range(50), key=lambda id: -double_score(ask, arrays[id])[0])[:10]
        score = self.Doc.f16.maxsim(ask)
        statement = sqlalchemy.select(self.Doc.id, score).order_by(score.desc().nulls_last()).limit(10)
        rows = self.session.execute(statement).all()
        self.assertEqual([id for id, _ in rows], expected)
        for id, got in rows:
            self.close_to_double(got, ask, arrays[id])
        ids = sqlalchemy.literal(list(range(51)), sqlalchemy.ARRAY(sqlalchemy.BigInteger))
        call = sqlalchemy.func.maxsim_rerank(sqlalchemy.literal(ask, self.Multivec(8)), ids, "alchemy(id, f16)", 10)
        found = call.table_valued("doc_id", "score")
        self.assertEqual([row.doc_id for row in self.session.execute(sqlalchemy.select(found))], expected)

    def test_errors(self):
        for array, error, message in [
                (np.zeros((4, 4)), sqlalchemy.exc.StatementError, r"dimension 4 does not fit multivec\(8, f32\)"),
                (np.zeros(8), sqlalchemy.exc.StatementError, r"shape \(8,\)"),
                (np.full((1, 8), np.nan), sqlalchemy.exc.DBAPIError, "NaN is not allowed")]:
            with self.subTest(message), self.assertRaisesRegex(error, message):
                self.session.add(self.Doc(id=1, plain=array))
                self.session.commit()
            self.session.rollback()
