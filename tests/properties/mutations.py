"""Random damage to a model: fields removed, doubled, moved, exchanged, and given other values."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator
from typing import Any

import onnx
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

STRINGS = ("a", "b", "f", "f/a", "", "Neg", "l", "Add")
NUMBERS = (0, 1, -1, 5, 7, 13, 18, 21, 10**6)


def damaged(model: onnx.ModelProto, seed: int) -> onnx.ModelProto:
    """Return a copy with one to four fields changed."""
    chance = random.Random(seed)
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    for _ in range(chance.randint(1, 4)):
        everywhere = list(messages(copy))
        message = chance.choice(everywhere)
        with contextlib.suppress(ValueError, TypeError):  # a value that protobuf does not take
            change(message, chance.choice(message.DESCRIPTOR.fields), everywhere, chance)
    return copy


def messages(message: Message) -> Iterator[Any]:
    """Yield a message and those in it."""
    yield message
    for field, value in message.ListFields():
        if field.message_type is not None:
            for inner in value if field.is_repeated else [value]:
                yield from messages(inner)


def change(message: Any, field: FieldDescriptor, everywhere: list[Any], chance: random.Random) -> None:
    if field.is_repeated:
        change_several(message, field, everywhere, chance)
    elif chance.random() < 0.3:
        message.ClearField(field.name)
    elif field.message_type is not None:
        exchange(getattr(message, field.name), everywhere, chance)
    else:
        setattr(message, field.name, other_value(field, chance))


def change_several(
    message: Any, field: FieldDescriptor, everywhere: list[Any], chance: random.Random
) -> None:
    values = getattr(message, field.name)
    action = chance.choice(["remove", "double", "shuffle", "exchange", "add"])
    if action == "remove" and len(values):
        del values[chance.randrange(len(values))]
    elif action == "double" and len(values):
        values.append(values[chance.randrange(len(values))])
    elif action == "shuffle":
        values.sort(key=lambda _: chance.random())
    elif field.message_type is not None:
        exchange(values.add() if action == "add" or not values else chance.choice(values), everywhere, chance)
    elif action == "exchange" and len(values):
        values[chance.randrange(len(values))] = other_value(field, chance)
    else:
        values.append(other_value(field, chance))


def exchange(message: Any, everywhere: list[Any], chance: random.Random) -> None:
    """Make a message a copy of another one of its kind."""
    others = [other for other in everywhere if type(other) is type(message)]
    if others:
        message.CopyFrom(type(message).FromString(chance.choice(others).SerializeToString()))


def other_value(field: FieldDescriptor, chance: random.Random) -> Any:
    if field.enum_type is not None:
        return chance.choice([*field.enum_type.values_by_number, 99])
    if field.type == FieldDescriptor.TYPE_BYTES:
        return chance.randbytes(chance.randint(0, 8))
    return chance.choice(STRINGS if field.type == FieldDescriptor.TYPE_STRING else NUMBERS)
