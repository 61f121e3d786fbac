"""The compiler of kernels: the only file that uses internals of Numba.

Each kernel is compiled separately, to a C function with the kernel's name. The machine code of a caller depends on the
name and the signature of the called kernel, but not on the code in it. If a kernel is called that is not loaded yet,
the call goes to a stub, which loads the kernel first.

Machine code is cached on disk. Its file name is a hash of everything that the code depends on: the bytecode, the
constants and helpers that the kernel reads, the layouts of its handles, the compiler and the processor. Outdated code
is therefore never used. After an edit, only the edited kernel is recompiled, or all kernels that use an edited helper.
"""

from __future__ import annotations

import _thread
import contextlib
import ctypes
import enum
import hashlib
import itertools
import math
import operator
import os
import pickle
import re
import signal
import stat
import sys
import tempfile
import threading
import time
import traceback
import typing
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache, cached_property, partial
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import TYPE_CHECKING, Any, Final, overload

import llvmlite
import llvmlite.binding as llvm
import numba
import numpy as np
import platformdirs
from filelock import FileLock
from llvmlite import ir
from numba.core import cgutils, types
from numba.core.compiler import Compiler, CompileResult
from numba.core.compiler_lock import global_compiler_lock
from numba.core.dispatcher import _FunctionCompiler
from numba.core.errors import NumbaError, UnsupportedBytecodeError
from numba.core.extending import intrinsic, models, register_jitable, register_model, typeof_impl
from numba.core.imputils import lower_builtin, lower_cast, lower_getattr_generic
from numba.core.ir import Loc
from numba.core.registry import cpu_target
from numba.core.typeconv.castgraph import Conversion
from numba.core.typing.templates import AttributeTemplate, ConcreteTemplate, infer_getattr
from numba.np import arrayobj

from gpusched_env.core.tables import Function, Handle, handles, mark_failed, types_of
from gpusched_env.errors import GpuschedError, KernelError
from gpusched_env.support.files import whole

# ``_nrt`` is off because kernels never allocate: reference counting of arrays would only cost time. ``fastmath`` is not
# set, because results must be bit-identical to those of plain Python.
_OPTIONS: Final[dict[str, Any]] = {"nogil": True, "_nrt": False, "error_model": "numpy"}
_LONG_S: Final = 30 * 86_400.0  # [s] machine code that no process has read for this time may be deleted
_listener: Callable[[int, int, str], None] = lambda done, missing, name: None  # noqa: E731


class HandleType(types.Type):  # type: ignore[misc]
    """Numba's type of a :class:`Handle`."""

    def __init__(self, handle: type[Handle]) -> None:
        self.handle = handle
        super().__init__(f"Handle({handle.__module__}.{handle.__qualname__})")

    def can_convert_to(self, _: Any, other: Any) -> Any:
        """Let a handle be passed where a base class of it is expected, whose arrays come first in its table."""
        is_base = isinstance(other, HandleType) and issubclass(self.handle, other.handle)
        return Conversion.safe if is_base else None


lower_cast(HandleType, HandleType)(lambda context, builder, kind, wanted, address: address)


@register_model(HandleType)
class HandleModel(models.PrimitiveModel):  # type: ignore[misc]
    """The representation of a handle in machine code: the address of its table."""

    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, manager.lookup(types.intp).get_value_type())


class Rows(types.Array):  # type: ignore[misc]
    """Numba's type of an array of a handle. Negative indices are not supported, so no access needs a sign check."""

    def __init__(self, dtype: Any, axes: int) -> None:
        super().__init__(dtype, axes, "C", name=f"Rows({dtype}, {axes})")


register_model(Rows)(models.ArrayModel)


def _unsigned(context: Any, builder: Any, kind: Any, index: Any) -> tuple[Any, Any]:
    """Lower an index, or a tuple of indices, to LLVM, with each integer cast to unsigned."""
    is_tuple = isinstance(kind, types.BaseTuple)
    kinds = tuple(kind) if is_tuple else (kind,)
    parts = cgutils.unpack_tuple(builder, index) if is_tuple else [index]
    unsigned = types.Tuple([types.uintp if isinstance(one, types.Integer) else one for one in kinds])
    cast = [
        context.cast(builder, part, one, types.intp) if isinstance(one, types.Integer) else part
        for one, part in zip(kinds, parts, strict=True)
    ]
    return unsigned, context.make_tuple(builder, unsigned, cast)


def _get(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    kind, index = _unsigned(context, builder, signature.args[1], arguments[1])
    wanted = signature.return_type(signature.args[0], kind)
    return arrayobj.getitem_array_tuple(context, builder, wanted, (arguments[0], index))


def _set(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    kind, index = _unsigned(context, builder, signature.args[1], arguments[1])
    wanted = signature.return_type(signature.args[0], kind, signature.args[2])
    return arrayobj.setitem_array(context, builder, wanted, (arguments[0], index, arguments[2]))


for _index in (types.Integer, types.BaseTuple):
    lower_builtin(operator.getitem, Rows, _index)(_get)
lower_builtin(operator.setitem, Rows, types.Any, types.Any)(_set)


@infer_getattr
class HandleAttributes(AttributeTemplate):  # type: ignore[misc]
    """The attributes of a handle for Numba's type inference: one per array."""

    key = HandleType

    def generic_resolve(self, kind: Any, name: str) -> Any:
        """Return the type of the array ``name``; None = the handle has no array of this name."""
        field = kind.handle.fields.get(name)
        if field is None:
            return None
        element = _element(field.dtype)
        return Rows(element, len(field.axes)) if field.axes else element


@cache
def _element(dtype: np.dtype[Any]) -> Any:
    """Return Numba's type of an array element; memoised, because Numba takes long to inspect every field of a dtype."""
    return numba.from_dtype(dtype)


def _lower_array(context: Any, builder: Any, kind: Any, table: Any, name: str) -> Any:
    """Generate code that reads the address and the lengths of an array from the table.

    The loads are marked as invariant, because the table does not change while a kernel runs.
    """
    field, first = kind.handle.fields[name], kind.handle._words[name]
    words = builder.inttoptr(table, context.get_value_type(types.intp).as_pointer())

    def word(number: int) -> Any:
        read = builder.load(builder.gep(words, [context.get_constant(types.intp, number)]))
        read.set_metadata("invariant.load", builder.module.add_metadata([]))
        return read

    element = _element(field.dtype)
    if not field.axes:
        return builder.inttoptr(word(first), context.get_value_type(element))
    whole = arrayobj.make_array(Rows(element, len(field.axes)))(context, builder)
    size = context.get_constant(types.intp, context.get_abi_sizeof(context.get_data_type(element)))
    shape = [word(first + 1 + axis) for axis in range(len(field.axes))]
    strides = [size]
    for length in shape[:0:-1]:
        strides.insert(0, builder.mul(strides[0], length))
    data = builder.inttoptr(word(first), whole.data.type)
    arrayobj.populate_array(whole, data=data, shape=shape, strides=strides, itemsize=size, meminfo=None, parent=None)
    return whole._getvalue()


lower_getattr_generic(HandleType)(_lower_array)

_LIBRARIES: Final = (np, math)  # modules whose functions Numba implements
_PLAIN: Final = {int: types.int64, float: types.float64, bool: types.boolean, type(None): types.void}
_C: Final[dict[Any, Any]] = {int: ctypes.c_int64, float: ctypes.c_double, bool: ctypes.c_bool, type(None): None}


def _numba_type(hint: Any) -> Any:
    if typing.get_origin(hint) is tuple:
        return types.Tuple([_numba_type(part) for part in typing.get_args(hint)])
    if isinstance(hint, type) and issubclass(hint, Handle):
        return HandleType(hint)
    return _PLAIN[hint]


_kernels: list[Kernel] = []  # index = number of the kernel
_addresses: Final = np.zeros(4096, np.int64)  # address of each kernel's machine code; 0 = not loaded
_hopeless: Final = np.zeros(4096, np.int64)  # 1 = the kernel could not be loaded for its stub
_lost: Final[dict[int, BaseException]] = {}  # why it could not


class Kernel:
    """A function that is compiled when it is first needed. Python code and other kernels call it by its name."""

    def __init__(self, function: Any, lazy: bool) -> None:
        if free := function.__code__.co_freevars:
            raise TypeError(f"{function.__qualname__}: kernels may read names of their module only, not local {free}")
        self.function, self.lazy = function, lazy
        self.__name__, self.__doc__, self.__module__ = function.__name__, function.__doc__, function.__module__
        self.__wrapped__ = function
        self.symbol = f"{function.__module__}.{function.__qualname__}"
        self.number = len(_kernels)
        _kernels.append(self)

    def __repr__(self) -> str:
        """Return the name that messages of Numba show."""
        return self.symbol

    def __call__(self, *arguments: Any) -> Any:
        """Call the kernel from Python."""
        result = self.entry(*arguments)
        if _waiting:
            _raise_waiting(arguments)
        return result

    @cached_property
    def entry(self) -> Any:
        """The machine code as a C function that Python can call; the function takes handles as plain addresses."""
        self.load()
        hints, result = types_of(self.function)
        if result not in _C:
            raise TypeError(f"{self.symbol} returns {result}: only kernels can call it")
        return _c_type(hints, result)(self.address)

    @cached_property
    def signature(self) -> Any:
        """Numba's types of parameters and result."""
        try:
            hints, result = types_of(self.function)
            return _numba_type(result)(*map(_numba_type, hints))
        except (KeyError, NameError, TypeError) as error:
            raise TypeError(
                f"{self.place}: kernel {self.__name__!r}: annotate each parameter and the result with int, float, "
                f"bool or a handle, the result perhaps with None or a tuple of them ({error})"
            ) from error

    @property
    def place(self) -> str:
        """File and line of the function."""
        return f"{self.function.__code__.co_filename}:{self.function.__code__.co_firstlineno}"

    @cached_property
    def callable(self) -> Any:
        """Numba's type of the kernel, as its callers see it."""

        def lower(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            kind = _function_type(context, signature)
            return builder.call(cgutils.get_or_insert_function(builder.module, kind, self.symbol), arguments)

        return _called(self, self.__name__, self.signature, lower)

    @property
    def address(self) -> int:
        """Address of the machine code; 0 = not loaded."""
        return int(_addresses[self.number])

    @property
    def calls(self) -> list[Kernel]:
        """The kernels that this kernel calls, directly or through helpers."""
        return [value for _, value in _reads(self.function) if isinstance(value, Kernel)]

    def load(self) -> int:
        """Load the kernel and its eager callees from disk, or compile them; return the address of the kernel."""
        with global_compiler_lock:
            if not self.address:
                wanted = list(self._closure())
                missing = [one for one in wanted if not one.is_kept]
                try:
                    for one in wanted:
                        if one in missing:
                            _listener(missing.index(one), len(missing), one.__name__)
                        one._link()
                finally:
                    if missing:
                        _listener(len(missing), len(missing), "")
            return self.address

    def _closure(self, seen: set[Kernel] | None = None) -> Iterator[Kernel]:
        """Yield the kernels that must be loaded with this one: its transitive eager callees, then the kernel itself.

        Callees come before their callers.
        """
        seen = set() if seen is None else seen
        seen.add(self)
        for callee in self.calls:
            if not (callee.lazy or callee.address or callee in seen):
                yield from callee._closure(seen)
        yield self

    def _link(self) -> None:
        """Load only this kernel; it calls, through stubs, its lazy callees and the callees that call it back."""
        for _, value in _reads(self.function):
            if isinstance(value, Numbered):
                value.link()
        for callee in self.calls:
            llvm.add_symbol(callee.symbol, callee.address or callee.stub)
        found = _machine_code(self)
        self.library = found.library  # a reference, so that the machine code is not freed
        _addresses[self.number] = found.library.get_pointer_to_function(found.fndesc.llvm_cfunc_wrapper_name)

    @property
    def is_kept(self) -> bool:
        """Whether the machine code of this kernel is on disk, in a file that may be read."""
        return _trusted(self.path) is not None

    @cached_property
    def path(self) -> Path:
        """The file in which the machine code is cached."""
        return _folder() / f"{self.symbol}-{_key(self)}"

    def compile_ahead(self) -> None:
        """Compile the kernel to disk for other processes, unless it is there; the present process must not call it."""
        with global_compiler_lock:
            for callee in self.calls:
                llvm.add_symbol(callee.symbol, callee.address or 1)
            _machine_code(self)

    @cached_property
    def stub(self) -> int:
        """Address of a function that loads the kernel if necessary and then calls it."""
        with global_compiler_lock:
            self._stub_library = _make_stub(self)
        return int(self._stub_library.get_pointer_to_function(f"{self.symbol}.stub"))


def _function_type(context: Any, signature: Any) -> Any:
    """Return LLVM's type of a kernel, which is that of the C functions that Numba generates."""
    kinds = [context.get_value_type(kind) for kind in signature.args]
    return ir.FunctionType(context.get_value_type(signature.return_type), kinds)


def _c_type(hints: Any, result: Any) -> Any:
    """Return the type of C functions that take and return these types, handles as plain addresses."""
    return ctypes.CFUNCTYPE(_C[result], *(_C.get(hint, ctypes.c_int64) for hint in hints))


def _called(key: Any, name: str, signature: Any, lower: Any) -> Any:
    """Create Numba's type of a kernel, or of a table of kernels, as kernels call it."""
    lower_builtin(key, *signature.args)(lower)
    return types.Function(type(name, (ConcreteTemplate,), {"key": key, "cases": [signature]}))


class Numbered:
    """A table of functions with the same signature, which kernels call by number: ``table(number, ...)``.

    Parameters
    ----------
    name : name of the table, which no other table may have
    signature : a function whose annotations are the signature of all functions of the table
    most : maximum number of functions
    """

    def __init__(self, name: str, signature: Any, most: int) -> None:
        self.symbol, self.most = name, most
        self._hints, self._result = types_of(signature)
        self.signature = _numba_type(self._result)(*map(_numba_type, self._hints))
        self._functions: dict[int, Any] = {}
        self._callbacks: list[Any] = []
        self._is_linked = False
        self._addresses = np.zeros(most, np.int64)
        llvm.add_symbol(self.symbol, self._addresses.ctypes.data)

    def put(self, number: int, function: Any) -> None:
        """Put a kernel or a plain Python function into the table, at index ``number``."""
        if number >= self.most:
            raise TypeError(f"{self.symbol}: {self.most} functions at most")
        if not isinstance(function, Kernel):
            hints, result = self._hints, self._result
            back = _c_type(hints, result)(partial(_called_back, function, hints, result))
            self._callbacks.append(back)
            self._addresses[number] = ctypes.cast(back, ctypes.c_void_p).value or 0
        elif not self._takes(function.signature):
            raise TypeError(f"{self.symbol}: {function.symbol} is {function.signature}, not {self.signature}")
        else:
            self._addresses[number] = function.stub if self._is_linked else 0
        self._functions[number] = function

    def _takes(self, signature: Any) -> bool:
        """Return whether functions of the table may have a signature; for ``Handle``, a kernel may name any class."""
        any_handle, wanted, given = HandleType(Handle), self.signature, signature
        return (wanted.return_type, len(wanted.args)) == (given.return_type, len(given.args)) and all(
            one == other or (one == any_handle and isinstance(other, HandleType))
            for one, other in zip(wanted.args, given.args, strict=True)
        )

    def link(self) -> None:
        """Write the stub of each kernel into the table, so that a kernel is compiled when it is first called."""
        self._is_linked = True
        for number, function in self._functions.items():
            if not self._addresses[number]:
                self._addresses[number] = function.stub

    def prepare(self, number: int) -> None:
        """Compile the kernel at index ``number`` now, not when it is first called, so that its errors are raised."""
        function = self._functions.get(number)
        if isinstance(function, Kernel) and not function.address:
            function.load()

    @cached_property
    def callable(self) -> Any:
        """Numba's type of the table, as kernels call it."""

        def lower(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            word = context.get_value_type(types.intp)
            table = builder.module.globals.get(self.symbol) or ir.GlobalVariable(builder.module, word, self.symbol)
            address = builder.load(builder.gep(table, [arguments[0]]))
            kind = _function_type(context, self.signature)
            return builder.call(builder.inttoptr(address, kind.as_pointer()), arguments[1:])

        signature = self.signature.return_type(types.int64, *self.signature.args)
        return _called(self, self.symbol, signature, lower)

    if TYPE_CHECKING:

        def __call__(self, number: int, *arguments: Any) -> Any:
            """Call the function at index ``number``; only kernels can."""


for _kind in (Kernel, Numbered):
    typeof_impl.register(_kind)(lambda value, _: value.callable)


# Errors inside kernels, by thread. They cannot propagate through machine code: what fails returns 0 to its caller, and
# the first error is raised when the kernel returns to Python.
_waiting: Final[dict[int, BaseException]] = {}


def _raise_later(error: BaseException) -> None:
    """Keep an error until the kernel that this thread runs returns to Python."""
    _waiting.setdefault(threading.get_ident(), error)


def _raise_waiting(arguments: Iterable[Any]) -> None:
    """Raise the error that a kernel of this thread has met, if any; ``arguments`` are those of the kernel."""
    error = _waiting.pop(threading.get_ident(), None)
    if error is not None:
        mark_failed(arguments, error)
        raise error


def _called_back(function: Any, hints: Any, result: Any, *arguments: Any) -> Any:
    """Call a plain Python function from a kernel; return 0 if the function raises an error or returns a wrong type."""
    own = (
        handles[argument] if isinstance(hint, type) and issubclass(hint, Handle) else argument
        for hint, argument in zip(hints, arguments, strict=True)
    )
    try:
        found = function(*own)
        return None if result is type(None) else operator.index(found) if result is int else result(found)
    except BaseException as error:
        _raise_later(error)
        return 0


def _raised(kind: int, value: int, trace: int | None) -> None:
    """Keep an exception that machine code has raised: an index out of bounds, or a ``raise`` of a kernel.

    Parameters
    ----------
    kind, value, trace : addresses of its class, its object or arguments, and its traceback
    """
    error = _object_at(value)
    if not isinstance(error, BaseException):
        error = _object_at(kind)(*(error if isinstance(error, tuple) else (error,)))
    _raise_later(error.with_traceback(_object_at(trace) if trace else None))


def _object_at(address: int) -> Any:
    return ctypes.cast(address, ctypes.py_object).value


_keeper: Final = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 3)(_raised)  # for calls from machine code
_KEEPER: Final = "gpusched_env.core.compiler.raised"
llvm.add_symbol(_KEEPER, ctypes.cast(_keeper, ctypes.c_void_p).value)


def _reads(function: Any) -> Iterator[tuple[str, Any]]:
    """Yield each global name, plain or ``module.name``, that a function and its helpers read, with its value."""
    seen, todo = set(), [function]
    while todo:
        one = todo.pop()
        codes = [one.__code__]
        while codes:
            code = codes.pop()
            codes += [part for part in code.co_consts if isinstance(part, CodeType)]
            places, modules = [one.__globals__], list(_LIBRARIES)
            for place in places:  # the loop appends to the list, for names such as module.module.name
                for module in map(place.get, code.co_names):
                    if isinstance(module, ModuleType) and module not in modules:
                        modules.append(module)
                        places.append(vars(module))
            for name, place in itertools.product(code.co_names, places):
                if name in place:
                    value = place[name]
                    plain = getattr(value, "py_func", value)
                    if isinstance(plain, FunctionType) and plain not in seen:
                        seen.add(plain)
                        todo.append(plain)
                    yield name, value


@cache
def _machine() -> str:
    """Describe the compiler, its settings and the processor."""
    own = hashlib.sha256(Path(__file__).read_bytes()).hexdigest()
    settings = [getattr(numba.config, name) for name in ("CPU_NAME", "CPU_FEATURES", "BOUNDSCHECK", "OPT")]
    versions = (sys.version, numba.__version__, llvmlite.__version__, np.__version__)
    parts = (own, *versions, llvm.get_host_cpu_name(), *settings)
    return repr((parts, sorted(llvm.get_host_cpu_features().items())))


def _key(kernel: Kernel) -> str:
    """Hash everything that the machine code of a kernel depends on."""
    digest = hashlib.sha256(f"{_machine()} {kernel.symbol} {kernel.signature}".encode())
    for hint in types_of(kernel.function)[0]:
        if isinstance(hint, type) and issubclass(hint, Handle):
            digest.update(repr((hint.fields, hint._words)).encode())
    _add_code(digest, kernel.function)
    for name, value in _reads(kernel.function):
        plain = getattr(value, "py_func", value)
        if isinstance(value, Kernel | Numbered):
            digest.update(f"{name} {value.symbol} {value.signature}".encode())
        elif isinstance(plain, FunctionType):
            digest.update(f"{plain.__module__}.{plain.__qualname__}".encode())
            _add_code(digest, plain)
        elif isinstance(value, np.ndarray):
            digest.update(f"{name} {value.dtype} {value.shape}".encode() + value.tobytes())
        elif isinstance(value, enum.EnumMeta):
            digest.update(f"{name} {list(value)!r}".encode())
        elif not isinstance(value, ModuleType | type):
            digest.update(f"{name} {value!r}".encode())
    return digest.hexdigest()[:24]


def _add_code(digest: Any, function: Any) -> None:
    digest.update(repr((function.__defaults__, function.__kwdefaults__)).encode())
    codes = [function.__code__]
    while codes:
        code = codes.pop()
        parts = [part for part in code.co_consts if not isinstance(part, CodeType) and part != function.__doc__]
        digest.update(repr((code.co_code, code.co_names, parts)).encode())
        codes += [part for part in code.co_consts if isinstance(part, CodeType)]


@cache
def _folder() -> Path:
    return Path(os.environ.get("NUMBA_CACHE_DIR") or platformdirs.user_cache_dir("gpusched_env")) / "kernels"


@cache
def cache_folder() -> Path | None:
    """Return the folder in which machine code is cached; None = there is no such folder, or it is not writable."""
    folder = _folder()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError:
        return None
    return folder


class _Compiler(_FunctionCompiler):  # type: ignore[misc]
    """Numba's compiler, without the wrappers that Numba generates for calls from Python."""

    def _customize_flags(self, flags: Any) -> Any:
        flags.no_cpython_wrapper = flags.no_cfunc_wrapper = flags.no_compile = True
        flags.enable_pyobject = False
        return flags


def _machine_code(kernel: Kernel) -> Any:
    """Read a kernel's machine code from disk, or compile and store it; one process compiles while others wait."""
    found = _kept(kernel.path)
    if found is None and cache_folder() is None:
        return _compiled(kernel)
    if found is None:
        with contextlib.ExitStack() as stack:
            with contextlib.suppress(OSError, NotImplementedError):  # without a lock two processes may both compile it
                stack.enter_context(FileLock(kernel.path.with_name(f".{kernel.path.name}.lock")))
            found = _kept(kernel.path)
            if found is None:
                found = _compiled(kernel)
                _keep(kernel.path, found)
    return found


def _compiled(kernel: Kernel) -> Any:
    compiler = _Compiler(kernel.function, cpu_target, _OPTIONS | {"forceinline": True}, {}, Compiler)
    try:
        made = compiler.compile(kernel.signature.args, kernel.signature.return_type)
    except Exception as error:
        raise KernelError(_complaint(kernel, error)) from error
    inside = made.fndesc.llvm_func_name
    _add_entry(made)
    made.library._final_module.get_function(inside).linkage = "internal"  # it is inlined into the entry
    made.library.finalize()
    return made


def _complaint(kernel: Kernel, error: Exception) -> str:
    """Describe in one line why Numba does not compile a kernel; its own message, of many lines, is the cause."""
    text = re.sub(r"Failed in nopython mode pipeline \(step: .*?\)\n", "", str(error))
    if not isinstance(error, NumbaError | UnsupportedBytecodeError):
        text = f"{type(error).__name__}: {text}"  # of Numba's own code: what it worked on tells the line
    if found := re.search(r"(?:at|from) (\S.*?) \((\d+)\)", text):
        place = ":".join(found.groups())
    else:
        steps = [frame.f_locals.get("self") for frame, _ in traceback.walk_tb(error.__traceback__)]
        lines: list[Any] = [getattr(step, "loc", None) for step in [error, *steps]]
        lines = [line for line in lines if isinstance(line, Loc)]
        place = f"{lines[-1].filename}:{lines[-1].line}" if lines else kernel.place
    reason = " ".join(re.split(r"\n\n|\nDuring|\nThere are|\.? Raised from", text)[0].split())
    if reason.startswith("NRT required"):
        reason = "kernels must not allocate memory, for a list, a text or an array"
    return f"{place}: kernel {kernel.__name__!r} does not compile: {reason}"


def _add_entry(made: Any) -> None:
    """Add the function that callers use; it has the calling convention of C instead of that of Numba.

    After an exception it tells :func:`_raised` and returns 0.
    """
    context, inside = made.target_context, made.fndesc
    module = context.create_module("entry")
    kind = context.call_conv.get_function_type(inside.restype, inside.argtypes)
    callee = ir.Function(module, kind, inside.llvm_func_name)
    entry = ir.Function(module, _function_type(context, made.signature), inside.llvm_cfunc_wrapper_name)
    builder = ir.IRBuilder(entry.append_basic_block())
    status, result = context.call_conv.call_function(builder, callee, inside.restype, inside.argtypes, entry.args)
    with builder.if_then(status.is_error, likely=False):  # a ``raise``, or an index out of bounds if they are checked
        python = context.get_python_api(builder)
        state = python.gil_ensure()
        context.call_conv.raise_error(builder, python, status)
        cells = [cgutils.alloca_once(builder, python.pyobj) for _ in range(3)]
        python.err_fetch(*cells)
        parts = [builder.load(cell) for cell in cells]
        keeper = ir.Function(module, ir.FunctionType(ir.VoidType(), [python.pyobj] * 3), _KEEPER)
        builder.call(keeper, parts)
        for part in parts:
            python.decref(part)
        python.gil_release(state)
        builder.ret(ir.Constant(entry.ftype.return_type, None))
    builder.ret(result)
    made.library.add_ir_module(module)


def _kept(path: Path) -> Any:
    """Read machine code from ``path``; None if the file is missing, damaged or not to be trusted."""
    content = _trusted(path)
    try:
        return content and CompileResult._rebuild(cpu_target.target_context, *pickle.loads(content))
    except (EOFError, pickle.UnpicklingError, ImportError, AttributeError):
        return None


def _trusted(path: Path) -> bytes | None:
    """Return the content of a file of the cache, a pickle; None if another user may have written it, or it is damaged.

    A pickle can run code. So the file must belong to this user or to root, nobody else may be able to write it, and it
    must begin with the SHA-256 of its name and content: a file under the name of another one is refused, too.
    """
    try:
        with open(path, "rb", opener=_open_at_once) as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                return None
            if os.name == "posix" and (status.st_uid not in (os.geteuid(), 0) or status.st_mode & 0o022):
                return None
            digest, content = file.read(hashlib.sha256().digest_size), file.read()
    except OSError:
        return None
    return content if digest == _digest_of(path, content) else None


def _open_at_once(name: str, flags: int) -> int:
    """Open a file without waiting for a writer, as a pipe in its place would."""
    return os.open(name, flags | getattr(os, "O_NONBLOCK", 0))


def _digest_of(path: Path, content: bytes) -> bytes:
    return hashlib.sha256(path.name.encode() + b"\0" + content).digest()


def _keep(path: Path, made: Any) -> None:
    """Write machine code for later processes, atomically; errors of the file system are ignored.

    Machine code of other versions of the kernel is deleted if no process has read it for ``_LONG_S``.
    """
    content = pickle.dumps(made._reduce())
    with contextlib.suppress(OSError, GpuschedError):
        with whole(path) as partial, partial.open("xb") as file:
            file.write(_digest_of(path, content) + content)
            if os.name == "posix":  # in a container image, root may compile the kernels and a user run them
                os.fchmod(file.fileno(), 0o644)
        for old in path.parent.glob(f"*{path.name.rpartition('-')[0]}-*"):
            if time.time() - old.stat().st_atime > _LONG_S:
                old.unlink()


def _load_now(number: int) -> None:
    """Load a kernel for its stub. Ctrl-C is deferred, because exceptions cannot propagate through machine code."""
    interrupts: list[Any] = []
    before = signal.getsignal(signal.SIGINT) if threading.current_thread() is threading.main_thread() else None
    if before is not None:
        signal.signal(signal.SIGINT, lambda *_: interrupts.append(1))
    try:
        if number not in _lost:
            _kernels[number].load()
    except BaseException as error:
        _lost[number] = error
        _hopeless[number] = 1
    if number in _lost:
        _raise_later(_lost[number])
    if before is not None:
        signal.signal(signal.SIGINT, before)
    if interrupts:
        threading.Timer(0.0, _thread.interrupt_main).start()


_loader: Final = ctypes.CFUNCTYPE(None, ctypes.c_int64)(_load_now)  # for calls from machine code


def _make_stub(kernel: Kernel) -> Any:
    """Create the stub of a kernel, a function that loads the kernel if necessary and then calls it.

    When the loader has returned, the stub reads the address of the kernel again. If it is still 0, the kernel cannot be
    loaded, and the stub returns 0, or the loader must be called again. The latter happens after Ctrl-C: Python raises a
    pending KeyboardInterrupt on entry to the loader, before the loader has done anything.
    """
    context, word = cpu_target.target_context, ir.IntType(64)
    kind, name = _function_type(context, kernel.signature), f"{kernel.symbol}.stub"
    module = ir.Module(name=name)
    function = ir.Function(module, kind, name=name)
    begin, look, load, call, fail = map(function.append_basic_block, ("begin", "look", "load", "call", "fail"))
    builder = ir.IRBuilder(begin)
    cell, hopeless = (
        builder.inttoptr(word(int(cells[kernel.number :].ctypes.data)), word.as_pointer())
        for cells in (_addresses, _hopeless)
    )
    builder.branch(look)
    builder.position_at_end(look)
    found = builder.load(cell)
    builder.cbranch(builder.icmp_signed("==", found, word(0)), load, call)
    builder.position_at_end(load)
    loader = ir.FunctionType(ir.VoidType(), [word]).as_pointer()
    address = ctypes.cast(_loader, ctypes.c_void_p).value
    builder.call(builder.inttoptr(word(address), loader), [word(kernel.number)])
    builder.cbranch(builder.icmp_signed("==", builder.load(hopeless), word(0)), look, fail)
    builder.position_at_end(fail)
    builder.ret(ir.Constant(kind.return_type, None))
    builder.position_at_end(call)
    builder.ret(builder.call(builder.inttoptr(found, kind.as_pointer()), function.args, tail=True))
    library = context.codegen().create_library(name)
    library.add_ir_module(module)
    library.finalize()
    return library


@overload
def kernel(function: Function, /) -> Function: ...


@overload
def kernel(*, lazy: bool) -> Callable[[Function], Function]: ...


def kernel(function: Any = None, *, lazy: bool = False) -> Any:
    """Turn a function into a kernel; ``lazy``: compile it when it is first called, not with its callers."""
    return (lambda f: Kernel(f, lazy)) if function is None else Kernel(function, lazy)


def handle_at(cls: type[Handle]) -> Callable[[int], Any]:
    """Return a function with which kernels turn an address (int64) into a handle of class ``cls``."""

    @intrinsic  # type: ignore[untyped-decorator]
    def look_up(_: Any, address: Any) -> Any:
        def lower(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return arguments[0]

        return HandleType(cls)(types.int64), lower

    return look_up


def plain(function: Function) -> Function:
    """Make a plain Python function callable from kernels by its name."""
    return register_jitable(**_OPTIONS)(function)


def helper(function: Function) -> Function:
    """Mark a function that only kernels and helpers call; it is inlined into each caller."""
    return numba.njit(forceinline=True, no_cfunc_wrapper=True, **_OPTIONS)(function)


def bound(kernel: Any, *arguments: Any, reaches: Sequence[Handle] = ()) -> Callable[[], Any]:
    """Return a function that calls a kernel with these arguments, twice as fast as the kernel itself is called.

    The arguments are converted to those of C only here.

    Parameters
    ----------
    reaches : handles of which the kernel gets only addresses; after an error, they are marked like its arguments
    """
    entry = kernel.entry
    plain = [value.address if isinstance(value, Handle) else value for value in arguments]
    converted = tuple(kind(value) for kind, value in zip(entry.argtypes, plain, strict=True))

    def call() -> Any:
        result = entry(*converted)
        if _waiting:
            _raise_waiting((*arguments, *reaches))
        return result

    return call


def set_listener(function: Callable[[int, int, str], None]) -> None:
    """Set the function that the compiler calls to report progress.

    Parameters
    ----------
    function : called with (number of kernels done, number of kernels to compile, name of the next kernel)
    """
    global _listener
    _listener = function


def all_kernels() -> list[Kernel]:
    """List the kernels of all imported modules."""
    return _kernels
