"""What a module says of the machine that it is for, in attributes of MLIR's DLTI dialect.

    module attributes {dlti.target_system_spec = #dlti.target_system_spec<
        "CPU" = #dlti.target_device_spec<"L1_cache_size_in_bytes" = 32768 : i32>>}

The dialect fixes no names of figures. Those read here are the ones that MLIR's documentation and
the compilers built on it use. The bindings have no classes for these attributes, so that their text
is read, which MLIR prints in one form whatever was written.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from mopt_mlir.bindings import bindings_of
from mopt_mlir.machine.machine import Machine
from mopt_mlir.machine.vector_unit import with_bits

DEVICE = "CPU"
"""The device, as the dialect's documentation calls it, whose figures are meant for us."""

NAMES: Mapping[str, tuple[tuple[str, ...], ...]] = {
    "L1.size": (("L1_cache_size_in_bytes",), ("cache", "L1d", "size_in_bytes"),
                ("cache", "L1", "size_in_bytes")),
    "L2.size": (("L2_cache_size_in_bytes",), ("cache", "L2", "size_in_bytes")),
    "L3.size": (("L3_cache_size_in_bytes",), ("cache", "L3", "size_in_bytes")),
    "vector_bits": (("max_vector_op_width",), ("max_vector_width",)),
    "cores": (("num_cores",), ("num_threads",)),
}  # fmt: skip
"""Field of a machine -> the keys that lead to it, in the order in which they are tried."""

_CONTAINERS = ("#dlti.target_system_spec<", "#dlti.map<", "#dlti.dl_spec<")

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|->|[<>=]=|.', re.DOTALL)
_NUMBER = re.compile(r'"?\s*(\d+)\s*"?(?:\s*:\s*\w+)?')


def described(module: Any) -> dict[str, int]:
    """Fields of a `Machine` as the attributes of `module`, of any MLIR bindings, give them.

    Sizes are bytes, vectors bits. Raises ValueError, naming the key, for one that is no number.
    """
    figures: dict[str, int] = {}
    for text in _texts(module):
        device = _entries(text).get(DEVICE)
        if device is not None:
            for field, paths in NAMES.items():
                values = (_value(device, path) for path in paths)
                value = next((value for value in values if value is not None), None)
                if value is not None:
                    figures.setdefault(field, value)
    return figures


def refined(machine: Machine, figures: Mapping[str, int]) -> Machine:
    """`machine` with the `figures` of `described`. The name records those that were others.

    A cache's size becomes a multiple of its ways, as no tile depends on the last bytes. Raises
    ValueError, naming the field, where a figure is impossible.
    """
    fields = {}
    for field, figure in figures.items():
        name, dot, _ = field.partition(".")
        present: Any = machine.cache(name).size if dot else getattr(machine, field)
        way = machine.cache(name).line * machine.cache(name).ways if dot else 1
        if figure > way:
            figure -= figure % way
        if figure != present:
            fields[field] = str(figure)
    if "vector_bits" in fields:
        registers = with_bits(figures["vector_bits"]).registers
        if registers != machine.vector_registers:
            fields["vector_registers"] = str(registers)
    return machine.override(fields) if fields else machine


def _texts(module: Any) -> list[str]:
    """The texts of the module's DLTI attributes, in the order of _CONTAINERS."""
    attributes = module.attributes
    plain = bindings_of(module).ir.Attribute
    found = (attributes[index].attr for index in range(len(attributes)))
    # attributes of other kinds, such as weights, have a class of their own, and may be long
    texts = [str(attribute) for attribute in found if type(attribute) is plain]
    return [text for container in _CONTAINERS for text in texts if text.startswith(container)]


def _value(text: str, path: tuple[str, ...]) -> int | None:
    """The number at `path` in nested attributes."""
    for key in path:
        inner = _entries(text).get(key)
        if inner is None:
            return None
        text = inner
    match = _NUMBER.fullmatch(text)
    if match is None:
        raise ValueError(f'"{path[-1]}" = {text}: not a whole number')
    return int(match[1])


def _entries(text: str) -> dict[str, str]:
    """Keys and values of `#dlti.map<"key" = value, ...>`, without the quotes of the keys; empty for
    an attribute of another form."""
    entries: dict[str, str] = {}
    if not text.startswith("#dlti."):
        return entries
    depth = 0
    parts = [""]
    for token in _TOKEN.findall(text):
        depth -= token in ("]", ")", "}", ">")
        if depth == 1 and token in (",", "="):
            parts.append("")
        elif depth:
            parts[-1] += token
        depth += token in ("[", "(", "{", "<")
    for key, value in zip(parts[::2], parts[1::2], strict=False):
        entries[key.strip().removeprefix('"').removesuffix('"')] = value.strip()
    return entries
