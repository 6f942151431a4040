"""Type multivec for Django 3.2 to 5, with psycopg 2 or 3: a field of numpy arrays.

    embedding = MultivecField(dim=128, format="f16", null=True)

    Doc.objects.annotate(score=MaxSim(query, "embedding")).order_by(F("score").desc(nulls_last=True))[:10]

The extension comes with a migration: django.contrib.postgres.operations.CreateExtension("flash_maxsim").
"""
from django.db import models

import multivec


class MultivecField(models.Field):
    def __init__(self, *args, dim, format="f32", **options):
        self.dim, self.format = int(dim), format
        super().__init__(*args, **options)

    def deconstruct(self):
        name, path, args, options = super().deconstruct()
        return name, path, args, {**options, "dim": self.dim, "format": self.format}

    def db_type(self, connection):
        return f"multivec({self.dim}, {self.format})"

    # values go and come as bytea, which every driver knows

    def get_placeholder(self, value, compiler, connection):
        return "%s" if hasattr(value, "as_sql") else f"multivec(%s, {self.dim}, '{self.format}')"

    def get_db_prep_value(self, value, connection, prepared=False):
        return None if value is None else connection.Database.Binary(multivec.to_bytes(value, self.dim, self.format))

    def select_format(self, compiler, sql, params):
        return f"multivec_send({sql})", params

    def from_db_value(self, value, expression, connection):
        return None if value is None else multivec.from_binary(bytes(value))


class MaxSim(models.Func):
    function = "maxsim"
    output_field = models.FloatField()

    def __init__(self, query, document):
        super().__init__(models.Value(query, output_field=MultivecField(dim=query.shape[1])), document)
