"""How SCIP is run: settings that suit convex programs with a few hundred binaries, and failures."""

from __future__ import annotations

from typing import Any

LEAST_TIME = 0.05
"""Seconds; SCIP takes a limit of none at all for an error."""

MOST_TIME = 1e20
"""Seconds; SCIP's own infinity, beyond which it takes a limit for an error."""

_WALL_CLOCK = 2

_SETTINGS = {
    "timing/clocktype": _WALL_CLOCK,
    "misc/usesymmetry": 0,
    "propagating/obbt/freq": -1,
    **{
        f"separating/{name}/freq": -1
        for name in ("aggregation", "clique", "gomory", "knapsackcover", "zerohalf")
    },
}
"""The clock, as time limits are ours: by itself SCIP counts the time of all threads of the process.
And what costs more than it gains here. Without the cuts for linear integer programs, which are lost
between curves and tables, the exact solver takes half the time."""

_CONVEX = {
    "lp/checkprimfeas": False,
    "branching/fullstrong/priority": 1_000_000,
    "branching/fullstrong/maxbounddist": 1.0,
    "constraints/nonlinear/propfreq": -1,
}
"""Where only binaries are not convex. Trying out every branch pays: proofs of single choices that
took up to 24,000 nodes take fewer than 100, and the longest 1 s rather than 36. Rules that try out
a few and learn from them lose their way in some proofs; to branch on where weights are packed or on
classes first gains nothing any more. Bounds of curves come from the relaxation, not from
propagation. A linear program whose solution misses a constraint by a little is taken as it is: its
bound rests on dual values, which are checked. SCIP would do without it, and without a bound, in all
nodes."""

TRUSTED = frozenset(
    ("optimal", "infeasible", "gaplimit", "nodelimit", "timelimit", "sollimit", "bestsollimit")
)
"""Statuses with which SCIP's dual bound means something."""


def run(model: Any, *, gap: float, time_limit: float, nodes: int = -1, convex: bool) -> bool:
    """Solve `model` up to the relative `gap`, `time_limit` seconds or `nodes` nodes (if not
    negative). SCIP's own heuristics find solutions of one that is not `convex`; the others have
    their solutions from elsewhere. False if SCIP fails; raises KeyboardInterrupt if it was
    interrupted."""
    from pyscipopt import SCIP_PARAMEMPHASIS, SCIP_PARAMSETTING

    try:
        model.setEmphasis(SCIP_PARAMEMPHASIS.EASYCIP)  # before all limits: it resets them
        if convex:
            model.setHeuristics(SCIP_PARAMSETTING.OFF)
        model.hideOutput()
        model.setParams(_SETTINGS | (_CONVEX if convex else {}))
        model.setParam("limits/gap", gap)
        model.setParam("limits/nodes", nodes)
        model.setParam("limits/time", min(max(time_limit, LEAST_TIME), MOST_TIME))
    except MemoryError:  # as in `resume`
        raise
    except Exception:
        return False
    return resume(model)


def resume(model: Any) -> bool:
    """Solve `model` with the limits that it has. Returns and raises as `run`."""
    try:
        model.optimize()
    except MemoryError:  # another time there may be enough: no reason to keep a worse bound
        raise
    except Exception:  # pyscipopt raises this very class for SCIP's own errors
        return False
    status = model.getStatus()
    if status == "userinterrupt":
        raise KeyboardInterrupt  # SCIP has taken the signal
    return status in TRUSTED
