#!/usr/bin/env python3
"""Ask for the best documents with a query that is a numpy array.

    python3 load.py && python3 query.py      three ways to ask, of the table that load.py makes

The functions want a connection that multivec.register() knows.  Query and result go in
binary form, and each statement is prepared once a connection.
"""
import time

import numpy as np
import psycopg
from psycopg import sql

import multivec

SOURCE = "docs(id, embedding)"


def rerank(connection, query, ids, source=SOURCE, top_k=None):
    """Rows (id, score) of the documents with these ids, best first.

    The ids may come from anywhere: another statement, a search engine, a cache.  An id
    that is absent is not returned; the score of a document without tokens is None.
    """
    return connection.execute(
        "SELECT doc_id, score FROM maxsim_rerank(%s, %s::bigint[], %s, %s)",
        (query, list(ids), source, top_k), prepare=True, binary=True).fetchall()


def scores(connection, query, ids, source=SOURCE):
    """A score for each id in its place, None where there is none."""
    return connection.execute(
        "SELECT maxsim_scores(%s, %s::bigint[], %s)", (query, list(ids), source), prepare=True, binary=True).fetchone()[0]


def best(connection, query, table="docs", limit=10):
    """Rows (id, score) of the best of all documents of a table: a scan, scored in batches."""
    statement = sql.SQL("SELECT id, maxsim(%s, embedding) AS score FROM {} ORDER BY score DESC NULLS LAST, id LIMIT %s")
    return connection.execute(
        statement.format(sql.Identifier(table)), (query, limit), prepare=True, binary=True).fetchall()


def prefilter_and_rerank(connection, query, prefilter, parameters=(), source=SOURCE, top_k=10):
    """Both steps in one statement: prefilter is SQL that selects ids, with its own parameters.

    For example: "SELECT id FROM docs WHERE tsv @@ websearch_to_tsquery(%s) LIMIT 500", [words]
    """
    return connection.execute(
        "SELECT doc_id, score FROM maxsim_rerank(%s, ARRAY(" + prefilter + "), %s, %s)",
        (query, *parameters, source, top_k), prepare=True, binary=True).fetchall()


def main():
    source = "loaded(id, embedding)"
    with psycopg.connect() as connection:
        multivec.register(connection)
        document = connection.execute("SELECT embedding FROM loaded WHERE id = 7", binary=True).fetchone()[0]
        query = document[:32].astype("f4")
        ways = {
            "the ids 0 to 999": lambda: rerank(connection, query, range(1000), source, 3),
            "all documents": lambda: best(connection, query, "loaded", 3),
            "odd ids, found in the same statement": lambda: prefilter_and_rerank(
                connection, query, "SELECT id FROM loaded WHERE id %% 2 = %s", [1], source, 3),
        }
        for name, ask in ways.items():
            ask()
            start = time.perf_counter()
            rows = ask()
            print(f"{name}: {(time.perf_counter() - start) * 1000:.1f} ms")
            for id, score in rows:
                print(f"{id:8} {score:10.3f}")
        print("norm of the query's tokens, squared:", f"{np.square(query).sum():.3f}")


if __name__ == "__main__":
    main()
