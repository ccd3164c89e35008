"""Tables, plots and the document, from results that are made up."""

from __future__ import annotations

import json
import lzma
import re
import sys
from dataclasses import replace
from math import isnan
from pathlib import Path
from xml.etree import ElementTree

import pytest

from benchmarks import document, plots
from benchmarks.command_line import main
from benchmarks.commands import _verdict
from benchmarks.comparison import Comparison, describe_sizes
from benchmarks.results import Failure, Record, Results, kind_of
from benchmarks.scale_results import Batch, Planning, Scale, Scaling
from benchmarks.tables import cells, mean_rows, ratio_cells, summary_cells
from mopt_mlir import UserError

SIZES = {"n": 1, "k": 64, "h": 56, "w": 56, "c": 32, "r": 3, "s": 3}
ONES = {"strides": [1, 1], "dilations": [1, 1]}

RATES = {  # GFLOP/s by operator and peer
    "first": {"mopt": 200.0, "onednn": 100.0, "iree": 50.0},
    "second": {"mopt": 90.0, "onednn": 100.0, "iree": 300.0},
    "third": {"mopt": 180.0, "onednn": 90.0, "iree": 60.0},
}
WRONG = ("second", "iree")


def record(operator: str, peer: str, rate: float, correct: bool = True) -> Record:
    return Record(
        operator=operator,
        protocol="paper",
        cold=True,
        threads=1,
        peer=peer,
        version=f"{peer} 1.2.3",
        gflops_median=rate,
        gflops_mean=rate + 1,
        ci95=0.0,
        max_rel_err=1e-6,
        share_of_peak=rate / 250,
        share_of_roofline=rate / 240,
        is_correct=correct,
        isa="native",
        flops=10**9,
        bytes=10**7,
        peak_gflops=250.0,
        prepare_seconds=0.1,
        detail="",
        seconds=[[1e9 / rate * 1e-9] * 10] * 5,
    )


def head() -> dict:
    cache = {"name": "L1", "size": 49152}
    return {
        "date": "2020-02-29T00:00:00+00:00",
        "commit": "c0ffee",
        "machine": {
            "cpu": "Fast 9000",
            "planned_for": {"cpu": "fast", "cores": 2, "vector_bits": 512, "caches": [cache]},
            "system": "Linux 1.0",
            "libc": "glibc 2.0",
            "python": "3.12.0",
        },
        "versions": {"mopt-mlir": "0.1.0"},
        "arguments": {
            "operators": "table1",
            "protocol": "paper",
            "cold": True,
            "threads": 1,
            "isa": "native",
            "repeat": 50,
        },
        "operators": dict.fromkeys(RATES, SIZES | ONES),
        "bandwidths": {"L1 read": 500.0, "DRAM read": 40.0},
        "unavailable": {"tvm": "No module named 'tvm'"},
    }


@pytest.fixture
def results() -> Results:
    records = [
        record(operator, peer, rate, (operator, peer) != WRONG)
        for operator, rates in RATES.items()
        for peer, rate in rates.items()
    ]
    return Results(head(), list(RATES), records, [Failure("third", "torch", "out of memory")])


@pytest.fixture
def path(results: Results, tmp_path: Path) -> Path:
    results.write(tmp_path / "a-cold-1.json")
    return tmp_path / "a-cold-1.json"


def test_ratio_is_to_the_best_peer_that_is_right(results):
    comparison = Comparison.of(results)
    assert [row.best.peer for row in comparison.rows] == ["onednn"] * 3
    assert [row.ratio for row in comparison.rows] == pytest.approx([2, 0.9, 2])
    assert comparison.ratios() == pytest.approx({"first": 2, "second": 0.9, "third": 2})
    assert comparison.ratios(peer="iree") == pytest.approx({"first": 4, "third": 3})
    assert ratio_cells(comparison.ratios()) == ["1.53", "0.90 (second)"]
    assert ratio_cells({}) == ["", ""]
    assert [(wrong.operator, wrong.peer) for wrong in comparison.wrong] == [WRONG]


def test_ours_wrong_has_no_ratio(results):
    results.records[0] = record("first", "mopt", 200.0, correct=False)
    comparison = Comparison.of(results)
    assert list(comparison.ratios()) == ["second", "third"]


def test_what_is_wrong_is_in_no_mean(results):
    comparison = Comparison.of(results)
    means = [comparison.mean(peer, lambda r: r.gflops_median) for peer in comparison.peers]
    assert means[:2] == pytest.approx([(200 * 90 * 180) ** (1 / 3), (100 * 100 * 90) ** (1 / 3)])
    assert isnan(means[2])
    assert mean_rows(comparison)[0][2:5] == ["148.0", "96.5", ""]
    results.records[3] = record("second", "mopt", 90.0, correct=False)
    wrong = Comparison.of(results)
    assert summary_cells(wrong)[6:8] == ["", "0.75 (third)"]
    assert cells(wrong.rows[1], wrong.peers)[2:] == [
        "90.0 WRONG", "100.0", "300.0 WRONG", "oneDNN", "", "", "",
    ]  # fmt: skip


def texts_of(svg: bytes) -> set[str]:
    drawn = ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")
    return {"".join(text.itertext()).strip() for text in drawn}


def test_what_is_wrong_is_in_no_plot(results):
    pytest.importorskip("matplotlib", reason="plots need the extra `plot`")
    assert "91" in texts_of(plots.bars(Comparison.of(results), "onednn"))
    results.records[3] = record("second", "mopt", 90.0, correct=False)
    comparison = Comparison.of(results)
    drawn = texts_of(plots.bars(comparison, "onednn"))
    assert {"first", "second", "third", "201", "181"} <= drawn
    assert "91" not in drawn
    drawn = texts_of(plots.roofline(comparison))
    assert {"first", "third"} <= drawn
    assert "second" not in drawn
    assert {"first", "third"} <= (drawn := texts_of(plots.bars(comparison, "iree")))
    assert "second" not in drawn  # relative to what is wrong
    alone = replace(results, records=[one for one in results.records if not one.is_correct])
    plots.bars(Comparison.of(alone), "onednn")
    plots.roofline(Comparison.of(alone))


def test_rates_of_a_single_round_have_no_interval_in_plots(results):
    pytest.importorskip("matplotlib", reason="plots need the extra `plot`")
    results.records[:] = [replace(one, ci95=float("nan")) for one in results.records]
    assert {"201", "181"} <= texts_of(plots.bars(Comparison.of(results), "onednn"))


def test_ratios_are_of_the_rounds_that_both_made(results):
    """The host is half as fast after the first round, which is all that a slow peer runs in."""
    rounds = [[1.0] * 3, *([[2.0] * 3] * 9)]
    results.records = [
        replace(record("first", "mopt", 500.0), seconds=rounds),
        replace(record("first", "onednn", 250.0), seconds=[[4.0]]),
    ]
    assert Comparison.of(results).ratios() == {"first": 4.0}


def test_variants_of_ours_are_no_rivals(results):
    results.records.append(record("first", "mopt-5", 1000.0))
    comparison = Comparison.of(results)
    assert comparison.rows[0].best.peer == "onednn"
    assert comparison.peers == ("mopt", "mopt-5", "onednn", "iree")
    assert isnan(comparison.mean("mopt-5", lambda r: r.gflops_median))  # over other operators
    assert comparison.ratios("mopt-5") == {"first": 10}
    assert summary_cells(comparison)[2:6] == ["1.53", "0.90 (second)", "10.00", "10.00 (first)"]


def test_sizes_are_described():
    assert describe_sizes(SIZES | ONES) == "64,56x56,32,3x3"
    strided = SIZES | {"strides": [2, 2], "dilations": [1, 3], "n": 8}
    assert describe_sizes(strided) == "8x(64,56x56,32,3x3/2*1x3)"


def test_results_survive_being_written(results, path):
    again = Results.read(path)
    assert again.records == results.records
    assert again.failures == results.failures
    assert again.head == results.head
    data = json.loads(path.read_text())
    assert {"operator", "protocol", "cold", "threads", "peer", "version", "gflops_median"} <= set(
        data["records"][0]
    )


def test_a_nan_is_null(results, tmp_path):
    results.records[0] = Record(**{**vars(results.records[0]), "max_rel_err": float("nan")})
    results.write(tmp_path / "nan.json")
    assert "NaN" not in (tmp_path / "nan.json").read_text()
    assert Results.read(tmp_path / "nan.json").records[0].max_rel_err is None


def test_two_hosts_are_reported_one_after_the_other(path, capsys, tmp_path):
    other = tmp_path / "other.json"
    other.write_bytes(Path(path).read_bytes())
    assert main(["report", str(path), str(other), "--output", str(tmp_path / "docs.md")]) == 1
    assert "error: 2 files have results of " in capsys.readouterr().err


def test_plots_of_two_files_of_scale_would_have_one_name(capsys, tmp_path):
    files = [str(tmp_path / name) for name in ("one.json", "two.json")]
    for file in files:
        Scale({}, [], [], []).write(Path(file))
    assert main(["report", *files, "--output", str(tmp_path / "docs.md")]) == 1
    assert "error: 2 files have results of scale; report one of them" in capsys.readouterr().err


def test_report_prints_the_table_and_the_summary(path, capsys):
    assert main(["report", str(path), "--tables-only"]) == 0
    printed = capsys.readouterr().out
    assert "A cold, 1 core (paper)" in printed
    assert "FMA peak 250 to 250 GFLOP/s; GB/s: L1 read 500, DRAM read 40" in printed
    assert re.search(r"second .*300\.0 WRONG.*oneDNN .*0\.90", printed)
    assert re.search(r"ours / each .* 1\.53 .* 3\.46 ", printed)
    assert re.search(r"A cold, 1 core .*1\.53.*0\.90 \(second\)", printed)


def test_brackets_in_names_are_no_markup(path, capsys):
    path.write_text(path.read_text().replace('"second"', '"[second]"'))
    assert main(["report", str(path), "--tables-only"]) == 0
    printed = capsys.readouterr().out
    assert "│[second] " in printed
    assert "0.90 ([second])" in printed


def scale() -> Scale:
    return Scale(
        {key: value for key, value in head().items() if key != "bandwidths"},
        [Planning(10, "empty", 2.0, 3.0), Planning(10, "full", 0.01, 3.0)],
        [Scaling("R9", 1, 100.0, 110.0), Scaling("R9", 128, None, 9000.0)],
        [Batch("R9", 64, 0.5, 0.4)],
    )


def test_document_holds_every_figure(path, tmp_path, capsys):
    scale().write(tmp_path / "scale.json")
    arguments = ["report", str(tmp_path / "scale.json"), str(path), "--output", str(tmp_path)]
    assert main(arguments) == 0
    assert "performance.md" in capsys.readouterr().err
    text = (tmp_path / "performance.md").read_text()
    for line in (
        "| A cold, 1 core | 3 | 1.53 | 0.90 (second) |  |  | 0.62 | 0.38 (second) | 1 |",
        "- Fast 9000, 1 core used, 512-bit vectors, L1 48 KiB (planned for as `fast`)",
        "| oneDNN | onednn 1.2.3 | Primitives with",
        "50 runs. FMA peak 250 to 250 GFLOP/s; GB/s: L1 read 500, DRAM read 40.",
        "| first | 64,56x56,32,3x3 | 200.0 | 100.0 | 50.0 | oneDNN | 2.00 | 80% | 83% |",
        "Wrong: IREE on second.",
        "PyTorch failed on third: out of memory",
        "Without TVM: No module named 'tvm'.",
        "| 10 | empty | 2.00 | 3.00 | 500 |",
        "| 128 |  | 9000 |",
        "| 64 | 500 | 400 |",
    ):
        assert line in text


def test_the_document_tells_what_was_used_of_the_machine(results, tmp_path):
    """Though older files have all of the host, whatever was measured."""
    paths = [tmp_path / name for name in ("native.json", "avx2.json", "scale.json")]
    results.write(paths[0])
    results.head["arguments"] = {**results.head["arguments"], "isa": "avx2", "threads": 2}
    results.head["commit"] = "decade"
    results.write(paths[1])
    figures = scale()
    figures.head["arguments"] = {"operators": ["R9"], "repeat": 20}
    figures.write(paths[2])
    assert main(["report", *map(str, paths), "--output", str(tmp_path)]) == 0
    text = (tmp_path / "performance.md").read_text()
    used = re.findall(r"^- Fast 9000, (\d cores? used, \d+-bit) vectors", text, re.MULTILINE)
    assert used == ["1 core used, 512-bit", "2 cores used, 256-bit", "2 cores used, 512-bit"]
    assert "`fast`)\n- commit c0ffee\n- commit decade\n" in text
    assert "are measured with warm caches" in text


def test_plots_are_drawn_and_linked(path, tmp_path):
    pytest.importorskip("matplotlib", reason="plots need the extra `plot`")
    scale().write(tmp_path / "scale.json")
    main(["report", str(path), str(tmp_path / "scale.json"), "--output", str(tmp_path)])
    links = re.findall(r"!\[.*?\]\((.*?)\)", (tmp_path / "performance.md").read_text())
    assert sorted(Path(link).name for link in links) == [
        "a-cold-1-roofline.svg",
        "a-cold-1.svg",
        "batch.svg",
        "cores.svg",
    ]
    texts = {}
    for link in links:
        drawn = ElementTree.parse(tmp_path / link).iter("{http://www.w3.org/2000/svg}text")
        texts[Path(link).name] = {"".join(text.itertext()).strip() for text in drawn}
    assert {"first", "second", "third", "201", "91", "mopt-mlir", "IREE"} <= texts["a-cold-1.svg"]
    assert {"first", "second", "third"} <= texts["a-cold-1-roofline.svg"]
    before = (tmp_path / links[0]).read_bytes()
    main(["report", str(path), str(tmp_path / "scale.json"), "--output", str(tmp_path)])
    assert (tmp_path / links[0]).read_bytes() == before


def test_no_plots_without_matplotlib(path, tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert main(["report", str(path), "--output", str(tmp_path / "new")]) == 0
    assert "without plots: pip install matplotlib" in capsys.readouterr().err
    assert "![" not in (tmp_path / "new" / "performance.md").read_text()


def test_nothing_is_written_of_a_document_that_fails(path, tmp_path, monkeypatch):
    def fails(*_):
        raise ArithmeticError

    monkeypatch.setattr(document, "_sections", fails)
    with pytest.raises(ArithmeticError):
        main(["report", str(path), "--output", str(tmp_path / "new")])
    assert not (tmp_path / "new").exists()


def test_a_run_in_which_ours_was_wrong_or_failed_ends_in_an_error(results):
    assert _verdict([Comparison.of(results)]) == 0  # a peer is wrong, and one failed
    results.failures.append(Failure("third", "mopt", "no plan"))
    with pytest.raises(UserError, match="ours failed on third"):
        _verdict([Comparison.of(results)])
    results.records[0] = record("first", "mopt", 200.0, correct=False)
    with pytest.raises(UserError, match=r"wrong results.*: first; please report it"):
        _verdict([Comparison.of(results)])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "results.json: error: cannot read it: No such file or directory"),
        ("{", "results.json: error: not a JSON file"),
        ("[" * 100_000, "results.json: error: not a JSON file"),
        ("[]", "results.json: error: not a file of mopt-bench"),
        ('{"kind": "mopt-bench run", "format": 0}', "written by another version of mopt-bench"),
        ('{"kind": "mopt-bench run", "format": 1}', "not a complete file of results"),
        ('{"kind": "mopt-bench scale", "format": 1}', "not a complete file of figures"),
        ('{"kind": "other", "format": 1}', "not a file of 'mopt-bench run'"),
    ],
)
def test_files_that_are_no_results(text, message, tmp_path, capsys):
    file = tmp_path / "results.json"
    if text is not None:
        file.write_text(text)
    assert main(["report", str(file), "--output", str(tmp_path / "docs")]) == 1
    captured = capsys.readouterr()
    assert message in captured.err
    assert "Traceback" not in captured.err
    assert not (tmp_path / "docs").exists()


def test_compressed_results_read_the_same(path, results):
    compressed = path.with_name(path.name + ".xz")
    compressed.write_bytes(lzma.compress(path.read_bytes()))
    assert kind_of(compressed) == kind_of(path)
    assert Results.read(compressed) == Results.read(path) == results
    compressed.write_bytes(path.read_bytes())
    with pytest.raises(UserError, match="not a JSON file"):
        Results.read(compressed)
