"""Type multivec for numpy and psycopg 3.

    import multivec, psycopg
    conn = psycopg.connect()
    multivec.register(conn)
    conn.execute("INSERT INTO docs (id, embedding) VALUES (%s, %s)", (1, array))
    array = conn.execute("SELECT embedding FROM docs WHERE id = 1", binary=True).fetchone()[0]

An array of 2 dimensions, [tokens][dimension], goes in, and one comes out.  Arrays of
float16 go as format f16, of bfloat16 (package ml_dtypes) as bf16, of other numbers as
f32; Multivec(array, "bf16") says another format.  A column that is declared with a
format converts what it gets.  What is read has dtype float16 or float32; bf16, i8 and
b1, which numpy lacks, come as float32, and keep their values.  NaN and infinity are
errors of the server's, but for i8 and b1, which have no bits for them, ValueErrors here.

An array of int8 is numbers like others, and Multivec(array, "i8") finds scales for them
anew.  int8 components whose scales a model gave go through a list, since an array would be a
multivec: execute("... multivec_i8(%s::integer[], %s)", (array.tolist(), scales.tolist())).

The text form, that of queries without binary=True, does not say the format: it comes
as float32, with the same values, and is many times slower.

Copy this file to where you need it.  It needs numpy; psycopg only for register().
"""
import json
import struct
from typing import Callable, NamedTuple

import numpy as np

# version, format, zeros, dimension, tokens
HEADER = struct.Struct("!BBHII")
VERSION = 1


def pack_bf16(array):
    """To nearest, ties to even, as the server does."""
    if array.dtype.name == "bfloat16":
        return np.ascontiguousarray(array).view("<u2")
    array = np.ascontiguousarray(array, dtype="f4")
    bits = array.view("u4")
    rounded = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16
    return np.where(np.isnan(array), 0x7FC0, rounded).astype("<u2")


def unpack_bf16(rows, dim):
    return (rows.view("<u2").astype("u4") << 16).view("f4")


def finite_floats(array):
    """As float32, for formats that cannot say NaN and infinity: they are errors."""
    array = np.ascontiguousarray(array, dtype="f4")
    if not np.isfinite(array).all():
        n = int(np.isfinite(array).argmin())
        what = "NaN" if np.isnan(array.flat[n]) else "infinity"
        raise ValueError(f"{what} is not allowed in a multivec: it is number {n + 1} of the array")
    return array


def i8_scales(largest):
    """The least scales at which 127 is not below the largest component, in float32, as the server finds them."""
    scales = largest / np.float32(127)
    while (low := scales * np.float32(127) < largest).any():
        scales[low] = np.nextafter(scales[low], np.float32(np.inf))
    while (high := (scales > 0) & (np.nextafter(scales, np.float32(0)) * np.float32(127) >= largest)).any():
        scales[high] = np.nextafter(scales[high], np.float32(0))
    high = scales.astype("f8") * 127 > np.finfo("f4").max  # next to the largest float32
    scales[high] = np.nextafter(scales[high], np.float32(0))
    return scales


def pack_i8(array):
    """A float32 scale and dim integers a token: components by the scale, to nearest, ties to even."""
    array = finite_floats(array)
    scales = i8_scales(np.abs(array).max(axis=1, keepdims=True, initial=0))
    components = np.rint(np.divide(array, scales, out=np.zeros_like(array), where=scales > 0)).clip(-127, 127)
    return np.hstack([scales.astype("<f4").view("u1"), components.astype("i1").view("u1")])


def unpack_i8(rows, dim):
    return rows[:, :4].copy().view("<f4").astype("f4") * rows[:, 4:].view("i1").astype("f4")


def pack_b1(array):
    """A bit a component, set for those above 0, the first one highest."""
    return np.packbits(finite_floats(array) > 0, axis=1)


def unpack_b1(rows, dim):
    return np.unpackbits(rows, axis=1)[:, :dim].astype("f4") * 2 - 1


class Format(NamedTuple):
    code: int  # in the header
    row_size: Callable  # dimension -> bytes of a token
    pack: Callable  # array [tokens][dimension] -> contiguous array of rows
    unpack: Callable  # rows, as bytes [tokens][row_size], and dimension -> array [tokens][dimension]


def floats(code, dtype):
    """A format that numpy has."""
    size = np.dtype(dtype).itemsize
    return Format(
        code, lambda dim: size * dim, lambda array: np.ascontiguousarray(array, dtype), lambda rows, dim: rows.view(dtype))


# A format is a line here: its row may be anything that has row_size bytes a token.
FORMATS = {
    "f32": floats(0, "<f4"),
    "f16": floats(1, "<f2"),
    "bf16": Format(2, lambda dim: 2 * dim, pack_bf16, unpack_bf16),
    "i8": Format(3, lambda dim: 4 + dim, pack_i8, unpack_i8),
    "b1": Format(4, lambda dim: (dim + 7) // 8, pack_b1, unpack_b1),
}
FORMAT_BY_CODE = {format.code: format for format in FORMATS.values()}


class Multivec(NamedTuple):
    """An array and the format that it is to go in; None for that of its dtype."""

    array: np.ndarray
    format: str = None


def elements(value):
    """An array or Multivec as (format, dimension, tokens, contiguous array of its rows)."""
    array, name = value if isinstance(value, Multivec) else (value, None)
    array = np.asarray(array)
    if array.ndim != 2:
        hint = ": ids and weights go as lists, by .tolist()" if array.ndim == 1 else ""
        raise ValueError(f"a multivec is an array [tokens][dimension], not one of shape {array.shape}{hint}")
    if array.dtype.kind not in "fiu" and array.dtype.name != "bfloat16":
        raise ValueError(f"a multivec is an array of numbers, not of {array.dtype}")
    name = name or {"float16": "f16", "bfloat16": "bf16"}.get(array.dtype.name, "f32")
    if name not in FORMATS:
        raise ValueError(f"multivec format {name!r} does not exist: formats are {', '.join(FORMATS)}")
    format = FORMATS[name]
    with np.errstate(over="ignore"):  # becomes infinity, which the server refuses
        return format, array.shape[1], array.shape[0], format.pack(array)


def header(format, dim, ntokens):
    return HEADER.pack(VERSION, format.code, 0, dim, ntokens)


def to_binary(value):
    """An array or Multivec in PostgreSQL's binary form, that of COPY BINARY too."""
    format, dim, ntokens, rows = elements(value)
    return b"".join((header(format, dim, ntokens), rows))


def to_bytes(array, dim, format):
    """An array's elements alone: what the SQL function multivec(bytes, dim, format) takes."""
    _, found, _, rows = elements(Multivec(array, format))
    if found != dim:
        raise ValueError(f"an array of dimension {found} does not fit multivec({dim}, {format})")
    return rows.tobytes()


def from_binary(data):
    """The array of a value in PostgreSQL's binary form; a copy, which may be written to."""
    version, code, zeros, dim, ntokens = HEADER.unpack_from(data)
    if version != VERSION or code not in FORMAT_BY_CODE or zeros != 0:
        raise ValueError(f"binary multivec has an unknown header: version {version}, format {code}, reserved {zeros}")
    format = FORMAT_BY_CODE[code]
    rows = np.frombuffer(data, dtype="u1", offset=HEADER.size) if len(data) > HEADER.size else np.empty(0, dtype="u1")
    return format.unpack(rows.reshape(ntokens, format.row_size(dim)).copy(), dim)


def to_text(value):
    """An array or Multivec in PostgreSQL's text form, every number exact."""
    format, dim, ntokens, rows = elements(value)
    array = format.unpack(rows.view("u1").reshape(ntokens, format.row_size(dim)), dim)
    return json.dumps(array.tolist()).encode()


def from_text(text):
    """The array of a value in PostgreSQL's text form, as float32."""
    array = np.array(json.loads(text, parse_int=float), dtype="f4")  # an integer would lose the sign of -0
    return array if array.ndim == 2 else array.reshape(0, 0)


def register(connection, name="multivec"):
    """Arrays of numpy as parameters and results of a psycopg 3 connection.

    After pgvector's register_vector() where both are used: arrays of 2 dimensions are
    then multivecs, and all others stay with pgvector.  name is the type's, with its
    schema where that is not in the search_path.
    """
    from psycopg.types import TypeInfo

    register_info(connection, TypeInfo.fetch(connection, name), name)


async def register_async(connection, name="multivec"):
    """register() for an AsyncConnection."""
    from psycopg.types import TypeInfo

    register_info(connection, await TypeInfo.fetch(connection, name), name)


def register_info(connection, info, name):
    import psycopg
    from psycopg.adapt import Dumper, Loader, PyFormat
    from psycopg.pq import Format as PqFormat

    if info is None:
        raise psycopg.ProgrammingError(f"type {name} does not exist: CREATE EXTENSION flash_maxsim, or name its schema")
    adapters = connection.adapters
    others = {}  # who dumps arrays of other shapes
    for format in PyFormat:
        try:
            others[format] = adapters.get_dumper(np.ndarray, format)
        except psycopg.ProgrammingError:
            pass

    class TextDumper(Dumper):
        oid = info.oid

        def get_key(self, obj, format):
            ours = isinstance(obj, Multivec) or obj.ndim == 2 or format not in others
            return self.cls if ours else (self.cls, "other")

        def upgrade(self, obj, format):
            return others[format](self.cls, self.connection)

        def dump(self, obj):
            return to_text(obj)

    class BinaryDumper(TextDumper):
        format = PqFormat.BINARY

        def dump(self, obj):
            return to_binary(obj)

    class TextLoader(Loader):
        def load(self, data):
            return from_text(bytes(data))

    class BinaryLoader(Loader):
        format = PqFormat.BINARY

        def load(self, data):
            return from_binary(data)

    info.register(connection)
    for cls in (np.ndarray, Multivec):
        adapters.register_dumper(cls, TextDumper)
        adapters.register_dumper(cls, BinaryDumper)  # the last one is preferred
    adapters.register_loader(info.oid, TextLoader)
    adapters.register_loader(info.oid, BinaryLoader)
