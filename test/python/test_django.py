"""django_multivec.py, with the driver that this Django can use."""
import os
import unittest

import numpy as np

from common import RNG, Case, documents, double_score, random_bits

try:
    import django
except ImportError:
    django = None


@unittest.skipUnless(django, "needs Django")
class Django(Case):
    Doc = None

    @classmethod
    def setUpClass(cls):
        from django.conf import settings

        settings.configure(USE_TZ=True, DEFAULT_AUTO_FIELD="django.db.models.BigAutoField", DATABASES={"default": {
            "ENGINE": "django.db.backends.postgresql", "NAME": os.environ["PGDATABASE"],
            "HOST": os.environ.get("PGHOST", ""), "PORT": os.environ.get("PGPORT", ""),
            "USER": os.environ.get("PGUSER", "")}})
        try:
            django.setup()
            from django.db import connection, models

            connection.ensure_connection()
        except django.core.exceptions.ImproperlyConfigured as error:
            raise unittest.SkipTest("Django before 4.2 needs psycopg2") from error

        from django_multivec import MaxSim, MultivecField

        class Doc(models.Model):
            plain = MultivecField(dim=8, null=True)
            f16 = MultivecField(dim=8, format="f16", null=True)
            bf16 = MultivecField(dim=8, format="bf16", null=True)

            class Meta:
                app_label = "django_test"

        cls.Doc, cls.MaxSim, cls.connection, cls.models = Doc, MaxSim, connection, models
        with connection.schema_editor() as editor:
            editor.create_model(Doc)
        cls.addClassCleanup(connection.close)

    def setUp(self):
        super().setUp()
        self.conn.execute("TRUNCATE django_test_doc")

    def test_round_trip(self):
        shapes = {"plain": ("f32", 5), "f16": ("f16", 1), "bf16": ("bf16", 9)}
        arrays = {name: random_bits(format, (ntokens, 8)) for name, (format, ntokens) in shapes.items()}
        self.Doc.objects.create(id=1, **arrays)
        self.Doc.objects.bulk_create([self.Doc(id=2, plain=np.empty((0, 8)), f16=np.empty((0, 8)))])
        got = self.Doc.objects.get(id=1)
        for name, array in arrays.items():
            self.same_bits(getattr(got, name), array)
            self.same_bits(self.Doc.objects.values_list(name, flat=True).get(id=1), array)
            format = self.one(f"SELECT multivec_format({name}) FROM django_test_doc WHERE id = 1")
            self.assertEqual(format, shapes[name][0])
        got = self.Doc.objects.get(bf16__isnull=True)
        self.assertEqual((got.id, got.plain.shape, got.f16.shape, got.bf16), (2, (0, 8), (0, 8), None))

    def test_update(self):
        array = random_bits("f16", (5, 8))
        doc = self.Doc.objects.create(plain=np.zeros((2, 8)))
        doc.f16 = array
        doc.save()
        self.same_bits(self.Doc.objects.get().f16, array)
        self.Doc.objects.update(plain=self.models.F("f16"))
        self.same_bits(self.Doc.objects.get().plain.astype("f2"), array)
        self.Doc.objects.update(f16=None)
        self.assertIsNone(self.Doc.objects.get().f16)
        self.Doc.objects.update(f16=array[:1])
        self.same_bits(self.Doc.objects.get().f16, array[:1])

    def test_scores(self):
        arrays, ask = documents(50, dim=8), RNG.standard_normal((4, 8), dtype="f4")
        self.Doc.objects.bulk_create([self.Doc(id=id, f16=array) for id, array in enumerate(arrays)] + [self.Doc(id=50)])
        expected = sorted(range(50), key=lambda id: -double_score(ask, arrays[id])[0])[:10]
        best_first = self.models.F("score").desc(nulls_last=True)
        found = self.Doc.objects.annotate(score=self.MaxSim(ask, "f16")).order_by(best_first)
        self.assertEqual([doc.id for doc in found[:10]], expected)
        for doc in found[:10]:
            self.close_to_double(doc.score, ask, arrays[doc.id])
            self.same_bits(doc.f16, arrays[doc.id])
        self.assertIsNone(found[50].score)

    def test_errors(self):
        from django.db import DatabaseError

        for array, error, message in [(np.zeros((4, 4)), ValueError, r"dimension 4 does not fit multivec\(8, f32\)"),
                                      (np.zeros(8), ValueError, r"shape \(8,\)"),
                                      (np.full((1, 8), np.nan), DatabaseError, "NaN is not allowed")]:
            with self.subTest(message), self.assertRaisesRegex(error, message):
                self.Doc.objects.create(plain=array)

    def test_migrations(self):
        field = self.Doc._meta.get_field("f16")
        _, path, args, options = field.deconstruct()
        self.assertEqual((path, args), ("django_multivec.MultivecField", []))
        self.assertEqual(options, {"null": True, "dim": 8, "format": "f16"})
        self.assertEqual(type(field)(*args, **options).db_type(self.connection), "multivec(8, f16)")
