"""What the report makes of measurements and volumes that are made up."""

import ast
import re
from dataclasses import asdict, replace
from itertools import chain, pairwise
from math import isnan
from pathlib import Path

import pytest

import mopt_mlir
from benchmarks.comparison import Comparison
from benchmarks.operators import problem_of
from benchmarks.results import Record, Results
from benchmarks.validation import (
    abstract,
    constants,
    criteria,
    document,
    faults,
    misses,
    orders,
    pages,
    peers,
    repeats,
    tables,
    trials,
    volume_tables,
)
from benchmarks.validation.command_line import main
from benchmarks.validation.expected import Expected
from benchmarks.validation.measure import PROTOCOL
from benchmarks.validation.records import (
    FORMAT,
    MEASUREMENTS,
    VOLUMES,
    Choice,
    Failed,
    Latency,
    Measurement,
    Simulated,
    Start,
    Subject,
    appending,
)
from benchmarks.validation.sample import sample_plans
from benchmarks.workloads import Workload
from mopt_mlir import UserError
from mopt_mlir.estimate import estimate
from mopt_mlir.estimate.residency import resident_volumes
from mopt_mlir.machine import by_name
from mopt_mlir.model.cost import MEMORY, breakdown, predict

WORKLOAD = Workload("R0", k=32, h=14, w=14, c=32, r=3, s=3)
SIZES = {"n": 1, "k": 32, "h": 14, "w": 14, "c": 32, "r": 3, "s": 3,
         "strides": [1, 1], "dilations": [1, 1]}  # fmt: skip
MACHINE = by_name("haswell")
PROBLEM = problem_of(WORKLOAD)
HEAD = {
    "format": FORMAT,
    "must_agree": {"seed": 0, "cold": True, "generator": "g"},
    "operators": "table1",
    "commit": "abc",
    "date": "2026-01-01T00:00:00+00:00",
    "rounds": 3,
    "final_rounds": 5,
    "versions": {"numpy": "2"},
    "machine": {
        "cpu": "CPU", "system": "OS", "libc": "C", "python": "3", "planned_for": asdict(MACHINE),
    },
}  # fmt: skip

PLANS = sorted(
    sample_plans(PROBLEM, MACHINE, 6, 0), key=lambda plan: estimate(PROBLEM, MACHINE, plan).cost
)
OWN, *SAMPLED = PLANS
REFERENCE = 1e-3


def measurement(role, plan, ratio, final=True, wobble=0.0):
    rounds = (ratio, ratio * (1 + wobble), ratio * (1 - wobble))
    return Measurement(
        Subject("R0", role, plan),
        final,
        seconds=tuple((one * REFERENCE,) for one in rounds),
        reference=((REFERENCE,),) * 3,
        compile_seconds=0.1,
        error=0.01,
        counters={},
    )


def trial_of(tmp_path, ratios, volumes=()):
    """The own plan takes as long as the reference, the sampled ones `ratios` of it."""
    records = [
        Start("R0", SIZES, OWN, 100.0),
        Choice("R0", (Subject("R0", "own", OWN).key,)),
        measurement("own", OWN, 1.0),
        measurement("again", OWN, 1.01),
        *(measurement("sample", p, r) for p, r in zip(SAMPLED, ratios, strict=True)),
        Failed(Subject("R0", "sample", OWN), "it crashed"),
    ]
    paths = []
    for kind, name, found in (
        (MEASUREMENTS, "table1-native", records),
        (VOLUMES, "table1-native-volumes", volumes),
    ):
        paths.append(tmp_path / f"{name}.jsonl")
        with appending(paths[-1], {"kind": kind, **HEAD}) as (_, log):
            for record in found:
                log(record)
    (trial,) = trials.read_trials(paths)
    return trial, paths


def volumes_of(plan, factor, full=1.0, valgrind=None):
    """Simulated volumes `factor` times those predicted; fully associative, `full` times."""
    predicted = resident_volumes(PROBLEM, MACHINE, plan, predict(PROBLEM, MACHINE, plan))
    names = ("input", "weights", "output", "packing")

    def scaled(by):
        return {
            resource: {name: round(by * found.get(name, 0)) for name in names}
            for resource, found in predicted.items()
        }

    found = {"associative": scaled(factor), "full": scaled(full)}
    return Simulated(
        Subject("R0", "sample", plan), found, 1, {"L1": 200, "L2": 100}, valgrind or {}
    )


def underestimated(tmp_path, resource):
    """A trial in which a thousand times as much comes from `resource` as is predicted, so that it
    is the slowest memory of all plans when they are simulated, and of none as predicted."""
    flows = [volumes_of(plan, 1.0) for plan in SAMPLED]
    for flow in flows:
        for tensor in flow.volumes["associative"][resource]:
            flow.volumes["associative"][resource][tensor] *= 1000
    trial, _ = trial_of(tmp_path, (1.0,) * 5, flows)
    assert all(flow.expected.slowest_memory != resource for flow in trial.flows)
    return trial


def text_of(*found):
    """The article and all pages."""
    everything = pages.Findings(found, {}, frozenset())
    written = (write(everything) for write, _ in pages.PAGES.values())
    return "\n".join(chain(document._article(everything, found, ()), *written))


def cells_of(trial):
    """By group and title of the figures to reach."""
    return {(figure.group, figure.title): figure.cell for figure in criteria.figures(trial)}


def test_losses_are_against_the_best_that_was_found(tmp_path):
    trial, _ = trial_of(tmp_path, (2.0, 1.6, 0.8, 4.0, 5.0))
    (verdict,) = trial.verdicts
    assert verdict.top_loss(1) == pytest.approx(1 - 0.8 / 2.0)
    assert verdict.top_loss(2) == pytest.approx(1 - 0.8 / 1.6)
    assert verdict.top_loss(5) == 0
    assert verdict.chosen_loss(1) == pytest.approx(1 - 0.8)
    assert verdict.chosen_loss(5) == 0
    assert verdict.again == pytest.approx(0.01)
    assert verdict.gflops(verdict.own) == pytest.approx(WORKLOAD.flops / REFERENCE * 1e-9)


def test_lucky_plans_that_missed_the_final_rounds_do_not_count_as_best(tmp_path):
    trial, paths = trial_of(tmp_path, (2.0, 3.0, 4.0, 5.0, 6.0))
    with appending(paths[0], {"kind": MEASUREMENTS, **HEAD}) as (_, log):
        (lucky,) = sample_plans(PROBLEM, MACHINE, 1, 99)
        log(measurement("sample", lucky, 0.1, final=False))
    (trial,) = trials.read_trials(paths)
    assert trial.verdicts[0].best.seconds == pytest.approx(REFERENCE)


def test_what_is_missed_is_said_to_be_missed(tmp_path):
    trial, _ = trial_of(tmp_path, (2.0, 1.6, 0.8, 4.0, 5.0))
    cells = cells_of(trial)
    assert cells[criteria.OWN, "top-1 loss: worst"] == "20.0% +- 0.0% (R0), **missed**"
    assert cells[criteria.OWN, "top-5 loss: worst"] == "0.0% (R0), reached"
    assert cells[criteria.VOLUME, "from L1"] == "not measured"


def test_the_error_of_the_worst_loss_stands_beside_it(tmp_path):
    """The operator that loses less is known less well."""
    trial, _ = trial_of(tmp_path, (2.0, 1.6, 0.8, 4.0, 5.0))
    (worst,) = trial.verdicts
    points = {
        key: replace(point, passes=((0.5, 1.0, 1.5),)) if not point.sampled
        else replace(point, seconds=1.2 * point.seconds)
        for key, point in worst.points.items()
    }  # fmt: skip
    other = replace(worst, workload=replace(WORKLOAD, name="R1"), points=points)
    assert (worst.noise, other.noise > 0.1) == (0, True)
    cells = cells_of(replace(trial, verdicts=(other, worst)))
    assert cells[criteria.OWN, "top-1 loss: worst"].startswith("20.0% +- 0.0% (R0)")
    cells = cells_of(replace(trial, verdicts=(other,)))
    wanted = f"{other.chosen_loss(1):.1%} +- {other.noise:.1%} (R1), "
    assert cells[criteria.OWN, "top-1 loss: worst"].startswith(wanted)


def test_the_error_of_a_loss_is_what_the_loss_may_be_off_by(tmp_path):
    trial, _ = trial_of(tmp_path, (0.25, 1.6, 2.0, 4.0, 5.0))
    (verdict,) = trial.verdicts
    key = verdict.own.key
    own = replace(verdict.own, passes=((0.95, 1.0, 1.05) * 4,))
    verdict = replace(verdict, points={**verdict.points, key: own})
    best, slower = verdict.best.seconds, own.seconds * (1 + own.uncertainty)
    off = (1 - best / slower) - verdict.chosen_loss(1)
    assert verdict.chosen_loss(1) == pytest.approx(0.75)
    assert verdict.noise == pytest.approx(off, rel=0.05)
    (tmp_path / "b").mkdir()
    (best,) = trial_of(tmp_path / "b", (1.1, 1.6, 2.0, 4.0, 5.0))[0].verdicts
    assert best.chosen_loss(1) == 0
    assert isnan(best.noise)  # it is compared with itself


def test_losses_by_other_passes_stand_beside_the_means(tmp_path):
    """The own plan takes as long as the reference; a sampled one is faster in the first of two
    passes, and as much slower in the second."""
    trial, _ = trial_of(tmp_path, (0.99, 1.6, 2.0, 4.0, 5.0))
    (verdict,) = trial.verdicts
    points = {}
    for key, point in verdict.points.items():
        ratio = point.seconds / REFERENCE
        first, second = (0.9, 1.1) if ratio == pytest.approx(0.99) else (ratio, ratio)
        points[key] = replace(point, passes=((first,) * 3, (second,) * 3))
    trial = replace(trial, verdicts=(replace(verdict, points=points),))
    found = {group: (columns, rows) for group, columns, rows in tables.figure_tables([trial])}
    columns, rows = found[criteria.OWN]
    cells = dict(zip(columns, rows[0], strict=True))
    assert cells["top-1 loss: mean (at most 1.5%)"] == "1.0%, reached"
    # by the first pass the own plan is the best, by the second the other, which the first judges
    assert cells["mean, judged apart"] == "-5.0%"
    assert found[criteria.SAMPLE][0][-1] == "mean, judged apart"
    assert found[criteria.ORDER][0][-1] == "Spearman: worst (at least 0.5)"


def test_what_misses_a_limit_does_not_look_like_it(tmp_path):
    trial, _ = trial_of(tmp_path, (1.0, 1.6, 1.0 / 1.01545, 4.0, 5.0))
    found = {(figure.group, figure.title): figure for figure in criteria.figures(trial)}
    figure = found[criteria.OWN, "top-1 loss: mean"]
    assert (figure.target, figure.cell) == ("at most 1.5%", "1.52%, **missed**")


@pytest.mark.parametrize(("number", "cell"), [(3, "not measured"), (4, "-1.00 (R0), **missed**")])
def test_ranks_of_three_plans_say_nothing(tmp_path, number, cell):
    trial, _ = trial_of(tmp_path, (5.0, 4.0, 3.0, 2.0, 1.1))
    (verdict,) = trial.verdicts
    few = {point.key: point for point in verdict.sample[:number]}
    trial = replace(trial, verdicts=(replace(verdict, points=few, chosen=()),))
    assert cells_of(trial)[criteria.ORDER, "Spearman: worst"] == cell


def test_a_model_that_is_right_reaches_everything(tmp_path):
    flows = [volumes_of(plan, 1.0) for plan in SAMPLED]
    trial, _ = trial_of(tmp_path, (1.1, 1.5, 2.0, 2.5, 3.0), flows)
    cells = [figure.cell for figure in criteria.figures(trial)]
    assert not [cell for cell in cells if "missed" in cell]
    assert trial.verdicts[0].spearman == pytest.approx(1)


def test_volumes_show_errors_and_conflicts(tmp_path):
    trial, _ = trial_of(tmp_path, (1.0,) * 5, [volumes_of(plan, 2.0, full=1.0) for plan in SAMPLED])
    for flow in trial.flows:
        assert flow.ratio("L2") == pytest.approx(0.5, rel=1e-3)
        assert flow.conflicts("DRAM") == pytest.approx(2.0, rel=1e-3)
    rows = {row[0]: dict(zip(volume_tables.VOLUME_COLUMNS, row, strict=True)) for row in
            volume_tables.volume_rows(trial)}  # fmt: skip
    assert rows["L3"]["sample: median error"] == "50.0%"
    assert rows["L3"]["conflicts: median"] == "2.00"


def test_volumes_that_the_model_takes_for_small_are_told_in_short(tmp_path, monkeypatch):
    """By what is predicted no plan waits for memory then."""
    trial = underestimated(tmp_path, "DRAM")
    monkeypatch.setattr(abstract, "LEAST_VOLUMES", len(SAMPLED))
    text = " ".join(text_of(trial).split())
    assert "up to 99.9% where simulated volumes say which memory that is" in text


def test_plans_picked_for_their_slowest_memory_count_where_that_is_looked_at(tmp_path):
    usual = [volumes_of(plan, 1.0) for plan in SAMPLED[:2]]
    picked = [replace(volumes_of(plan, 2.0), picked=True) for plan in SAMPLED[2:]]
    trial, _ = trial_of(tmp_path, (1.0,) * 5, [*usual, *picked])
    rows = [dict(zip(volume_tables.VOLUME_COLUMNS, row, strict=True)) for row in
            volume_tables.volume_rows(trial)]  # fmt: skip
    assert {row["sample: median error"] for row in rows} == {"0.0%"}
    assert sum(int(row["where slowest: plans"]) for row in rows) == 5
    assert sum(int(row["where slowest when simulated: plans"]) for row in rows) == 2
    assert "Of 2 sampled plans and 0 own ones and candidates, and where a memory is the slowest " \
        "of 3 more sampled ones" in text_of(trial)  # fmt: skip
    assert volume_tables.tensor_rows([trial]) == []


def test_volumes_over_all_trials_are_those_of_trials_with_enough_plans(tmp_path, monkeypatch):
    trial, _ = trial_of(tmp_path, (1.0,) * 5, [volumes_of(plan, 2.0) for plan in SAMPLED])
    (tmp_path / "b").mkdir()
    other, _ = trial_of(tmp_path / "b", (1.0,) * 5, [volumes_of(SAMPLED[0], 1.0)])
    (tmp_path / "c").mkdir()
    without, _ = trial_of(tmp_path / "c", (1.0,) * 5)
    assert volume_tables.summary_rows([without]) == []
    slowest = trial.flows[0].expected.slowest_memory
    enough = sum(flow.expected.slowest_memory == slowest for flow in trial.flows)
    monkeypatch.setattr(volume_tables, "LEAST_VOLUMES", enough)
    rows = {row[0]: row for row in volume_tables.summary_rows([trial, other, without])}
    cells = dict(zip(volume_tables.SUMMARY_COLUMNS, rows[slowest], strict=True))
    assert cells["own plans and candidates"] == ""
    assert cells["sample"] == "25.0% (0.0% to 50.0%)"
    one = f"{0.5 if enough > 1 else 0.25:.1%}"
    assert cells["sample, where slowest"].startswith(one)
    found = trial.flows[0].slowest_memory
    rows = {row[0]: row for row in volume_tables.summary_rows([other])}
    cells = dict(zip(volume_tables.SUMMARY_COLUMNS, rows[found], strict=True))
    assert enough == 1 or cells["where slowest when simulated"] == ""


def test_tensors_whose_volumes_are_off_are_told(tmp_path):
    flows = [volumes_of(plan, 1.0) for plan in SAMPLED]
    for flow in flows:
        flow.volumes["associative"]["L2"]["output"] *= 2
    trial, _ = trial_of(tmp_path, (1.0,) * 5, flows)
    assert volume_tables.tensor_rows([trial]) == [["table1-native", "L2", "output", "", "0.50"]]
    assert "| table1-native | L2 | output |  | 0.50 |" in text_of(trial)


def test_kinds_of_plans_that_are_off_are_told(tmp_path, monkeypatch):
    costs = [estimate(PROBLEM, MACHINE, plan).cost for plan in (OWN, *SAMPLED)]
    packed = [plan.packing != "none" for plan in (OWN, *SAMPLED)]
    assert any(packed)
    assert not all(packed)
    ratios = [(2.0 if p else 1.0) * cost / costs[0] for p, cost in zip(packed, costs, strict=True)]
    scale = 2.0 if packed[0] else 1.0
    trial, _ = trial_of(tmp_path, [ratio / scale for ratio in ratios[1:]])
    assert faults.group_rows([trial]) == []  # there are six plans
    monkeypatch.setattr(faults, "ENOUGH", 1)
    rows = {(title, kind): float(off) for title, kind, _, off, _ in faults.group_rows([trial])}
    places = {f"packing {plan.packing}" for plan in (OWN, *SAMPLED) if plan.packing != "none"}
    share = sum(packed) / len(packed)
    for place in places:
        assert rows["table1-native", place] == pytest.approx(2.0 ** (1 - share), abs=0.02)
    assert rows["table1-native", "packing none"] == pytest.approx(2.0**-share, abs=0.02)


def test_the_slowest_memory_is_the_one_whose_volume_takes_longest(tmp_path):
    trial, _ = trial_of(tmp_path, (1.0,) * 5, [volumes_of(plan, 1.0) for plan in SAMPLED])
    flow = trial.flows[0]
    seconds = {"L1": 1.0, "L2": 2.0, "L3": 1.0, "DRAM": 2.5}
    predicted = replace(flow.expected.prediction, seconds=seconds)
    expected = replace(flow.expected, prediction=predicted, resident=predicted.volumes)
    assert replace(expected, beside_seconds=0.0).slowest_memory == "DRAM"
    assert replace(expected, beside_seconds=1.0).slowest_memory == "L2"


def test_sums_that_wait_in_memory_take_its_time_once():
    """Where nothing is packed and nothing stays in a cache, bytes of DRAM are those of tiles and of
    sums, which take the time of both."""
    problem = mopt_mlir.conv2d(k=64, h=28, w=28, c=64, r=3, s=3)
    plan = mopt_mlir.solve(problem, MACHINE)
    halves = [
        replace(one, tile={**problem.extents, **one.tile, "c": min(one.tile.get("c", 64), 32)})
        for one in plan.levels
    ]
    plan = replace(plan, levels=tuple(halves))
    found = breakdown(problem, MACHINE, plan)
    assert found.sums_seconds > 0
    expected = Expected.of(problem, MACHINE, plan)
    sums = found.sums_seconds * MACHINE.dram_bandwidth * 1e9
    assert expected.moved("DRAM") == pytest.approx(expected.moved_by_tiles("DRAM") + sums)
    by_tiles = expected.prediction.seconds["DRAM"] - expected.beside_seconds
    assert by_tiles == pytest.approx(found.moving_seconds("DRAM"))


def test_the_slowest_memory_is_that_of_predicted_times():
    """What a cache is slowed by beside computing is the solver's business alone."""
    problem = mopt_mlir.conv2d(k=64, h=28, w=28, c=64, r=3, s=3)
    plan = mopt_mlir.solve(problem, MACHINE)
    whole = [replace(one, tile={**problem.extents, **one.tile}) for one in plan.levels]
    plan = replace(plan, levels=tuple(whole))
    slow = MACHINE.override({"L2.busy_bandwidth": "0.01"})
    assert predict(problem, slow, plan).bottleneck == "L2"
    assert Expected.of(problem, slow, plan) == Expected.of(problem, MACHINE, plan)


def test_volumes_are_judged_where_a_memory_is_the_slowest_by_simulation_as_well(tmp_path):
    """A thousand times as much comes from L3 as is predicted; by that another one is slower."""
    trial = underestimated(tmp_path, "L3")
    assert [flow.slowest_memory for flow in trial.flows] == ["L3"] * 5
    rows = {row[0]: dict(zip(volume_tables.VOLUME_COLUMNS, row, strict=True)) for row in
            volume_tables.volume_rows(trial)}  # fmt: skip
    assert rows["L3"]["where slowest: plans"] == "0"
    assert rows["L3"]["where slowest when simulated: plans"] == "5"
    assert rows["L3"]["where slowest when simulated: median error"] == "99.9%"


def test_valgrinds_counts_stand_beside_ours(tmp_path):
    flow = volumes_of(OWN, 1.0, valgrind={"L1": 202, "L2": 90})
    trial, _ = trial_of(tmp_path, (1.0,) * 5, [flow])
    assert volume_tables.check_rows(trial) == [["R0", "200", "+1.0%", "100", "-10.0%"]]


def test_a_choice_that_was_not_timed_leaves_its_columns_empty(tmp_path):
    _, paths = trial_of(tmp_path, (1.0,) * 5)
    with appending(paths[0], {"kind": MEASUREMENTS, **HEAD}) as (_, log):
        log(Choice("R0", ("another",)))
    (trial,) = trials.read_trials(paths)
    (row,) = tables.loss_rows(trial)
    assert dict(zip(tables.LOSS_COLUMNS, row, strict=True))["own, top-1"] == ""


def test_the_document_is_the_same_for_the_same_data(tmp_path):
    flows = [volumes_of(plan, 1.2) for plan in SAMPLED]
    trial, paths = trial_of(tmp_path, (2.0, 1.6, 0.8, 4.0, 5.0), flows)
    written = []
    for directory in (tmp_path / "a", tmp_path / "b"):
        document.write_document(directory, [trial], {}, paths)
        files = sorted(path for path in directory.rglob("*") if path.is_file())
        written.append({path.name: path.read_bytes() for path in files})
    assert written[0] == written[1]
    text, losses = (written[0][name].decode() for name in ("validation.md", "losses.md"))
    assert f"Of each operator {len(SAMPLED)} plans" in text
    assert "it crashed" in losses
    assert "**missed**" in text
    assert all(f"]({name})" in losses for name in written[0] if name.endswith(".svg"))


def test_links_of_the_document_lead_to_pages_and_headings(tmp_path):
    """Wherever it is written, and whatever is given with it."""
    trial, paths = trial_of(tmp_path, (2.0, 1.6, 0.8, 4.0, 5.0))
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/performance.md").touch()  # mopt-bench report's, beside it
    notes = [document.Note("why.md", "# Why\n"), document.Note("when.md", "# When it was\n")]
    document.write_document(tmp_path / "docs", [trial], {}, paths, notes)
    written = [*tmp_path.glob("docs/*.md"), *tmp_path.glob("docs/validation/*.md")]
    names = {path.name for path in written}
    assert names >= {"why.md", "validation.md", *pages.PAGES.keys() - {"comparison.md"}}
    assert "comparison.md" not in names  # nothing was compared
    for page in written:
        for path, anchor in re.findall(r"\]\(([^)#]*)#?([^)]*)\)", page.read_text()):
            target = page.parent / path if path else page
            assert target.exists(), f"{page.name}: {path}"
            headings = re.findall("^#+ (.*)$", target.read_text(), re.M) if anchor else []
            assert not anchor or anchor in [h.lower().replace(" ", "-") for h in headings]
    text = (tmp_path / "docs/validation.md").read_text()
    assert "- [When it was](validation/when.md), written by hand\n" in text


def test_nothing_is_written_of_a_document_that_fails(tmp_path, monkeypatch):
    trial, paths = trial_of(tmp_path, (2.0, 1.6, 0.8, 4.0, 5.0))

    def fails(*_):
        raise ArithmeticError

    monkeypatch.setattr(document, "_article", fails)
    with pytest.raises(ArithmeticError):
        document.write_document(tmp_path / "docs", [trial], {}, paths)
    assert not [found for found in (tmp_path / "docs").rglob("*") if found.is_file()]


def test_trials_of_an_older_protocol_are_told(tmp_path):
    oldest, paths = trial_of(tmp_path, (2.0, 1.6, 0.8, 4.0, 5.0))
    older, old, newer, today = (
        replace(oldest, head={**oldest.head, "must_agree": {**agreed, "protocol": number}})
        for agreed in (oldest.head["must_agree"],)
        for number in (2, 3, 4, PROTOCOL)
    )
    told = ((1, 1, 1, 1), (0, 1, 1, 1), (0, 0, 1, 1), (0, 0, 0, 1), (0, 0, 0, 0))
    trials = zip((oldest, older, old, newer, today), told, strict=True)
    for trial, (flushed, foremost, little, twice) in trials:
        document.write_document(tmp_path / "docs", [trial], {}, paths)
        text = (tmp_path / "docs/validation.md").read_text()
        assert text.count("from before caches were flushed in two steps") == flushed
        assert text.count("from before ten plans of the sample met in final rounds") == foremost
        assert text.count("from before flushing ended with at most 4 MiB") == little
        assert text.count("from before what flushes the caches was read twice") == twice


def test_operators_of_which_more_plans_were_timed_are_told(tmp_path):
    few, paths = trial_of(tmp_path, (2.0, 1.6, 0.8, 4.0, 5.0))
    (verdict,) = few.verdicts
    fewer = replace(verdict, points={key: verdict.points[key] for key in list(verdict.points)[:2]})
    more = replace(few, verdicts=(*few.verdicts, fewer))
    document.write_document(tmp_path / "a", [more], {}, paths)
    text = (tmp_path / "a" / "validation.md").read_text()
    assert f"Of each operator {len(fewer.sample)} to {len(SAMPLED)} plans" in text


def test_the_method_is_that_of_all_trials(tmp_path):
    one, _ = trial_of(tmp_path, (2.0, 1.6, 0.8, 4.0, 5.0))
    text = " ".join(text_of(one).split())
    assert "(seed 0)" in text
    assert "all packing timed, caches flushed before each run, one pinned core" in text
    assert "in 3 rounds, each in an order of its own" in text
    assert "would take over 4 s gets" in text
    agreed = {**one.head["must_agree"], "seed": 20200229, "cold": False}
    durations = {"rounds": 9, "final_rounds": 7, "seconds": 2.5}
    other = replace(one, title="table1-warm", head={**one.head, "must_agree": agreed, **durations})
    text = " ".join(text_of(one, other).split())
    assert "(seed 0, 20200229)" in text
    assert "flushed before each run (warm where a trial's name has `-warm`), one" in text
    assert "in 3 to 9 rounds, each in an order of its own" in text
    assert "meet in 5 to 7 further rounds" in text
    assert "would take over 2.5 to 4 s gets" in text
    assert "all packing timed, caches warm, one" in " ".join(text_of(other).split())


def test_operators_all_of_whose_plans_are_wrong_are_told(tmp_path):
    """That is when there has to be a report."""
    records = [
        Start("R0", SIZES, OWN, 100.0),
        Choice("R0", (Subject("R0", "own", OWN).key,)),
        *(replace(measurement("sample", plan, 1.0), error=None) for plan in SAMPLED),
        replace(measurement("own", OWN, 1.0), error=7.0),
    ]
    path = tmp_path / "table1-native.jsonl"
    with appending(path, {"kind": MEASUREMENTS, **HEAD}) as (_, log):
        for record in records:
            log(record)
    assert main(["report", str(path), "--output", str(tmp_path / "docs")]) == 0
    text = (tmp_path / "docs/validation/losses.md").read_text()
    assert f"{len(SAMPLED) + 1} plans, of which {len(SAMPLED) + 1} gave wrong results" in text


def test_what_was_measured_before_is_compared_with_and_not_judged(tmp_path):
    """Everything was a tenth slower before, and the plan that is fastest now another half."""
    for name in ("now", "before"):
        (tmp_path / name).mkdir()
    now, _ = trial_of(tmp_path / "now", (2.0, 1.6, 0.8, 4.0, 5.0))
    before, _ = trial_of(tmp_path / "before", (2.2, 1.76, 0.8 * 1.1 * 2.5, 4.4, 5.5))
    earlier = {**before.head, "date": "2025-12-31T21:30:00+00:00"}
    before = replace(before, title=now.title + "-before", head=earlier)
    (repeat,) = repeats.repeats([now, before])
    assert repeat.plans == 5
    assert repeat.shift(0.5) == pytest.approx(0.0, abs=1e-9)
    assert repeat.shift(1.0) == pytest.approx(1.5)
    assert repeat.losses == {"R0": pytest.approx(1 - 0.8 / 1.6)}
    (verdict,) = now.verdicts
    lucky = max(verdict.sample, key=lambda point: point.seconds)
    slow = {k: replace(p, final=True) for k, p in verdict.points.items()}
    first = replace(lucky, seconds=lucky.seconds / 99, final=False)  # in its first rounds only
    points = {**slow, lucky.key: first}
    again = replace(now, verdicts=(replace(verdict, points=points),))
    assert repeats.Repeat(again, before).losses == {"R0": pytest.approx(1 - 0.8 / 1.6)}
    document.write_document(tmp_path / "docs", [now, before], {}, [])
    text = (tmp_path / "docs/validation.md").read_text()
    losses = (f"{one.top_loss(1):.1%}" for one in (*before.verdicts, *now.verdicts))
    own = (f"{one.chosen_loss(1):.1%}" for one in (*before.verdicts, *now.verdicts))
    found = " | ".join((*losses, *own))
    differs = f"0.0% | 73.3% | {repeat.spearman(good=False):.2f} | "
    first = f"| table1-native | 2 | the same | 5 | {differs} | 50.0% | 50.0% (R0) | 0 of 1"
    assert f"{first} | {found} |" in text
    assert repeat.model_loss(0) != repeat.model_loss(1)
    assert text.count("table1-native-before") == 0
    agreed = {**before.head["must_agree"], "generator": "another"}
    older = replace(before, head={**before.head, "must_agree": agreed})
    assert repeat.is_same_code
    assert not repeats.Repeat(now, older).is_same_code
    document.write_document(tmp_path / "docs", [before], {}, [])  # judged if there is no other
    text = (tmp_path / "docs/validation.md").read_text()
    assert "table1-native-before" in text
    assert "## Repeatability" not in text


def test_operators_without_common_plans_are_not_compared(tmp_path):
    now, _ = trial_of(tmp_path, (2.0, 1.6, 0.8, 4.0, 5.0))
    (verdict,) = now.verdicts
    key = min(point.key for point in verdict.sample)
    one, other = (
        replace(verdict, workload=replace(WORKLOAD, name="R1"), points=points)
        for points in (
            {key: verdict.points[key]},
            {k: p for k, p in verdict.points.items() if k != key},
        )
    )
    before = replace(now, title=f"{now.title}-before", verdicts=(verdict, one))
    (repeat,) = repeats.repeats([replace(now, verdicts=(verdict, other)), before])
    assert repeat.losses.keys() == {"R0"}


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        (("must_agree", "operators"), "b", "simulated with operators b, but .* is of a"),
        (("must_agree", "seed"), 3, "simulated with seed 3, but .* is of 0"),
        (("machine", "planned_for"), asdict(by_name("znver5")), "with other caches than those of"),
    ],
)
def test_volumes_of_something_else_are_refused(tmp_path, field, value, message):
    head = {**HEAD, "must_agree": {**HEAD["must_agree"], "operators": "a"}}
    section, name = field
    other = {**head, section: {**head[section], name: value}}
    paths = [tmp_path / "x.jsonl", tmp_path / "x-volumes.jsonl"]
    for path, kind, one in zip(paths, (MEASUREMENTS, VOLUMES), (head, other), strict=True):
        with appending(path, {**one, "kind": kind}):
            pass
    with pytest.raises(UserError, match=message) as caught:
        trials.read_trials(paths)
    assert caught.value.location == str(paths[1])


def test_compressed_data_gives_the_same_verdicts(tmp_path):
    trial, paths = trial_of(tmp_path, (2.0, 1.6, 0.8, 4.0, 5.0))
    document.write_document(tmp_path / "docs", [trial], {}, paths)
    data = sorted((tmp_path / "docs/validation").glob("*.xz"))
    assert trials.read_trials(data) == [trial]


def test_the_document_is_made_again_of_the_data_beside_it(tmp_path):
    """Measurements, volumes and what mopt-bench found of other libraries."""
    _, paths = trial_of(tmp_path, (2.0, 1.6, 0.8, 4.0, 5.0))
    arguments = {"operators": "table1", "protocol": "paper", "cold": True, "threads": 1,
                 "isa": "native", "repeat": 50}  # fmt: skip
    head = {**HEAD, "arguments": arguments, "operators": {}, "versions": {}, "unavailable": {}}
    bench = [tmp_path / name for name in ("a-cold-1.json", "a-cold-1-other.json")]
    other = {**HEAD["machine"], "planned_for": {**HEAD["machine"]["planned_for"], "cpu": "other"}}
    Results(head, [], [], []).write(bench[0])
    arguments = {**arguments, "operators": "lists/others.json"}
    Results({**head, "machine": other, "arguments": arguments}, [], [], []).write(bench[1])
    first, second = tmp_path / "first", tmp_path / "second"
    files = [*map(str, paths), "--bench", *map(str, bench)]
    assert main(["report", *files, "--output", str(first)]) == 0
    data = sorted((first / "validation").glob("*.xz"))
    assert [path.name for path in data] == [
        "a-cold-1-other.json.xz", "a-cold-1.json.xz",
        "table1-native-volumes.jsonl.xz", "table1-native.jsonl.xz",
    ]  # fmt: skip
    assert main(["report", *map(str, data), "--output", str(second)]) == 0
    text = (first / "validation/comparison.md").read_text()
    cpu = HEAD["machine"]["planned_for"]["cpu"]
    assert f"## A cold, 1 core, {cpu}, 0 of table1\n" in text
    assert "## A cold, 1 core, other, 0 of others\n" in text
    assert (second / "validation/comparison.md").read_text() == text
    text = (first / "validation.md").read_text()
    assert f"| A cold, 1 core, {cpu}, 0 of table1 |" in text
    assert (second / "validation.md").read_text() == text


def test_pages_that_are_given_are_put_beside_the_document(tmp_path, capsys):
    _, paths = trial_of(tmp_path, (2.0, 1.6, 0.8, 4.0, 5.0))
    note = tmp_path / "why.md"
    note.write_text("# Why\n\nBecause {of} 100%.\n")
    files = [*map(str, paths), str(note)]
    docs = tmp_path / "docs"
    assert main(["report", *files, "--output", str(docs)]) == 0
    assert (docs / "validation/why.md").read_text() == note.read_text()
    assert "- [Why](validation/why.md), written by hand\n" in (docs / "validation.md").read_text()
    (docs / "validation.md").unlink()
    (tmp_path / "untitled.md").write_text("Because.\n")
    (tmp_path / "losses.md").write_text("# Losses\n")
    (tmp_path / "binary.md").write_bytes(b"\xff")
    for name, message in (
        ("missing.md", "cannot read it: No such file"),
        ("binary.md", "cannot read it: it is not text in UTF-8"),
        ("untitled.md", "it has no title: begin it with a line such as '# Notes'"),
        ("losses.md", "the report writes a page of that name: leave it out, or rename it"),
    ):
        assert main(["report", *files, str(tmp_path / name), "--output", str(docs)]) == 1
        assert f"{tmp_path / name}: error: {message}" in capsys.readouterr().err
    assert not (docs / "validation.md").exists()


def test_comparisons_on_two_machines_have_a_plot_each(tmp_path):
    """Each named after its file, as both are of the same configuration."""
    pytest.importorskip("matplotlib")
    _, paths = trial_of(tmp_path, (2.0, 1.6, 0.8, 4.0, 5.0))
    same = {"protocol": "paper", "cold": True, "threads": 1, "isa": "native"}
    sizes = dict.fromkeys("nkhwcrs", 1) | dict.fromkeys(("strides", "dilations"), (1, 1))
    bench = [tmp_path / name for name in ("a-cold-1.json", "a-cold-1-other.json")]
    for path, rate in zip(bench, (200.0, 300.0), strict=True):
        records = [
            Record(
                operator="R0", peer=peer, version="1", gflops_median=found, gflops_mean=found,
                ci95=1.0, max_rel_err=0.0, share_of_peak=0.5, share_of_roofline=0.5,
                is_correct=True, flops=10**9, bytes=10**7, peak_gflops=400.0, prepare_seconds=0.1,
                detail="", seconds=[[1.0 / found]], **same,
            )
            for peer, found in (("mopt", rate), ("onednn", 100.0))
        ]  # fmt: skip
        arguments = {"operators": "table1", "repeat": 50, **same}
        head = {**HEAD, "arguments": arguments, "operators": {"R0": sizes}, "unavailable": {}}
        Results(head, ["R0"], records, []).write(path)
    files = [*map(str, paths), "--bench", *map(str, bench)]
    assert main(["report", *files, "--output", str(tmp_path / "docs")]) == 0
    drawn = [tmp_path / "docs/validation" / f"{path.stem}.svg" for path in bench]
    assert drawn[0].read_bytes() != drawn[1].read_bytes()
    text = (tmp_path / "docs/validation/comparison.md").read_text()
    assert all(f"]({path.name})" in text for path in drawn)


def test_files_of_the_same_title_are_refused(tmp_path, capsys):
    _, paths = trial_of(tmp_path, (2.0, 1.6, 0.8, 4.0, 5.0))
    again = tmp_path / "again" / paths[0].name
    again.parent.mkdir()
    again.write_bytes(paths[0].read_bytes())
    assert main(["report", *map(str, [*paths, again]), "--output", str(tmp_path / "docs")]) == 1
    refused = (
        f"{again}: error: {paths[0]} has the same title, 'table1-native': leave out or rename one"
    )
    assert refused in capsys.readouterr().err
    assert not (tmp_path / "docs").exists()


def test_old_trials_know_what_was_learnt_of_their_cpu_since():
    """Machines of trials are as they were noted, but for fields that they lack."""
    learnt = {
        "evicted_store_cycles",
        "saved_line_cycles",
        "crossing_cycles",
        "issue_norm",
        "loop_cycles",
        "queued_stores",
        "misprediction_cycles",
    }
    for cpu in ("znver3", "znver4", "znver5", "emeraldrapids", "graniterapids"):
        now = asdict(by_name(cpu))
        then = {name: value for name, value in now.items() if name not in learnt}
        assert trials.machine_of(then) == by_name(cpu)
    assert trials.machine_of({**now, "evicted_store_cycles": 7.0}).evicted_store_cycles == 7.0
    before = {**then, "cpu": "znver4", "saved_line_cycles": 2.0}  # fitted without a queue
    assert trials.machine_of(before).saved_line_cycles == by_name("znver4").saved_line_cycles
    since = {**asdict(by_name("znver4")), "saved_line_cycles": 2.0}
    assert trials.machine_of(since).saved_line_cycles == 2.0
    zen3 = asdict(by_name("znver3"))
    l1, l2, l3 = zen3["caches"]
    fitted = {**l2, "bandwidth": 60.0, "bandwidth_all": 480.0}
    assert trials.machine_of({**zen3, "caches": (l1, fitted, l3)}).cache("L2").bandwidth == 60.0
    del fitted["exposed"]
    assert trials.machine_of({**zen3, "caches": (l1, fitted, l3)}) == by_name("znver3")
    of_two = trials.machine_of({**zen3, "cores": 2, "caches": (l1, fitted, l3)}).cache("L2")
    assert (of_two.bandwidth, of_two.bandwidth_all) == (102.0, 204.0)
    rapids = asdict(by_name("graniterapids"))
    l1, l2, l3 = rapids["caches"]
    noted = {name: value for name, value in l2.items() if name != "busy_bandwidth"}
    before = {**rapids, "caches": (l1, {**noted, "exposed": None}, l3)}
    assert trials.machine_of(before) == by_name("graniterapids")
    since = {**rapids, "caches": (l1, {**l2, "busy_bandwidth": None, "exposed": None}, l3)}
    assert trials.machine_of(since).cache("L2").exposed is None
    unknown = {**then, "cpu": "generic"}
    assert trials.machine_of(unknown).evicted_store_cycles is None


def test_what_the_host_gives_of_its_caches_is_told_of_trials_that_looked(tmp_path):
    trial, (measured, _) = trial_of(tmp_path, (2.0, 3.0, 4.0, 5.0, 6.0))
    assert tables.latency_rows([trial]) == []
    assert "## Cache latencies" not in text_of(trial)
    with appending(measured, {"kind": MEASUREMENTS, **HEAD}) as (_, log):
        for slow in range(11):
            log(Latency("R0", {"L1": 1.4, "L2": 4.0, "L3": 10.0 * slow, "memory": 150.0}))
    (trial,) = trials.read_trials([measured])
    assert tables.latency_rows([trial]) == [
        [
            "table1-native", "11", "1.4 (1.4 to 1.4)", "4.0 (4.0 to 4.0)",
            "50.0 (10.0 to 90.0)", "150.0 (150.0 to 150.0)",
        ]
    ]  # fmt: skip
    text = text_of(trial)
    assert "75% of L1, 50% of L2, 25% of L3, and through memory" in " ".join(text.split())
    assert text.count("50.0 (10.0 to 90.0)") == 1


def test_simpler_models_are_judged_by_the_same_plans(tmp_path):
    """Plans take as long as the solver's objective says, whatever is predicted."""
    trial, _ = trial_of(tmp_path, (2.0, 3.0, 4.0, 5.0, 6.0))
    (verdict,) = trial.verdicts
    points = {
        key: replace(
            point,
            seconds=point.objective,
            prediction=replace(
                point.prediction,
                cost=1 / point.objective,
                seconds={**point.prediction.seconds, "compute": -point.objective},
            ),
        )
        for key, point in verdict.points.items()
    }
    # the fastest plan is a candidate that no model would choose
    fastest = next(point for point in points.values() if point.sampled)
    points["fastest"] = replace(fastest, key="fastest", sampled=False, seconds=1e-9)
    verdict = replace(verdict, points=points, chosen=(*verdict.chosen, "fastest"))
    compute, objective, predicted = orders.orders([verdict])
    seconds = [point.seconds for point in points.values() if point.sampled]
    good = [second for second in seconds if second <= 1.5 * min(seconds)]
    assert (objective.spearman, objective.loss) == (1.0, 0.0)
    assert len(good) == 1 or objective.good == 1.0
    for other in (compute, predicted):
        assert other.spearman == -1.0
        assert len(good) == 1 or other.good == -1.0
        assert other.loss == pytest.approx(1 - min(seconds) / max(seconds))
    chosen = max((verdict.own, points["fastest"]), key=lambda point: point.objective)
    assert compute.chosen == pytest.approx(1 - 1e-9 / chosen.seconds, abs=1e-12)
    assert (compute.chosen > 0.9) == (chosen is verdict.own)


def test_objectives_are_what_the_solver_minimises(tmp_path):
    trial, _ = trial_of(tmp_path, (2.0, 3.0, 4.0, 5.0, 6.0))
    (verdict,) = trial.verdicts
    for point in verdict.points.values():
        assert point.objective == predict(PROBLEM, MACHINE, point.plan).cost
    text = text_of(trial)
    assert "| trial | Spearman: the time to compute |" in text
    assert "among candidates: the predicted time |" in text


def test_times_are_compared_with_predicted_ones_by_kind_of_plan(tmp_path):
    trial, _ = trial_of(tmp_path, (2.0, 3.0, 4.0, 5.0, 6.0))
    (verdict,) = trial.verdicts
    points = {}
    for number, (key, point) in enumerate(verdict.points.items()):
        slowest = "L2" if number < 3 or not point.sampled else "compute"
        times_as_long = 2.0 if slowest == "L2" else 3.0
        prediction = replace(point.prediction, cost=point.seconds / times_as_long)
        points[key] = replace(point, prediction=replace(prediction, bottleneck=slowest))
    memory = sum(p.sampled and p.prediction.bottleneck == "L2" for p in points.values())
    trial = replace(trial, verdicts=(replace(verdict, points=points),))
    ((title, own, sample, bound),) = tables.time_rows([trial])
    assert (title, own) == ("table1-native", "2.00 (2.00 to 2.00), 1 plan")
    assert sample.endswith("to 3.00), 5 plans")
    assert bound == f"2.00 (2.00 to 2.00), {memory} plan" + "s" * (memory != 1)


def test_figures_of_volumes_say_how_many_plans_they_rest_on(tmp_path):
    flows = [volumes_of(plan, 1.0) for plan in SAMPLED]
    given_up = [Failed(Subject("R0", "sample", OWN), "more than 5 accesses")]
    flows.append(replace(volumes_of(OWN, 1.0), subject=Subject("R0", "own", OWN)))
    trial, _ = trial_of(tmp_path, (2.0, 3.0, 4.0, 5.0, 6.0), [*flows, *given_up])
    for resource in MEMORY:
        cell = cells_of(trial)[criteria.VOLUME, f"from {resource}"]
        number = sum(f.expected.slowest_memory == resource for f in trial.flows if f.sampled)
        wanted = f"0.0% of {number} plan{'s' * (number != 1)}, too few"
        assert cell == (wanted if number else "not measured")
    many = replace(trial, flows=(*trial.flows, *(trial.flows[0],) * 9))
    slowest = trial.flows[0].expected.slowest_memory
    assert cells_of(many)[criteria.VOLUME, f"from {slowest}"].endswith(" plans, reached")
    simulated = "5 sampled plans and 1 own ones and candidates"
    given_up = "; 1 plan given up (1 for more than 5 accesses).\n"
    assert simulated + given_up in text_of(trial)


def test_choices_that_lose_much_are_shown_beside_the_best(tmp_path):
    trial, _ = trial_of(tmp_path, (2.0, 1.6, 0.8, 4.0, 5.0))
    rows = misses.miss_rows(misses.sample_misses(trial))
    chosen, best = (dict(zip(misses.MISS_COLUMNS, row, strict=True)) for row in rows)
    assert (chosen["operator"], chosen["lost"], chosen["plan"]) == ("R0", "60.0% +- 0.0%", "chosen")
    assert (best["operator"], best["plan"]) == ("", "best")
    assert (chosen["measured, ms"], best["measured, ms"]) == ("2.000", "0.800")
    assert "Choices among the sample that lose more than 3%:" in text_of(trial)
    assert all(" | ".join(row) in text_of(trial) for row in rows)
    (tmp_path / "right").mkdir()
    right, _ = trial_of(tmp_path / "right", (2.0, 2.1, 2.2, 4.0, 5.0))
    assert list(misses.sample_misses(right)) == []


def test_what_today_s_model_likes_and_only_first_rounds_know_is_told(tmp_path):
    trial, (measured, _) = trial_of(tmp_path, (2.0, 3.0, 4.0, 5.0, 6.0))
    assert "met in no final rounds" not in text_of(trial)
    records = measured.read_text().splitlines(True)
    final = [line for line in records if '"sample"' in line and '"final": true' in line]
    measured.write_text("".join(records).replace(final[0], final[0].replace("true", "false")))
    (trial,) = trials.read_trials([measured])
    text = text_of(trial)
    assert "Of the 5 plans that today's model likes best, five of each operator, 1 met in" in text


def test_a_plan_that_fails_after_its_first_rounds_is_counted_once(tmp_path):
    trial, paths = trial_of(tmp_path, (1.0,) * 5)
    assert "6 plans, of which 0 gave wrong results; 0 more could not be measured" in text_of(trial)
    other = Subject("R0", "sample", replace(OWN, nontemporal=not OWN.nontemporal))
    more = next(one for one in sample_plans(PROBLEM, MACHINE, 7, 0) if one not in PLANS)
    wrong = Subject("R0", "sample", more)
    with appending(paths[0], {"kind": MEASUREMENTS, **HEAD}) as (_, log):
        log(Failed(other, "it crashed"))
        log(replace(measurement("sample", more, 1.0), error=2.0))
        log(Failed(wrong, "it crashed later"))
        log(Failed(replace(wrong, role="again"), "so did the reference"))
    (trial,) = trials.read_trials(paths)
    assert "7 plans, of which 1 gave wrong results; 1 more could not be measured" in text_of(trial)


def test_a_commit_with_changes_is_told(tmp_path):
    trial, _ = trial_of(tmp_path, (1.0,) * 5)
    for commit, told in (("0123456789abcdef-dirty", "0123456789-dirty"), (None, "unknown")):
        changed = replace(trial, head={**trial.head, "commit": commit})
        assert f"| {told} | 2026-01-01 |" in text_of(changed)


def test_a_loss_of_which_the_error_is_not_known_has_none(tmp_path):
    trial, _ = trial_of(tmp_path, (2.0, 1.6, 0.8, 4.0, 5.0))
    (miss,) = misses.sample_misses(trial)
    rows = misses.miss_rows([replace(miss, noise=float("nan"))])
    assert rows[0][1:3] == ["60.0%", misses.NOISE]


def test_the_document_begins_with_what_was_found(tmp_path):
    trial, _ = trial_of(tmp_path, (2.0, 1.6, 0.8, 4.0, 5.0))
    flow = volumes_of(SAMPLED[0], 1.0)
    (tmp_path / "b").mkdir()
    other, _ = trial_of(tmp_path / "b", (0.8, 1.6, 2.0, 4.0, 5.0), [flow])
    (tmp_path / "c").mkdir()
    best, _ = trial_of(tmp_path / "c", (2.0, 2.1, 2.2, 4.0, 5.0))
    trials = trial, replace(other, title="other"), replace(best, title="best")
    text = " ".join(text_of(*trials).split())
    assert "is at least as fast as the best of 5 random plans in 1 of 3 cases" in text
    assert "cases, a case being an operator in a trial; 0.80 to 2.00 times as fast" in text
    assert "it loses 0.0% to 20.0% (means of trials), 20.0% on the worst operator of all" in text
    assert (
        "of all, and misses 6 of 15 targets ([below](#figures-to-reach)). Part of that is chance"
        in text
    )
    assert "In 1 of 3 cases the fastest is the plan itself" in text
    # the first choice loses 60%, of one operator there is no other; top-5 loses nothing
    missed = "misses 3 of 12 targets (four for each trial)"
    assert f"{missed}. Its mean loss is 0.0% to 60.0%, or" in text
    assert "lose more than 3%, 1 in all, 0 may be noise, 1 is of an operator with too few" in text
    assert f"| other | `{MACHINE.cpu}` | 256-bit | L1 32 KiB, L2 256 KiB," in text
    assert text.count("| abc | 2026-01-01 | 5 | 5 |") == 3
    assert "operators with too few" not in text_of(best)
    assert "a median error of up to (not measured) (of trials and memories)" in " ".join(
        text_of(best).split()
    )


def test_ours_are_compared_with_the_best_other_whose_result_is_right():
    sizes = dict.fromkeys("nkhwcrs", 1) | dict.fromkeys(("strides", "dilations"), (1, 1))
    same = {"protocol": "paper", "cold": True, "threads": 1, "isa": "native"}

    def record(operator, peer, mean, is_correct=True, prepare_seconds=0.1):
        return Record(
            operator=operator, peer=peer, version="1", gflops_median=1.0, gflops_mean=mean,
            ci95=2.0, max_rel_err=0.0, share_of_peak=0.5, share_of_roofline=0.5,
            is_correct=is_correct, flops=10**9, bytes=10**7, peak_gflops=400.0,
            prepare_seconds=prepare_seconds, detail="",
            seconds=[[0.8 / mean, 1.2 / mean], [1 / mean]], **same,
        )  # fmt: skip

    records = [
        record("R0", "mopt", 200.0),
        record("R0", "onednn", 100.0, prepare_seconds=0.3),
        record("R0", "torch", 300.0, is_correct=False, prepare_seconds=80.0),
        record("R1", "mopt", 90.0),
        record("R1", "onednn", 160.0),
        record("R1", "torch", 180.0, prepare_seconds=420.0),
        record("R1", "openvino", 1.0, prepare_seconds=8e-5),
    ]
    names = ["R0", "R1"]
    head = {**HEAD, "operators": dict.fromkeys(names, sizes), "unavailable": {}}
    head["arguments"] = {"operators": "table1", "repeat": 50, **same}
    comparison = Comparison.of(Results(head, names, records, []))
    columns = peers.columns(comparison)
    rows = (dict(zip(columns, row, strict=True)) for row in peers.rows(comparison))
    one, other, ours, prepared = rows
    # all had the same luck in the same rounds: their ratios are certain
    assert (one["best other"], one["ours / best other"]) == ("oneDNN", "2.00 (2.00 to 2.00)")
    assert (other["best other"], other["ours / best other"]) == ("PyTorch", "0.50 (0.50 to 0.50)")
    assert (one["mopt-mlir"], one["PyTorch"]) == ("200.0 +- 2.0", "wrong")
    assert (ours["PyTorch"], ours["ours / best other"]) == ("0.50", "1.00 (1.00 to 1.00)")
    assert (prepared["operator"], prepared["oneDNN"]) == ("seconds to prepare", "0.2")
    assert (prepared["PyTorch"], prepared["OpenVINO"]) == ("250", "< 0.001")
    assert peers.slower(comparison) == ["R1, 0.50 (0.50 to 0.50)"]
    assert peers.undecided(comparison) == []
    columns, rows = peers.summary([comparison])
    (cells,) = (dict(zip(columns, row, strict=True)) for row in rows)
    assert cells["comparison"] == f"A cold, 1 core, {MACHINE.cpu}, 2 of table1"
    assert (cells["oneDNN"], cells["PyTorch"], cells["best other"]) == (
        "1.06", "0.50", "1.00 (1.00 to 1.00)",
    )  # fmt: skip
    assert (cells["slower"], cells["may be slower"]) == ("1", "0")
    unsure = replace(records[0], seconds=[[1 / 90], [1 / 120]])
    steady = replace(records[1], seconds=[[1 / 100], [1 / 100]])
    comparison = Comparison.of(Results(head, names, [unsure, steady], []))
    (one,) = peers.undecided(comparison)
    assert one.startswith("R0, 1.05 (0.")
    assert peers.slower(comparison) == []


LEARNT = re.compile(r"[Mm]easured|[Ff]itted|own plans|[Ss]ampled plans")
MEASURED_APART = {
    "AHEAD_CYCLES",  # one of `lookahead.INPUT_FORESIGHT`, which is listed
    "CONFLICT_CYCLES",  # microkernels by themselves
    "EACH_UP_TO",  # how calibration measures
    "FORMAT",
    "GAP",
    "OUTPUT_KEPT",  # one of `lookahead.OUTPUT_FORESIGHT`, which is listed
    "WARM_UP",
}


def test_every_constant_that_was_learnt_is_listed() -> None:
    """Those whose docstrings say what they were measured with, or fitted to."""
    root = Path(str(mopt_mlir.__file__)).parent
    listed = set(re.findall(r"\w+", Path(str(constants.__file__)).read_text()))
    for path in root.rglob("*.py"):
        body = ast.parse(path.read_text()).body
        for statement, text in pairwise(body):
            if not isinstance(text, ast.Expr):
                continue
            names = {node.id for node in ast.walk(statement) if isinstance(node, ast.Name)}
            described = isinstance(text.value, ast.Constant) and " ".join(
                str(text.value.value).split()
            )
            if described and LEARNT.search(described) and names.isdisjoint(MEASURED_APART):
                assert names & listed, f"{path.name}: {names}"
