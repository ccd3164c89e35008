"""The normal form of a problem: the same points and memory with as few dims as possible."""

from __future__ import annotations

from dataclasses import replace

from mopt_mlir.problem import MOST_POINTS, Dim, LinearForm, Problem, Role, Tensor

Groups = dict[str, tuple[tuple[int, ...], ...]]
"""Per tensor name, the axes of the operand that make up each axis of the problem's tensor."""


def normalise(problem: Problem) -> tuple[Problem, Groups]:
    """The same problem without dims of extent 1, and with image dims fused where that is exact.

    A last axis of a single element is part of the one before it, along which vectors may run then.
    Neighbouring output dims whose points lie one after the other in input and output and which the
    weights do not use (the pixels of a 1x1 convolution of stride 1) become one dim. Returns the new
    problem and, per tensor name, which old axes make up each new axis. A problem always keeps `k`,
    because vectors may run over it.
    """
    kept = tuple(dim for dim in problem.dims if dim.extent > 1 or dim.role is Role.OUT_CHANNEL)
    if not any(dim.role is Role.OUT_CHANNEL for dim in kept):
        kept = (Dim("k", 1, Role.OUT_CHANNEL), *kept)
    names = {dim.name for dim in kept}

    def restrict(tensor: Tensor) -> Tensor:
        axes = tuple(
            LinearForm(tuple(term for term in axis.terms if term[0] in names))
            for axis in tensor.axes
        )
        return replace(tensor, axes=axes)

    found = [_without_single(restrict(tensor)) for tensor in problem.tensors]
    input_, weights, output = (tensor for tensor, _ in found)
    problem = replace(problem, dims=kept, input=input_, weights=weights, output=output)
    groups: Groups = {tensor.name: merged for tensor, merged in found}
    while (fused := _fuse_once(problem, groups)) is not None:
        problem, groups = fused
    return problem, groups


def normalised(problem: Problem) -> Problem:
    """`problem` as plans are made for it, and `mopt-tile` takes it: without dims of extent 1, and
    with image dims fused where that is exact (see `normalise`). Raises TypeError for what is no
    Problem."""
    if not isinstance(problem, Problem):
        raise TypeError(f"a problem is a Problem, as of conv2d, not {type(problem).__name__}")
    return normalise(problem)[0]


def _without_single(tensor: Tensor) -> tuple[Tensor, tuple[tuple[int, ...], ...]]:
    """`tensor` with last axes of a single element made a part of the one before them, and which of
    its axes make up each one that is left."""
    groups: tuple[tuple[int, ...], ...] = tuple((i,) for i in range(len(tensor.axes)))
    while (last := len(tensor.axes) - 1) > 0:
        if tensor.axes[last].terms or tensor.strides[last] is None:
            break
        tensor, groups = _drop_axis(tensor, last), _merge(groups, last - 1)
    return tensor, groups


def _fuse_once(problem: Problem, groups: Groups) -> tuple[Problem, Groups] | None:
    for outer in problem.parallel_dims:
        for inner in problem.parallel_dims:
            positions = [
                _adjacent(tensor, outer, inner, problem.extent(inner))
                for tensor in (problem.input, problem.output)
            ]
            extent = problem.extent(outer) * problem.extent(inner)
            if outer == inner or None in positions or {outer, inner} & problem.weights.dims:
                continue
            if extent > MOST_POINTS:
                continue
            at_input, at_output = positions
            assert at_input is not None
            assert at_output is not None
            dims = tuple(
                replace(dim, extent=extent) if dim.name == inner else dim
                for dim in problem.dims
                if dim.name != outer
            )
            new = dict(groups)
            new["input"] = _merge(groups["input"], at_input)
            new["output"] = _merge(groups["output"], at_output)
            return (
                replace(
                    problem,
                    dims=dims,
                    input=_drop_axis(problem.input, at_input),
                    output=_drop_axis(problem.output, at_output),
                ),
                new,
            )
    return None


def _adjacent(tensor: Tensor, outer: str, inner: str, extent: int) -> int | None:
    """Position of `outer`'s axis if `inner`'s comes next and continues it in memory."""
    for i, (first, second) in enumerate(zip(tensor.axes, tensor.axes[1:], strict=False)):
        if first.terms == ((outer, 1),) and second.terms == ((inner, 1),):
            step, unit = tensor.strides[i], tensor.strides[i + 1]
            return i if step is not None and unit is not None and step == extent * unit else None
    return None


def _merge(groups: tuple[tuple[int, ...], ...], i: int) -> tuple[tuple[int, ...], ...]:
    return (*groups[:i], groups[i] + groups[i + 1], *groups[i + 2 :])


def _drop_axis(tensor: Tensor, i: int) -> Tensor:
    axes = tensor.axes[:i] + tensor.axes[i + 1 :]
    return replace(tensor, axes=axes, strides=tensor.strides[:i] + tensor.strides[i + 1 :])
