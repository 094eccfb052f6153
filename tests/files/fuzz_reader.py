"""Fuzz the reader against protobuf itself.

Random models are cut, spliced and altered; then the reader that leaves payloads in the file must accept
exactly what protobuf accepts, and what it read, written out again, must be what protobuf writes.

    python tests/files/fuzz_reader.py --inputs 1000000 --seed 7
"""

from __future__ import annotations

import argparse
import itertools
import random
import time
from collections.abc import Callable, Iterator

import onnx
from google.protobuf.message import DecodeError
from onnx import TensorProto

from onnx_inline.errors import TensorDataError
from onnx_inline.files import reduction, wire
from onnx_inline.files.layout import Fate, Memory, Range, lay_out
from onnx_inline.files.reduction import Reduction
from onnx_inline.files.sources import Identity, register
from onnx_inline.files.wire import WireError, encode_varint, fields, header

#: payloads from so many bytes on are left in the file, so that small models have some
LARGE = 6
#: so many bytes are read at first, so that fields lie across the windows
WINDOW = 20


def a_tensor(rng: random.Random) -> TensorProto:
    tensor = TensorProto(
        name=rng.choice(["w", "b", ""]), data_type=rng.randrange(0, 24), dims=[rng.randrange(4)]
    )
    kind = rng.randrange(9)
    if kind < 4:
        tensor.raw_data = rng.randbytes(rng.randrange(20))
    elif kind == 4:
        tensor.float_data.extend([1.0] * rng.randrange(5))
    elif kind == 5:
        tensor.int64_data.extend(rng.randrange(-3, 1 << 40) for _ in range(rng.randrange(6)))
    elif kind == 6:
        tensor.string_data.extend([b"text"] * rng.randrange(4))
    elif kind == 7:
        tensor.external_data.add(key="location", value="w.bin")
        tensor.data_location = TensorProto.EXTERNAL
    if rng.random() < 0.1:
        tensor.data_location = TensorProto.DEFAULT
    return tensor


def an_attribute(rng: random.Random, depth: int) -> onnx.AttributeProto:
    attribute = onnx.AttributeProto(name="a", type=rng.randrange(12))
    kind = rng.randrange(6)
    if kind == 0:
        attribute.t.CopyFrom(a_tensor(rng))
    elif kind == 1 and depth:
        attribute.g.CopyFrom(a_graph(rng, depth - 1))
    elif kind == 2:
        attribute.tensors.extend(a_tensor(rng) for _ in range(2))
    elif kind == 3:
        attribute.sparse_tensor.CopyFrom(onnx.SparseTensorProto(values=a_tensor(rng), indices=a_tensor(rng)))
    else:
        attribute.ints.extend([1, 300, -1])
    return attribute


def a_graph(rng: random.Random, depth: int = 2) -> onnx.GraphProto:
    graph = onnx.GraphProto(name="g")
    for _ in range(rng.randrange(3)):
        node = graph.node.add(op_type="Op", input=["x"], output=["y"])
        node.attribute.extend(an_attribute(rng, depth) for _ in range(rng.randrange(3)))
    graph.initializer.extend(a_tensor(rng) for _ in range(rng.randrange(3)))
    if rng.random() < 0.2:
        graph.sparse_initializer.add(values=a_tensor(rng), indices=a_tensor(rng))
    return graph


def a_model(rng: random.Random) -> bytes:
    model = onnx.ModelProto(ir_version=10, graph=a_graph(rng))
    model.opset_import.add(version=18)
    if rng.random() < 0.4:
        function = model.functions.add(name="f", domain="d")
        function.node.add(op_type="Constant").attribute.append(an_attribute(rng, 1))
    return bytes(model.SerializeToString())


def cut(rng: random.Random, data: bytes) -> bytes:
    return data[: rng.randrange(len(data) + 1)]


def altered(rng: random.Random, data: bytes) -> bytes:
    at = rng.randrange(len(data) or 1)
    return data[:at] + rng.randbytes(rng.randrange(1, 4)) + data[at + rng.randrange(4) :]


def with_unknown(rng: random.Random, data: bytes) -> bytes:
    """Insert a field that ONNX does not have; a group, perhaps one that is not closed."""
    inner = encode_varint(rng.randrange(1, 40) << 3 | rng.randrange(8)) + rng.randbytes(rng.randrange(4))
    number = rng.randrange(90, 99)
    close = encode_varint((number + (rng.random() < 0.1)) << 3 | 4)
    extra = encode_varint(number << 3 | 3) + inner + close * (rng.random() < 0.9)
    at = rng.choice(boundaries(data))
    return data[:at] + extra + data[at:]


def boundaries(data: bytes) -> list[int]:
    try:
        return [0, *(last for *_, last in fields(data))]
    except WireError:
        return [0]


def shuffled(rng: random.Random, data: bytes) -> bytes:
    """Put the top-level fields into another order, the graph twice perhaps, whose parts then merge."""
    ends = boundaries(data)
    parts = [data[a:b] for a, b in itertools.pairwise(ends)]
    parts += rng.choices(parts, k=rng.randrange(2)) if parts else []
    rng.shuffle(parts)
    return b"".join(parts)


def padded(rng: random.Random, data: bytes) -> bytes:
    """Write a length or tag with more digits than it needs, too many perhaps."""
    at = rng.randrange(len(data) or 1)
    if not data or data[at] > 0x7F:
        return data
    return data[:at] + bytes([data[at] | 0x80]) + b"\x80" * rng.randrange(10) + b"\0" + data[at + 1 :]


def nested(rng: random.Random, data: bytes) -> bytes:
    """Wrap a graph into attributes of nodes, often deeper than protobuf goes."""
    graph = onnx.GraphProto(name="deep").SerializeToString()
    for _ in range(rng.randrange(20, 40)):
        attribute = header(6, len(graph)) + graph
        node = header(5, len(attribute)) + attribute
        graph = header(1, len(node)) + node
    return data + header(7, len(graph)) + graph


CHANGES: tuple[Callable[[random.Random, bytes], bytes], ...] = (
    cut,
    altered,
    altered,
    altered,
    with_unknown,
    shuffled,
    padded,
    nested,
)


def inputs(count: int, seed: int) -> Iterator[bytes]:
    rng = random.Random(seed)
    while count > 0:
        model = a_model(rng)
        yield model
        for _ in range(min(count - 1, 30)):
            data = model
            for _ in range(rng.randrange(1, 3)):
                data = rng.choice(CHANGES)(rng, data)
            yield data
        count -= 31


def by_protobuf(data: bytes) -> bytes | None:
    """Return what protobuf writes after reading ``data``, or None if it refuses."""
    try:
        return bytes(onnx.ModelProto.FromString(data).SerializeToString())
    except DecodeError:
        return None


def by_us(data: bytes) -> bytes | None:
    """Return what the writer writes after the reader read ``data``, or None if they refuse."""
    source = register("memory", Identity(0, 0, len(data), hash(data)))
    try:
        reduced = Reduction(lambda start, end: data[start:end], source).model(len(data))
        model = onnx.ModelProto.FromString(reduced)
    except (WireError, DecodeError):
        return None
    layout = lay_out(model.SerializeToString(), None, lambda payload: Fate.INSIDE, "", None)
    return b"".join(bytes_of(piece, data) for piece in layout.pieces)


def bytes_of(piece: bytes | memoryview | Range | Memory, data: bytes) -> bytes:
    assert not isinstance(piece, Memory)
    return data[piece.offset : piece.offset + piece.length] if isinstance(piece, Range) else bytes(piece)


def difference(data: bytes) -> str:
    """Say how the reader differs from protobuf on an input; empty if it does not."""
    expected = by_protobuf(data)
    try:
        found = by_us(data)
    except TensorDataError as error:
        return "" if "two fields at once" in str(error) else f"{error} on {data!r}"
    return "" if found == expected else f"protobuf: {expected!r}\nreader: {found!r}\ninput: {data!r}"


def run(count: int, seed: int) -> int:
    """Compare on ``count`` inputs; return how many protobuf accepted.

    Raises:
        AssertionError: on the first difference.
    """
    accepted, former, smallest = 0, reduction.LARGE, wire._SMALLEST
    reduction.LARGE, wire._SMALLEST = LARGE, WINDOW
    try:
        for data in inputs(count, seed):
            reason = difference(data)
            assert not reason, reason
            accepted += by_protobuf(data) is not None
    finally:
        reduction.LARGE, wire._SMALLEST = former, smallest
    return accepted


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--inputs", type=int, default=200_000)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    start = time.perf_counter()
    accepted = run(arguments.inputs, arguments.seed)
    seconds = time.perf_counter() - start
    print(f"{arguments.inputs} inputs, {accepted} accepted by both, no difference, {seconds:.0f} s")


if __name__ == "__main__":
    main()
