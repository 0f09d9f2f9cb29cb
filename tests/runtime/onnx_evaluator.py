"""Reads an ONNX file by the wire format of protobuf and evaluates its graph with numpy.

Written from ONNX's documents alone, for the operators that an exported GPT uses. Every value is
computed in float64, so that what differs from another evaluation is the graph's doing.
"""
import pathlib
import struct

import numpy as np


def varint(data, at):
    value, shift = 0, 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at


def fields(data):
    """Number -> list of values: ints, or memoryviews of what has a length."""
    found, at = {}, 0
    while at < len(data):
        key, at = varint(data, at)
        kind = key & 7
        if kind == 0:
            value, at = varint(data, at)
            value -= (value >> 63) << 64
        elif kind == 5:
            value, at = struct.unpack("<f", data[at : at + 4])[0], at + 4
        elif kind == 2:
            length, at = varint(data, at)
            value, at = data[at : at + length], at + length
        else:
            raise ValueError(f"wire type {kind}")
        found.setdefault(key >> 3, []).append(value)
    assert at == len(data), "a field goes beyond its message"
    return found


def text(value):
    return bytes(value).decode()


def tensor_of(message, folder):
    f = fields(message)
    dtype = {1: "<f4", 7: "<i8"}[f[2][0]]
    if f.get(14, [0])[0] == 1:
        entries = {text(e[1][0]): text(e[2][0]) for e in map(fields, f[13])}
        offset, length = int(entries["offset"]), int(entries["length"])
        with open(folder / entries["location"], "rb") as file:
            file.seek(offset)
            raw = file.read(length)
    else:
        raw = bytes(f[9][0])
    values = np.frombuffer(raw, dtype=dtype).reshape(f.get(1, []))
    return text(f[8][0]), values.astype(np.float64) if dtype == "<f4" else values


def attributes_of(node):
    result = {}
    for message in node.get(5, []):
        f = fields(message)
        value = {1: f.get(2), 2: f.get(3), 7: f.get(8)}[f[20][0]]
        result[text(f[1][0])] = value if f[20][0] == 7 else value[0]
    return result


def layer_normalization(x, weight, bias, axis, epsilon):
    assert axis == -1
    mean = x.mean(axis=-1, keepdims=True)
    variance = ((x - mean) ** 2).mean(axis=-1, keepdims=True)
    return (x - mean) / np.sqrt(variance + epsilon) * weight + bias


def softmax(x, axis):
    e = np.exp(x - x.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


def reshape(x, shape):
    return x.reshape([x.shape[i] if extent == 0 else extent for i, extent in enumerate(shape)])


OPERATORS = {
    "Add": lambda a, i, outputs: i[0] + i[1],
    "Mul": lambda a, i, outputs: i[0] * i[1],
    "MatMul": lambda a, i, outputs: i[0] @ i[1],
    "Tanh": lambda a, i, outputs: np.tanh(i[0]),
    "Softmax": lambda a, i, outputs: softmax(i[0], **a),
    "LayerNormalization": lambda a, i, outputs: layer_normalization(*i, **a),
    "Gather": lambda a, i, outputs: np.take(i[0], i[1], axis=a["axis"]),
    "Transpose": lambda a, i, outputs: i[0].transpose(a["perm"]),
    "Reshape": lambda a, i, outputs: reshape(*i),
    "Split": lambda a, i, outputs: np.split(i[0], outputs, axis=a["axis"]),
    "Shape": lambda a, i, outputs: np.array(i[0].shape[a["start"] : a["end"]], dtype=np.int64),
    "Squeeze": lambda a, i, outputs: i[0].squeeze(),
    "Unsqueeze": lambda a, i, outputs: np.expand_dims(i[0], tuple(i[1])),
    "Range": lambda a, i, outputs: np.arange(int(i[0]), int(i[1]), int(i[2])),
    "LessOrEqual": lambda a, i, outputs: i[0] <= i[1],
    "Where": lambda a, i, outputs: np.where(*i),
    "Identity": lambda a, i, outputs: i[0],
}


def evaluate(path, tokens):
    """The logits of tokens [batch, sequence]."""
    path = pathlib.Path(path)
    model = fields(memoryview(path.read_bytes()))
    assert [fields(o)[2][0] for o in model[8]] == [17], "opset 17 is what is evaluated here"
    graph = fields(model[7][0])
    values = dict(tensor_of(message, path.parent) for message in graph.get(5, []))
    values[text(fields(graph[11][0])[1][0])] = np.asarray(tokens, dtype=np.int64)
    for message in graph[1]:
        node = fields(message)
        inputs = [values[text(name)] for name in node[1]]
        names = [text(name) for name in node[2]]
        result = OPERATORS[text(node[4][0])](attributes_of(node), inputs, len(names))
        values.update(zip(names, result) if len(names) > 1 else [(names[0], result)])
    return values[text(fields(graph[12][0])[1][0])]
