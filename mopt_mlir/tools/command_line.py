"""What the tools' command lines share: how they end, and how they refuse."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from mopt_mlir.diagnostics import Failure, UserError, to_stderr
from mopt_mlir.wording import guess

if TYPE_CHECKING:
    from mopt_mlir.compiler.options import CompileOptions


class Parser(argparse.ArgumentParser):
    """An argument parser that raises UserError instead of exiting, and takes whole names only: what
    abbreviates an option today may be another one tomorrow."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options, allow_abbrev=False)
        self.add_argument(
            "--version",
            action=_Version,
            nargs=0,
            help="print the versions of mopt-mlir, MLIR and llvmlite",
        )

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        """As argparse does; for an unknown option, a similar one is named."""
        known, unknown = self.parse_known_args(args, namespace)
        if unknown:
            name = unknown[0].partition("=")[0]
            message = f"unrecognized arguments: {' '.join(unknown)}"
            if name.startswith("--") and (hint := guess(name, self._option_string_actions)):
                raise UserError(f"{message}; {hint}")
            self.error(message)
        return known

    def error(self, message: str) -> NoReturn:
        raise UserError(f"{message}; see {self.prog} --help")

    def print_help(self, file: Any = None) -> None:
        """As argparse does, which would not say that it could not. Raises UserError."""
        if file is not None:
            super().print_help(file)
            return
        from mopt_mlir.output import write_output

        write_output("-", self.format_help().encode())


class _Version(argparse.Action):
    """Looks them up when asked to, not as the parser is made."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        from mopt_mlir.output import write_output
        from mopt_mlir.tools.versions import versions

        write_output("-", versions().encode())
        parser.exit()


def run_tool(
    parser: Parser, tool: Callable[[argparse.Namespace], int], argv: Sequence[str] | None
) -> int:
    """Run `tool` on the parsed `argv`, by default the process's own: its exit code, or 1 after a
    message on stderr. Raises KeyboardInterrupt."""
    return exit_code(parser.prog, lambda: tool(parser.parse_args(argv)), alone=argv is None)


def exit_code(prog: str, run: Callable[[], int], *, alone: bool) -> int:
    """What `run` returns, or 1 after a message on stderr; `prog` is what the tool is called, and it
    is `alone` where the process is there for nothing else. Raises KeyboardInterrupt."""
    _replace_closed_stderr()
    try:
        return run()
    except UserError as error:
        to_stderr(f"{error.location or prog}: error: {error.message}")
    except Failure:
        pass  # after its diagnostics
    except SystemExit as done:  # --help and --version, after they were printed
        return int(done.code or 0)
    except MemoryError:
        to_stderr(f"{prog}: error: there is not enough memory for it")
    except KeyboardInterrupt:
        if alone:  # Python ends of the signal then, which tells a shell to end its loop as well
            sys.excepthook = lambda *_: None
        raise
    return 1


def _replace_closed_stderr() -> None:
    """Have a stderr that nobody reads where the caller has closed it: neither the libraries that we
    use expect that, nor processes that we start."""
    if sys.stderr is not None:
        return
    null, number = os.open(os.devnull, os.O_WRONLY), 2
    if null == number:
        os.set_inheritable(number, True)
    else:
        os.dup2(null, number)
        os.close(null)
    sys.stderr = os.fdopen(number, "w")


def add_compilation_options(parser: Parser, default_cpu: str) -> None:
    """The options that every tool has that compiles; `default_cpu` says for what unless told."""
    parser.add_argument("input", help="MLIR text or bytecode; - for standard input")
    add_machine_options(parser)
    parser.add_argument(
        "--cpu",
        help="LLVM's name of the CPU to generate code for, such as znver5 or haswell (default: "
        f"{default_cpu}); unless --machine is given, plans are made for the known machine closest "
        "to it",
    )
    parser.add_argument(
        "--require-tiled",
        action="store_true",
        help="refuse operations that would become plain loops, instead of warning",
    )
    parser.add_argument(
        "--candidates",
        type=int,
        default=1,
        metavar="K",
        help="plans of each convolution to measure on this host, to take the fastest (default 1, "
        "which measures none)",
    )
    add_plan_cache_option(parser)
    add_jobs_option(parser)


def compile_options(arguments: argparse.Namespace) -> CompileOptions:
    """What `add_compilation_options` has read. Raises UserError."""
    from mopt_mlir.compiler.options import CompileOptions
    from mopt_mlir.machine.facts import affinity

    return CompileOptions(
        machine=arguments.machine,
        threads=arguments.threads,
        cpu=arguments.cpu,
        require_tiled=arguments.require_tiled,
        plan_cache=arguments.plan_cache,
        candidates=arguments.candidates,
        jobs=len(affinity()) if arguments.jobs is None else arguments.jobs,
    )


def add_machine_options(
    parser: Parser, threads: str = "default 1", machine: str = "the default"
) -> None:
    """What to plan for; `threads` says for how many cores unless told, `machine` when that is what
    `auto` stands for."""
    parser.add_argument(
        "--machine",
        default="auto",
        help="what to tile for: a known machine, a .toml file, host, or auto ("
        f"{machine}): the host, with what the module says of its target; overrides may follow, as "
        "in znver5,cores=2",
    )
    parser.add_argument(
        "--threads",
        type=int,
        default=1,
        metavar="N",
        help=f"cores to use, at most the machine's ({threads})",
    )


def add_constant_weights_option(parser: Parser) -> None:
    """Whether to plan the operators of a list for weights that are constants."""
    parser.add_argument(
        "--constant-weights",
        action="store_true",
        help="the weights of a list are known at compile time, so that packing them is free",
    )


def add_jobs_option(parser: Parser) -> None:
    """How many convolutions to plan at the same time."""
    parser.add_argument(
        "--jobs",
        type=int,
        metavar="J",
        help="processes that plan, each another convolution (default one per CPU)",
    )


def add_plan_cache_option(parser: Parser) -> None:
    """Whether to keep plans on disk."""
    parser.add_argument(
        "--no-plan-cache",
        dest="plan_cache",
        action="store_false",
        help="solve anew, and do not keep plans in the user's cache directory",
    )
