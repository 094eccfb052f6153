"""Recurrent layers unrolled: one copy of the cell a step, for sequences of known length."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from onnx_inline.decompositions.call import Call, ints, like

#: Longer sequences are left: unrolled, they would make models that nobody wants.
LONGEST = 512

#: Makes the steps of a cell for one direction and one moment; see the cells below.
Cell = Callable[[Call, str, str, str], str]


def _layer(
    cell: Cell, gates: int, states: Sequence[str], activations: Sequence[str]
) -> Callable[[Call], str | None]:
    def body(call: Call) -> str | None:
        length = _length(call)
        if length is None or not _is_plain(call, activations):
            return None
        directions = {"forward": [False], "reverse": [True], "bidirectional": [False, True]}
        reverse = directions[call.attribute("direction", "forward")]
        names = [
            f"in{place}" if call.given(place) else f"none{place}" for place in range(len(call.node.input))
        ]
        steps = [
            _direction(call, cell, gates, states, number, length, back) for number, back in enumerate(reverse)
        ]
        count = range(len(reverse))
        joined = [f"out0 = Concat <axis = 1> ({', '.join(f'd{n}_all' for n in count)})"]
        for place, state in enumerate(states, 1):
            last = [f"d{n}_{state}{length}" for n in count]
            joined += [f"{name}_one = Unsqueeze ({name}, axis0)" for name in last]
            joined.append(f"out{place} = Concat <axis = 0> ({', '.join(f'{name}_one' for name in last)})")
        outputs = ", ".join(f"out{place}" for place in range(len(states) + 1))
        constants = f"{ints('axis0', [0])}  {ints('axes01', [0, 1])}"
        return f"({', '.join(names)}) => ({outputs}) {{ {constants} {' '.join([*steps, *joined])} }}"

    return body


def _length(call: Call) -> int | None:
    known = call.types[0]
    if known is None or not call.is_float() or not known.tensor_type.HasField("shape"):
        return None
    length: int = known.tensor_type.shape.dim[0].dim_value
    return length if 0 < length <= LONGEST else None


def _is_plain(call: Call, activations: Sequence[str]) -> bool:
    """Say whether nothing out of the ordinary is asked for."""
    odd = any(call.attribute(name) for name in ("clip", "layout", "input_forget", "activation_alpha"))
    given = [text.decode().lower() for text in call.attribute("activations", [])]
    wanted = list(activations) * (2 if call.attribute("direction", "forward") == "bidirectional" else 1)
    size = call.attribute("hidden_size")
    # Lengths of single sequences, and the peepholes of LSTM.
    return not (odd or call.given(4) or call.given(7) or not size or given not in ([], wanted))


def _direction(
    call: Call, cell: Cell, gates: int, states: Sequence[str], number: int, length: int, back: bool
) -> str:
    """Return the steps of one direction; they make ``d<number>_all`` and the last states."""
    p, size = f"d{number}_", call.attribute("hidden_size")
    steps = [
        f"{p}n = Constant <value = int64 {{{number}}}> ()",
        f"{p}w = Gather <axis = 0> (in1, {p}n)  {p}wt = Transpose <perm = [1, 0]> ({p}w)",
        f"{p}r = Gather <axis = 0> (in2, {p}n)  {p}rt = Transpose <perm = [1, 0]> ({p}r)",
        f"{p}xw = MatMul (in0, {p}wt)",
        _bias(call, p, gates * size),
        f"{p}xs = Add ({p}xw, {p}wb)",
        *(_initial(call, p, place, state, size) for place, state in enumerate(states, 5)),
    ]
    moments = range(length - 1, -1, -1) if back else range(length)
    for step, moment in enumerate(moments):
        steps.append(f"{p}t{step} = Constant <value = int64 {{{moment}}}> ()")
        steps.append(f"{p}x{step} = Gather <axis = 0> ({p}xs, {p}t{step})")
        steps.append(cell(call, p, str(step), str(step + 1)))
        steps.append(f"{p}y{moment} = Unsqueeze ({p}h{step + 1}, axes01)")
    every = ", ".join(f"{p}y{moment}" for moment in range(length))
    return " ".join([*steps, f"{p}all = Concat <axis = 0> ({every})"])


def _bias(call: Call, p: str, width: int) -> str:
    """Return steps that make the bias of the inputs and that of the states."""
    if not call.given(3):
        return f"{like(f'{p}wb', 0.0, 'in0')}  {p}rb = Identity ({p}wb)"
    half = ints(f"{p}halves", [width, width])
    return f"{p}b = Gather <axis = 0> (in3, {p}n)  {half}  {p}wb, {p}rb = Split <axis = 0> ({p}b, {p}halves)"


def _initial(call: Call, p: str, place: int, state: str, size: int) -> str:
    if call.given(place):
        return f"{p}{state}0 = Gather <axis = 0> (in{place}, {p}n)"
    s = f"{p}{state}_"
    return f"""
        {s}shape = Shape (in0)  {ints(f"{s}from", [1])}  {ints(f"{s}to", [2])}  {ints(f"{s}size", [size])}
        {s}batch = Slice ({s}shape, {s}from, {s}to)  {s}dims = Concat <axis = 0> ({s}batch, {s}size)
        {s}zeros = ConstantOfShape <value = float[1] {{0}}> ({s}dims)  {p}{state}0 = CastLike ({s}zeros, in0)
    """


# ------------------------------------------------------------------------------------- cells


def _split(call: Call, name: str, parts: Sequence[str]) -> str:
    size = call.attribute("hidden_size")
    sizes = ints(f"{name}_sizes", [size] * len(parts))
    return f"{sizes}  {', '.join(parts)} = Split <axis = 1> ({name}, {name}_sizes)"


def _rnn(call: Call, p: str, step: str, after: str) -> str:
    return f"""
        {p}hr{step} = MatMul ({p}h{step}, {p}rt)  {p}hb{step} = Add ({p}hr{step}, {p}rb)
        {p}s{step} = Add ({p}x{step}, {p}hb{step})  {p}h{after} = Tanh ({p}s{step})
    """


def _lstm(call: Call, p: str, step: str, after: str) -> str:
    i, o, f, c = (f"{p}{gate}g{step}" for gate in "iofc")
    return f"""
        {p}hr{step} = MatMul ({p}h{step}, {p}rt)  {p}hb{step} = Add ({p}hr{step}, {p}rb)
        {p}s{step} = Add ({p}x{step}, {p}hb{step})  {_split(call, f"{p}s{step}", [i, o, f, c])}
        {i}_on = Sigmoid ({i})  {o}_on = Sigmoid ({o})  {f}_on = Sigmoid ({f})  {c}_new = Tanh ({c})
        {p}old{step} = Mul ({f}_on, {p}c{step})  {p}new{step} = Mul ({i}_on, {c}_new)
        {p}c{after} = Add ({p}old{step}, {p}new{step})
        {p}seen{step} = Tanh ({p}c{after})  {p}h{after} = Mul ({o}_on, {p}seen{step})
    """


def _gru(call: Call, p: str, step: str, after: str) -> str:
    size = call.attribute("hidden_size")
    xz, xr, xh = (f"{p}x{gate}{step}" for gate in "zrh")
    sizes = ints(f"{p}k{step}", [size, size, size])
    weights = f"{sizes}  {p}rz{step}, {p}rr{step}, {p}rh{step} = Split <axis = 1> ({p}rt, {p}k{step})"
    gates = f"""
        {_split(call, f"{p}x{step}", [xz, xr, xh])}  {weights}  {_gru_bias(call, p, step)}
        {p}hz{step} = MatMul ({p}h{step}, {p}rz{step})  {p}az{step} = Add ({p}hz{step}, {p}bz{step})
        {p}hq{step} = MatMul ({p}h{step}, {p}rr{step})  {p}aq{step} = Add ({p}hq{step}, {p}bq{step})
        {p}sz{step} = Add ({xz}, {p}az{step})  {p}z{step} = Sigmoid ({p}sz{step})
        {p}sq{step} = Add ({xr}, {p}aq{step})  {p}q{step} = Sigmoid ({p}sq{step})
    """
    if call.attribute("linear_before_reset", 0):
        hidden = f"""
            {p}hh{step} = MatMul ({p}h{step}, {p}rh{step})  {p}ah{step} = Add ({p}hh{step}, {p}bh{step})
            {p}gh{step} = Mul ({p}q{step}, {p}ah{step})
        """
    else:
        hidden = f"""
            {p}hh{step} = Mul ({p}q{step}, {p}h{step})  {p}ah{step} = MatMul ({p}hh{step}, {p}rh{step})
            {p}gh{step} = Add ({p}ah{step}, {p}bh{step})
        """
    return f"""
        {gates} {hidden}
        {p}sh{step} = Add ({xh}, {p}gh{step})  {p}new{step} = Tanh ({p}sh{step})
        {p}difference{step} = Sub ({p}h{step}, {p}new{step})
        {p}kept{step} = Mul ({p}z{step}, {p}difference{step})  {p}h{after} = Add ({p}new{step}, {p}kept{step})
    """


def _gru_bias(call: Call, p: str, step: str) -> str:
    parts = f"{p}bz{step}, {p}bq{step}, {p}bh{step}"
    if not call.given(3):
        return " ".join(f"{name} = Identity ({p}rb)" for name in parts.split(", "))
    return f"{parts} = Split <axis = 0> ({p}rb, {p}k{step})"


BODIES = {
    "RNN": _layer(_rnn, 1, ["h"], ["tanh"]),
    "GRU": _layer(_gru, 3, ["h"], ["sigmoid", "tanh"]),
    "LSTM": _layer(_lstm, 4, ["h", "c"], ["sigmoid", "tanh", "tanh"]),
}
