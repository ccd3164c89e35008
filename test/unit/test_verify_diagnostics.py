"""The meaning of `expected-*` comments, on diagnostics made by hand."""

import pytest

from mopt_mlir.diagnostics import Diagnostic
from mopt_mlir.pipeline.source import Source
from mopt_mlir.pipeline.verify_diagnostics import verify


def differences(text, *diagnostics, **options):
    """Messages about `text`, given `(severity, line, message)`; None is a line elsewhere."""
    given = [
        Diagnostic(severity, "other.mlir:1:1" if line is None else f"in.mlir:{line}:5", message)
        for severity, line, message in diagnostics
    ]
    return [str(d) for d in verify(Source("in.mlir", text.encode()), given, **options)]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("op // expected-error {{bad}}", 1),
        ("// expected-error@+1 {{bad}}\nop", 2),
        ("// expected-error @+2 {{bad}}\n\nop", 3),
        ("op\n\n// expected-error@-2{{bad}}", 1),
        ("// expected-error@below {{bad}}\nop", 2),
        ("op\n// expected-error@above {{bad}}", 1),
        ("// expected-error@unknown {{bad}}", None),
        ("// expected-error@+1 1 {{bad}}\nop", 2),
    ],
)
def test_a_designator_names_a_line(text, line):
    assert differences(text, ("error", line, "a bad operand")) == []
    elsewhere = 9 if line is None else line + 1
    assert len(differences(text, ("error", elsewhere, "a bad operand"))) == 2


def test_above_and_below_skip_other_comments():
    text = "// expected-error@below {{bad}}\n// expected-note@below {{here}}\nop"
    assert differences(text, ("error", 3, "bad"), ("note", 3, "here")) == []


def test_the_severity_counts():
    assert differences("op // expected-remark {{bad}}", ("warning", 1, "bad")) == [
        "in.mlir:1:5: error: unexpected warning: bad",
        'in.mlir:1:7: error: expected remark "bad" was not produced',
    ]


def test_a_comment_stands_for_one_diagnostic():
    twice = [("error", 1, "bad")] * 2
    assert differences("op // expected-error {{bad}}", *twice) == [
        "in.mlir:1:5: error: unexpected error: bad"
    ]
    assert differences("op // expected-error 2 {{bad}}", *twice) == []
    assert differences("op // expected-error 3 {{bad}}", *twice) == [
        'in.mlir:1:7: error: expected error "bad" was not produced (1 of 3)'
    ]


def test_text_is_literal_unless_it_is_a_regular_expression():
    assert differences("op // expected-error {{a.c}}", ("error", 1, "abc"))
    assert not differences("op // expected-error-re {{a.c{{[0-9]+}}}}", ("error", 1, "a.c42"))
    assert differences("op // expected-error-re {{a.c{{[0-9]+}}}}", ("error", 1, "abc42"))


@pytest.mark.parametrize(
    ("comment", "message"),
    [
        ("expected-error-re {{ {{(}} }}", "invalid regular expression"),
        ("expected-error@over {{bad}}", "malformed expected-"),
        ("expected-error {{bad", "malformed expected-"),
    ],
)
def test_a_comment_that_says_nothing_is_an_error(comment, message):
    (difference,) = differences(f"op // {comment}")
    assert message in difference


def test_only_expected_lets_others_pass():
    other = ("remark", 1, "other")
    assert differences("op", other)
    assert differences("op", other, only_expected=True) == []
    assert differences("op // expected-error {{bad}}", other, only_expected=True)


def test_the_operation_that_mlir_shows_need_not_be_expected():
    assert differences("op", ("note", 1, 'see current operation: "op"')) == []
