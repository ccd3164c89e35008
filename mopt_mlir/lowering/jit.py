"""Native code loaded into this process."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from ctypes import CFUNCTYPE
from functools import cache
from itertools import count
from threading import Lock
from typing import TYPE_CHECKING, Any, NoReturn
from weakref import finalize

from mopt_mlir.diagnostics import UserError
from mopt_mlir.lowering.native import NativeModule
from mopt_mlir.lowering.openmp import is_in_process, load_openmp
from mopt_mlir.lowering.scratch import RELEASE

if TYPE_CHECKING:
    from numpy.typing import NDArray

_LOCK = Lock()  # LLVM's linker layer is shared by all threads of the process
_NUMBERS = count()


class LoadedCode:
    """The functions `symbols` of a native module, callable as long as this object lives.

    `constants` are the arrays of symbols that the code refers to but does not define; other such
    symbols are looked for in the process. Raises UserError for those that are not there.
    """

    def __init__(
        self,
        code: NativeModule,
        symbols: Iterable[str],
        constants: Mapping[str, NDArray[Any]] | None = None,
    ) -> None:
        import llvmlite.binding as llvm

        if code.needs_openmp:
            load_openmp()
        self._constants = constants or {}
        elsewhere = (name for name in code.undefined if name not in self._constants)
        if missing := [name for name in elsewhere if not is_in_process(name)]:
            raise UserError(
                f"nobody defines {', '.join(missing)}, which the module declares: load the library "
                "that does, as with ctypes.CDLL(path, ctypes.RTLD_GLOBAL), or compile to a file"
            )
        releases = code.defines(RELEASE)
        library = llvm.JITLibraryBuilder().add_object_img(code.object()).add_current_process()
        for symbol in (*symbols, *([RELEASE] if releases else [])):
            library.export_symbol(symbol)
        for symbol, data in self._constants.items():
            library.import_symbol(symbol, data.ctypes.data)
        with _LOCK:
            try:
                self._tracker = library.link(_linker(), f"mopt{next(_NUMBERS)}")
            except RuntimeError as error:  # of what LLVM makes calls itself
                reason = (
                    "the module needs functions of a compiler's runtime that this process lacks"
                )
                raise UserError(f"{reason}: {error}") from None
        if releases:
            finalize(self, _release, self._tracker)

    def __reduce__(self) -> NoReturn:
        raise TypeError("native code cannot be copied: compile its source once more, or to a file")

    def address(self, symbol: str) -> int:
        """The address of one of `symbols`."""
        address: int = self._tracker[symbol]
        return address


def _release(tracker: Any) -> None:
    """Free what the code kept between calls; `tracker` keeps it loaded until then."""
    CFUNCTYPE(None)(tracker[RELEASE])()


@cache
def _linker() -> Any:
    import llvmlite.binding as llvm

    return llvm.create_lljit_compiler()
