"""Type multivec for SQLAlchemy 1.4 and 2, with psycopg 2 or 3: columns of numpy arrays.

    embedding = mapped_column(Multivec(128, "f16"))

    select(Doc.id).order_by(Doc.embedding.maxsim(query).desc().nulls_last()).limit(10)
    select(func.maxsim_rerank(literal(query, Multivec(128)), ids, "docs(id, embedding)").table_valued("doc_id", "score"))
"""
import numpy as np
from sqlalchemy import Float, func, literal, literal_column
from sqlalchemy.types import UserDefinedType

import multivec


class Multivec(UserDefinedType):
    cache_ok = True

    def __init__(self, dim, format="f32"):
        self.dim, self.format = int(dim), format

    def get_col_spec(self, **_):
        return f"multivec({self.dim}, {self.format})"

    # values go and come as bytea, which every driver knows

    def bind_processor(self, dialect):
        binary = dialect.dbapi.Binary
        return lambda array: None if array is None else binary(multivec.to_bytes(array, self.dim, self.format))

    def bind_expression(self, bindvalue):
        return func.multivec(bindvalue, literal_column(str(self.dim)), literal_column(f"'{self.format}'"), type_=self)

    def column_expression(self, column):
        return func.multivec_send(column, type_=self)

    def result_processor(self, dialect, coltype):
        return lambda data: None if data is None else multivec.from_binary(bytes(data))

    def compare_values(self, x, y):
        return x is y or (x is not None and y is not None and np.array_equal(x, y))

    class comparator_factory(UserDefinedType.Comparator):
        def maxsim(self, query):
            return func.maxsim(literal(query, Multivec(self.type.dim)), self.expr, type_=Float())
