#!/usr/bin/env python3
"""Load token vectors into PostgreSQL as fast as it takes them.

    python3 load.py                          10,000 random documents of 128 x 128 into table "loaded", which stays: 328 MB
    python3 load.py --connections 2          by two connections
    python3 load.py --to /dev/null           only what the client does

load() takes what PyLate's model.encode() and others give: a list of arrays
[tokens][dimension], of different numbers of tokens, and a list of ids.  It sends COPY
BINARY in blocks that are put together from the arrays' memory as it is; the only loop is
over documents.  Who to connect to is what libpq reads: PGHOST, PGDATABASE and so on.
"""
import argparse
import selectors
import struct
import threading
import time

import numpy as np
import psycopg
from psycopg import sql

import multivec

SIGNATURE = b"PGCOPY\n\xff\r\n\0" + bytes(8)
TRAILER = b"\xff\xff"
BLOCK = 1 << 18
# types of the id column: how COPY BINARY wants an id
ID_FORMATS = {20: "q", 23: "i", 21: "h"}


def blocks(ids, arrays, format=None, id_format="q"):
    """COPY BINARY's rows (id, multivec) as blocks of bytes; an array that is None is NULL."""
    head = struct.Struct(f"!hi{id_format}i")
    id_size = struct.calcsize(f"!{id_format}")
    parts, size = [SIGNATURE], 0
    for id, array in zip(ids, arrays, strict=True):
        if array is None:
            parts.append(head.pack(2, id_size, id, -1))
            size += head.size
        else:
            kind, dim, ntokens, rows = multivec.elements(multivec.Multivec(array, format))
            parts.append(head.pack(2, id_size, id, multivec.HEADER.size + rows.nbytes))
            parts.append(multivec.header(kind, dim, ntokens))
            parts.append(rows)
            size += head.size + multivec.HEADER.size + rows.nbytes
        if size >= BLOCK:
            yield b"".join(parts)
            parts, size = [], 0
    parts.append(TRAILER)
    yield b"".join(parts)


def flush(pgconn):
    """Wait until the server has taken what was written.

    Older versions of Psycopg, 3.1.7 for one, pile up in memory what the server does not
    take at once, and the pile is moved with each write.
    """
    if pgconn.flush() == 0:
        return
    with selectors.DefaultSelector() as selector:
        selector.register(pgconn.socket, selectors.EVENT_READ | selectors.EVENT_WRITE)
        while pgconn.flush() != 0:
            for _, event in selector.select():
                if event & selectors.EVENT_READ:
                    pgconn.consume_input()


def load(connection, ids, arrays, table="docs", columns=("id", "embedding"), format=None, freeze=False):
    """Load arrays into two columns of a table, in one COPY.

    format is that of the column, so that the client converts and sends no more than is
    stored; without it, arrays go as their dtype says.  freeze spares the first reader
    work, but wants a table that the same transaction has created or truncated.
    """
    target = sql.Identifier(*table.split("."))
    names = sql.SQL(", ").join(map(sql.Identifier, columns))
    options = sql.SQL("FORMAT BINARY, FREEZE" if freeze else "FORMAT BINARY")
    with connection.cursor() as cur:
        cur.execute(sql.SQL("SELECT {} FROM {} LIMIT 0").format(names, target), prepare=False)
        id_type = cur.description[0].type_code
        if id_type not in ID_FORMATS:
            raise ValueError(f'column "{columns[0]}" of "{table}" must be a bigint, integer or smallint')
        with cur.copy(sql.SQL("COPY {} ({}) FROM STDIN ({})").format(target, names, options)) as copy:
            for block in blocks(ids, arrays, format, ID_FORMATS[id_type]):
                copy.write(block)
                flush(connection.pgconn)


def load_parallel(connections, ids, arrays, conninfo="", **options):
    """load() by so many connections at once, each a part of the documents in its own transaction.

    An error of one leaves what the others have loaded.
    """
    errors = []

    def part(first):
        try:
            with psycopg.connect(conninfo) as connection:
                load(connection, ids[first::connections], arrays[first::connections], **options)
        except Exception as error:  # raised below, in the caller's thread
            errors.append(error)

    threads = [threading.Thread(target=part, args=(first,)) for first in range(connections)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


def demo(options, ids, arrays):
    """Make the table, load it, and add the primary key: returns the seconds of the load, and of this process in it."""
    table = sql.Identifier(options.table)
    create = sql.SQL("CREATE TABLE {} (id bigint, embedding multivec({}, {}))").format(
        table, sql.Literal(options.dim), sql.SQL(options.format))
    with psycopg.connect() as connection:
        connection.execute("CREATE EXTENSION IF NOT EXISTS flash_maxsim")
        connection.execute(sql.SQL("DROP TABLE IF EXISTS {}").format(table))
        connection.execute(create)
        if options.connections > 1:
            connection.commit()
        start = time.perf_counter(), time.process_time()
        if options.connections > 1:
            load_parallel(options.connections, ids, arrays, table=options.table, format=options.format)
        else:
            load(connection, ids, arrays, options.table, format=options.format, freeze=True)
            connection.commit()
        seconds = time.perf_counter() - start[0], time.process_time() - start[1]
        connection.execute(sql.SQL("ALTER TABLE {} ADD PRIMARY KEY (id)").format(table))
    return seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=int, default=10000)
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--dim", type=int, default=128)
    parser.add_argument("--format", default="f16", choices=multivec.FORMATS, help="of the column")
    parser.add_argument("--dtype", default="float16", help="of the arrays")
    parser.add_argument("--connections", type=int, default=1)
    parser.add_argument("--table", default="loaded", help="dropped first where it exists")
    parser.add_argument("--to", metavar="FILE", help="a file for COPY FROM, instead of a table")
    options = parser.parse_args()

    rng = np.random.default_rng(0)
    shape = (options.tokens, options.dim)
    arrays = [rng.standard_normal(shape, dtype="f4").astype(options.dtype) for _ in range(options.documents)]
    ids = range(len(arrays))
    if options.to:
        start = time.perf_counter(), time.process_time()
        with open(options.to, "wb") as file:
            file.writelines(blocks(ids, arrays, options.format))
        seconds = time.perf_counter() - start[0], time.process_time() - start[1]
    else:
        seconds = demo(options, ids, arrays)
    megabytes = len(arrays) * options.tokens * multivec.FORMATS[options.format].row_size(options.dim) / 1e6
    print(f"{len(arrays)} documents, {megabytes:.0f} MB in {seconds[0]:.2f} s: {megabytes / seconds[0]:.0f} MB/s; "
          f"the client's processor time is {seconds[1]:.3f} s")


if __name__ == "__main__":
    main()
