"""Kernels that take one handle to all arrays of a run, and link to each other by name.

This is the only file that knows how Numba works inside. What the others need to know:

* A class derived from :class:`Handle` lists arrays. ``sim.jobs[row]`` reads the same in compiled code and in plain Python.
* ``@kernel`` compiles a function by its annotations: ``int``, ``float``, ``bool``, handles, and tuples of them as result.
  Each kernel is compiled alone, once, when it is first needed; it calls others by their names. ``@kernel(lazy=True)`` waits
  for its first call: what a scenario never does is never compiled.
* ``@helper`` is for the few lines that are worth copying into each of their callers.

The address of a handle is that of a table of words: for each array its address, then its lengths. Machine code is kept on
disk under a name made of all that it depends on: its own bytecode, the constants and helpers that it reads, the layouts
of its handles. With ``NUMBA_DISABLE_JIT=1`` kernels are the plain functions and handles plain objects.
"""

from __future__ import annotations

import _thread
import contextlib
import ctypes
import hashlib
import itertools
import math
import operator
import os
import pickle
import shutil
import signal
import sys
import tempfile
import threading
import time
import traceback
import typing
from collections.abc import Callable, Iterator, Mapping
from functools import cache, cached_property, partial
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any, ClassVar, Final, NamedTuple, Self, TypeVar
from weakref import WeakValueDictionary

import numba
import numpy as np
import platformdirs

Function = TypeVar("Function", bound=Callable[..., Any])

_LONG_S: Final = 30 * 86_400.0
# Told of compiling: how many kernels are done, of how many, and which comes next; upper layers set it.
listener: Callable[[int, int, str], None] = lambda done, missing, name: None  # noqa: E731

INTERPRETED: Final = bool(numba.config.DISABLE_JIT)  # type: ignore[attr-defined]
# Kernels never allocate, so reference counting of arrays is pure cost. Floating-point stays strict: results must be
# bit-equal to plain Python.
_OPTIONS: Final[dict[str, Any]] = {"nogil": True, "_nrt": False, "error_model": "numpy"}
_LINE: Final = 64  # [byte] of the caches


class Field(NamedTuple):
    """An array of a handle.

    Parameters
    ----------
    dtype : of its elements
    axes : names of its axes, which are those of sizes; none = one record
    fill : what its elements are at the beginning
    """

    dtype: np.dtype[Any]
    axes: tuple[str, ...] = ()
    fill: Any = 0


def array(dtype: Any, *axes: str, fill: Any = 0) -> Any:
    """Declare an array of a handle: see :class:`Field`."""
    return Field(np.dtype(dtype), axes, fill)


class Handle:
    """Arrays by name, as kernels take them; derive a class and list them with :func:`array`.

    The arrays must be C-contiguous, and are kept. The handle holds as long as this object does.

    Raises
    ------
    TypeError : an array is missing, not contiguous, or of another type or number of axes
    """

    fields: ClassVar[dict[str, Field]]
    _words: ClassVar[dict[str, int]]  # number of the first word of each array
    _length: ClassVar[int]

    def __init_subclass__(cls) -> None:
        """List the arrays, those of base classes first, and number the words of the table."""
        inherited = dict(getattr(cls, "fields", {}))
        cls.fields = inherited | {name: value for name, value in vars(cls).items() if isinstance(value, Field)}
        cls._words, cls._length = {}, 0
        for name, field in cls.fields.items():
            cls._words[name] = cls._length
            cls._length += 1 + len(field.axes)

    def __init__(self, **arrays: Any) -> None:
        if arrays.keys() != self.fields.keys():
            raise TypeError(f"{type(self).__name__}: give {sorted(self.fields)}, not {sorted(arrays)}")
        self._arrays: dict[str, np.ndarray] = {}
        self._table = np.zeros(self._length, np.int64)
        self.address = int(self._table.ctypes.data)
        self.parameter = self._as_parameter_ = self if INTERPRETED else self.address  # as kernels take it
        _handles[self.address] = self
        for name, value in arrays.items():
            self.replace(name, value)

    def replace(self, name: str, value: Any) -> None:
        """Go on with another array in the place of ``name``."""
        field, at = self.fields[name], self._words[name]
        if not isinstance(value, np.ndarray):
            raise TypeError(f"{type(self).__name__}.{name}: a {type(value).__name__} is no array")
        if value.dtype != field.dtype or value.ndim != len(field.axes) or not value.flags.c_contiguous:
            raise TypeError(
                f"{type(self).__name__}.{name}: {value.dtype} {value.shape} is not a contiguous {field.dtype} of "
                f"{len(field.axes)} axes"
            )
        self._table[at] = value.__array_interface__["data"][0]
        self._table[at + 1 : at + 1 + value.ndim] = value.shape
        self._arrays[name] = value
        setattr(self, name, value if field.axes else value[()])

    def copy(self) -> Self:
        """Copy all arrays."""
        return type(self)(**{name: value.copy() for name, value in self._arrays.items()})

    def copy_from(self, other: Self) -> None:
        """Write the numbers of another handle of the same lengths into the own arrays."""
        for name, value in other._arrays.items():
            np.copyto(self._arrays[name], value)

    def __reduce__(self) -> tuple[Any, ...]:
        """Copy the arrays: a copy has a table of its own."""
        return _made, (type(self), self._arrays)


def _made(cls: type[Handle], arrays: dict[str, np.ndarray]) -> Handle:
    return cls(**arrays)


class Batched:
    """The arrays of many handles of one kind, each with an axis more than the kind tells.

    Parameters
    ----------
    kind : of the handles
    batch : number of handles
    sizes : length of each axis
    shared : arrays that are the same for all handles, and have no axis more
    """

    def __init__(self, kind: type[Handle], batch: int, sizes: Mapping[str, int], **shared: np.ndarray) -> None:
        self.kind, self.batch, self.shared = kind, batch, shared
        for name, field in kind.fields.items():
            if name not in shared:
                shape = (batch, *(sizes[axis] for axis in field.axes))
                setattr(self, name, _aligned(shape, field.dtype))
                if field.fill:
                    getattr(self, name)[:] = field.fill

    if typing.TYPE_CHECKING:

        def __getattr__(self, name: str) -> np.ndarray: ...

    @property
    def own(self) -> list[str]:
        """Names of the arrays that are not shared."""
        return [name for name in self.kind.fields if name not in self.shared]

    def handle(self, b: int) -> Any:
        """Give number ``b`` of the handles."""
        arrays = {name: getattr(self, name) for name in self.own}
        rows = {name: array[b : b + 1].reshape(array.shape[1:]) for name, array in arrays.items()}
        return self.kind(**rows, **self.shared)


def _aligned(shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray:
    """Lay out zeros from the beginning of a line of the caches."""
    length = math.prod(shape) * dtype.itemsize
    raw = np.zeros(length + _LINE, np.uint8)
    first = -raw.ctypes.data % _LINE
    return raw[first : first + length].view(dtype).reshape(shape)


_handles: Final[WeakValueDictionary[int, Handle]] = WeakValueDictionary()  # by address


def _types_of(function: Any) -> tuple[list[Any], Any]:
    """Give Python's types of parameters and result."""
    hints = typing.get_type_hints(function)
    result = hints.pop("return")
    return [hints[name] for name in function.__code__.co_varnames[: function.__code__.co_argcount]], result


if INTERPRETED:

    def kernel(function: Any = None, *, lazy: bool = False) -> Any:
        """Leave a function as it is: kernels are not compiled (``NUMBA_DISABLE_JIT``)."""
        if function is None:
            return kernel
        function.entry = function
        return function

    def helper(function: Function) -> Function:
        """Leave a function as it is."""
        return function

    def plain(function: Function) -> Function:
        """Leave a function as it is."""
        return function

    def handle_at(cls: type[Handle]) -> Any:
        """Make the function by which kernels look a handle up by its address, an int64."""
        return lambda address: _handles[int(address)]

    kernels: list[Any] = []

    def cache_folder() -> Path | None:
        """Give the folder of the machine code: there is none."""
        return None

    class Numbered:
        """Functions of one signature that kernels call by number: ``these(number, ...)``."""

        def __init__(self, name: str, signature: Any, most: int) -> None:
            self.name, self.most = name, most
            self._functions: dict[int, Any] = {}

        def put(self, number: int, function: Any) -> None:
            """Give a function a number."""
            self._functions[number] = function

        def __call__(self, number: int, *arguments: Any) -> Any:
            """Call one."""
            return self._functions[number](*arguments)

else:
    import llvmlite.binding as llvm
    from filelock import FileLock
    from llvmlite import ir
    from numba.core import cgutils, types
    from numba.core.compiler import Compiler, CompileResult
    from numba.core.compiler_lock import global_compiler_lock
    from numba.core.dispatcher import _FunctionCompiler
    from numba.core.extending import intrinsic, models, register_jitable, register_model, typeof_impl
    from numba.core.imputils import lower_builtin, lower_getattr_generic
    from numba.core.registry import cpu_target
    from numba.core.typing.templates import AttributeTemplate, ConcreteTemplate, infer_getattr
    from numba.np.arrayobj import getitem_array_tuple, make_array, populate_array, setitem_array

    class HandleType(types.Type):  # type: ignore[misc]
        """Numba's type of a handle."""

        def __init__(self, handle: type[Handle]) -> None:
            self.handle = handle
            super().__init__(f"Handle({handle.__module__}.{handle.__qualname__})")

    @register_model(HandleType)
    class HandleModel(models.PrimitiveModel):  # type: ignore[misc]
        """A handle is the address of its table."""

        def __init__(self, manager: Any, kind: Any) -> None:
            super().__init__(manager, kind, manager.lookup(types.intp).get_value_type())

    class Rows(types.Array):  # type: ignore[misc]
        """An array of a handle. No index counts from its end, so that no access looks at a sign."""

        def __init__(self, dtype: Any, axes: int) -> None:
            super().__init__(dtype, axes, "C", name=f"Rows({dtype}, {axes})")

    register_model(Rows)(models.ArrayModel)

    def _unsigned(context: Any, builder: Any, kind: Any, index: Any) -> tuple[Any, Any]:
        """Lower: an index, or a tuple of them, as one in which no integer has a sign."""
        kinds = kind.types if isinstance(kind, types.BaseTuple) else (kind,)
        parts = cgutils.unpack_tuple(builder, index) if isinstance(kind, types.BaseTuple) else [index]
        unsigned = types.Tuple([types.uintp if isinstance(one, types.Integer) else one for one in kinds])
        cast = [
            context.cast(builder, part, one, types.intp) if isinstance(one, types.Integer) else part
            for one, part in zip(kinds, parts, strict=True)
        ]
        return unsigned, context.make_tuple(builder, unsigned, cast)

    def _get(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kind, index = _unsigned(context, builder, signature.args[1], arguments[1])
        wanted = signature.return_type(signature.args[0], kind)
        return getitem_array_tuple(context, builder, wanted, (arguments[0], index))

    def _set(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kind, index = _unsigned(context, builder, signature.args[1], arguments[1])
        wanted = signature.return_type(signature.args[0], kind, signature.args[2])
        return setitem_array(context, builder, wanted, (arguments[0], index, arguments[2]))

    for _index in (types.Integer, types.BaseTuple):
        lower_builtin(operator.getitem, Rows, _index)(_get)
    lower_builtin(operator.setitem, Rows, types.Any, types.Any)(_set)

    @infer_getattr
    class HandleAttributes(AttributeTemplate):  # type: ignore[misc]
        """Types of the arrays of a handle."""

        key = HandleType

        def generic_resolve(self, kind: Any, name: str) -> Any:
            field = kind.handle.fields.get(name)
            if field is None:
                return None
            element = _element(field.dtype)
            return Rows(element, len(field.axes)) if field.axes else element

    _elements: dict[np.dtype[Any], Any] = {}

    def _element(dtype: np.dtype[Any]) -> Any:
        """Give Numba's type of an element; found once, as it looks at each field."""
        if dtype not in _elements:
            _elements[dtype] = numba.from_dtype(dtype)
        return _elements[dtype]

    @lower_getattr_generic(HandleType)
    def _lower_array(context: Any, builder: Any, kind: Any, table: Any, name: str) -> Any:
        """Read the address and the lengths of an array from the table; they do not change while a kernel runs."""
        field, first = kind.handle.fields[name], kind.handle._words[name]
        words = builder.inttoptr(table, context.get_value_type(types.intp).as_pointer())

        def word(number: int) -> Any:
            read = builder.load(builder.gep(words, [context.get_constant(types.intp, number)]))
            read.set_metadata("invariant.load", builder.module.add_metadata([]))
            return read

        element = _element(field.dtype)
        if not field.axes:
            return builder.inttoptr(word(first), context.get_value_type(element))
        whole = make_array(Rows(element, len(field.axes)))(context, builder)
        size = context.get_constant(types.intp, context.get_abi_sizeof(context.get_data_type(element)))
        shape = [word(first + 1 + axis) for axis in range(len(field.axes))]
        strides = [size]
        for length in shape[:0:-1]:
            strides.insert(0, builder.mul(strides[0], length))
        data = builder.inttoptr(word(first), whole.data.type)
        populate_array(whole, data=data, shape=shape, strides=strides, itemsize=size, meminfo=None, parent=None)
        return whole._getvalue()

    _LIBRARIES: Final = (np, math)  # of which Numba knows the functions
    _PLAIN: Final = {int: types.int64, float: types.float64, bool: types.boolean, type(None): types.void}
    _C: Final = {int: ctypes.c_int64, float: ctypes.c_double, bool: ctypes.c_bool, type(None): None}

    def _numba_type(hint: Any) -> Any:
        if typing.get_origin(hint) is tuple:
            return types.Tuple([_numba_type(part) for part in typing.get_args(hint)])
        if isinstance(hint, type) and issubclass(hint, Handle):
            return HandleType(hint)
        return _PLAIN[hint]

    kernels: list[Kernel] = []  # by number
    _addresses: Final = np.zeros(4096, np.int64)  # of each, once it is compiled

    class Kernel:
        """A function that is compiled when it is first needed; called from Python and, by its name, from kernels."""

        def __init__(self, function: Any, lazy: bool) -> None:
            if free := function.__code__.co_freevars:
                raise TypeError(f"{function.__qualname__}: kernels read names of their module alone, not local {free}")
            self.function, self.lazy = function, lazy
            self.__name__, self.__doc__, self.__module__ = function.__name__, function.__doc__, function.__module__
            self.__wrapped__ = function
            self.symbol = f"{function.__module__}.{function.__qualname__}"
            self.number = len(kernels)
            kernels.append(self)
            self._signature: Any = None
            self._entry: Any = None
            self._stub = 0

        def __call__(self, *arguments: Any) -> Any:
            """Call it from Python."""
            return (self._entry or self.entry)(*arguments)

        @property
        def entry(self) -> Any:
            """What Python calls: the machine code, whose handles are plain addresses."""
            if self._entry is None:
                self.load()
                hints, result = _types_of(self.function)
                kinds = [_C.get(hint, ctypes.c_int64) for hint in hints]
                self._entry = ctypes.CFUNCTYPE(_C[result], *kinds)(self.address)
            return self._entry

        @property
        def signature(self) -> Any:
            """Numba's types of parameters and result."""
            if self._signature is None:
                hints, result = _types_of(self.function)
                self._signature = _numba_type(result)(*map(_numba_type, hints))
            return self._signature

        @cached_property
        def callable(self) -> Any:
            """Numba's type of it, as kernels call it."""
            return _callable(self)

        @property
        def address(self) -> int:
            """Where the machine code is; 0 = not compiled yet."""
            return int(_addresses[self.number])

        @property
        def calls(self) -> list[Kernel]:
            """The kernels that it calls, also through helpers."""
            return [value for _, value in _reads(self.function) if isinstance(value, Kernel)]

        @global_compiler_lock
        def load(self) -> int:
            """Compile it, and all that it calls at once, or read it from disk; give its address."""
            if not self.address:
                wanted = list(self._closure())
                missing = [one for one in wanted if not one.is_kept]
                for one in wanted:
                    if missing and one in missing:
                        listener(len(missing) - sum(not m.address for m in missing), len(missing), one.__name__)
                    one._link()
                if missing:
                    listener(len(missing), len(missing), "")
            return self.address

        def _closure(self, seen: set[Kernel] | None = None) -> Iterator[Kernel]:
            """List what must be loaded with it: all that it calls at once, and that they call, the called ones first."""
            seen = set() if seen is None else seen
            seen.add(self)
            for callee in self.calls:
                if not (callee.lazy or callee.address or callee in seen):
                    yield from callee._closure(seen)
            yield self

        def _link(self) -> None:
            """Load it alone; what it calls later, or in a circle, it calls by a stub."""
            for _, value in _reads(self.function):
                if isinstance(value, Numbered):
                    value.link()
            for callee in self.calls:
                llvm.add_symbol(callee.symbol, callee.address or callee.stub)
            found = _machine_code(self)
            self.library = found.library  # the machine code lasts as long as this
            _addresses[self.number] = found.library.get_pointer_to_function(found.fndesc.llvm_cfunc_wrapper_name)

        @property
        def is_kept(self) -> bool:
            """Whether its machine code is on disk."""
            return self.path is not None and self.path.exists()

        @cached_property
        def path(self) -> Path | None:
            """Where its machine code is kept; None where nothing can be written."""
            folder = cache_folder()
            return None if folder is None else folder / f"{self.symbol}-{_key(self)}"

        @global_compiler_lock
        def compile_ahead(self) -> None:
            """Compile it for other processes, unless that is done; this process never calls it."""
            for callee in self.calls:
                llvm.add_symbol(callee.symbol, 1)
            _machine_code(self)

        @property
        def stub(self) -> int:
            """Address of a function that loads the kernel when it is first called, and calls it."""
            if not self._stub:
                self._stub_library = _make_stub(self)
                self._stub = int(self._stub_library.get_pointer_to_function(f"{self.symbol}.stub"))
            return self._stub

    @typeof_impl.register(Kernel)
    def _typeof_kernel(kernel: Kernel, _: Any) -> Any:
        return kernel.callable

    def _function_type(context: Any, signature: Any) -> Any:
        """Give LLVM's type of a kernel: as that of the C functions that Numba makes."""
        kinds = [context.get_value_type(kind) for kind in signature.args]
        return ir.FunctionType(context.get_value_type(signature.return_type), kinds)

    def _callable(kernel: Kernel) -> Any:
        """Make Numba's type of a kernel as its callers see it."""

        def lower(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            kind = _function_type(context, signature)
            return builder.call(cgutils.get_or_insert_function(builder.module, kind, kernel.symbol), arguments)

        lower_builtin(kernel, *kernel.signature.args)(lower)
        return types.Function(type(kernel.__name__, (ConcreteTemplate,), {"key": kernel, "cases": [kernel.signature]}))

    class Numbered:
        """Functions of one signature that kernels call by number: ``these(number, ...)``.

        Parameters
        ----------
        name : unique
        signature : a function with the annotations that all have
        most : how many there may be
        """

        def __init__(self, name: str, signature: Any, most: int) -> None:
            self.name, self.symbol, self.most = name, name, most
            self._hints, self._result = _types_of(signature)
            self.signature = _numba_type(self._result)(*map(_numba_type, self._hints))
            self._functions: dict[int, Any] = {}
            self._callbacks: list[Any] = []
            self._is_linked = False
            self._addresses = np.zeros(most, np.int64)
            llvm.add_symbol(self.name, self._addresses.ctypes.data)

        def put(self, number: int, function: Any) -> None:
            """Give a kernel, or a plain Python function, a number.

            Raises
            ------
            TypeError : a kernel of another signature, or too large a number
            """
            if number >= self.most:
                raise TypeError(f"{self.name}: {self.most} functions at most")
            if not isinstance(function, Kernel):
                kinds = [_C.get(hint, ctypes.c_int64) for hint in self._hints]
                back = ctypes.CFUNCTYPE(_C[self._result], *kinds)(partial(_called_back, function, self._hints))
                self._callbacks.append(back)
                self._addresses[number] = ctypes.cast(back, ctypes.c_void_p).value
            elif function.signature != self.signature:
                raise TypeError(f"{self.name}: {function.symbol} is {function.signature}, not {self.signature}")
            elif self._is_linked:
                self._addresses[number] = function.stub
            self._functions[number] = function

        def link(self) -> None:
            """Let kernels find all functions: each is compiled when it is first called."""
            self._is_linked = True
            for number, function in self._functions.items():
                if not self._addresses[number]:
                    self._addresses[number] = function.stub

        @cached_property
        def callable(self) -> Any:
            """Numba's type of it, as kernels call it."""

            def lower(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
                word = context.get_value_type(types.intp)
                table = builder.module.globals.get(self.name) or ir.GlobalVariable(builder.module, word, self.name)
                address = builder.load(builder.gep(table, [arguments[0]]))
                kind = _function_type(context, self.signature)
                return builder.call(builder.inttoptr(address, kind.as_pointer()), arguments[1:])

            signature = self.signature.return_type(types.int64, *self.signature.args)
            lower_builtin(self, *signature.args)(lower)
            return types.Function(type(self.name, (ConcreteTemplate,), {"key": self, "cases": [signature]}))

    def _called_back(function: Any, hints: Any, *arguments: Any) -> Any:
        """Call a plain Python function from a kernel."""
        return function(
            *(
                _handles[argument] if isinstance(hint, type) and issubclass(hint, Handle) else argument
                for hint, argument in zip(hints, arguments, strict=True)
            )
        )

    @typeof_impl.register(Numbered)
    def _typeof_numbered(numbered: Numbered, _: Any) -> Any:
        return numbered.callable

    def _reads(function: Any) -> Iterator[tuple[str, Any]]:
        """List the names that a function and the helpers that it calls read, of their modules or by ``module.name``."""
        seen, todo = set(), [function]
        while todo:
            one = todo.pop()
            codes = [one.__code__]
            while codes:
                code = codes.pop()
                codes += [part for part in code.co_consts if isinstance(part, CodeType)]
                modules = [one.__globals__.get(name) for name in code.co_names]
                names = [vars(module) for module in modules if isinstance(module, ModuleType) and module not in _LIBRARIES]
                for name, place in itertools.product(code.co_names, [one.__globals__, *names]):
                    if name in place:
                        value = place[name]
                        plain = getattr(value, "py_func", value)
                        if isinstance(plain, FunctionType) and plain not in seen:
                            seen.add(plain)
                            todo.append(plain)
                        yield name, value

    @cache
    def _machine() -> str:
        """Name the compiler, its settings and the processor."""
        settings = [getattr(numba.config, name) for name in ("CPU_NAME", "CPU_FEATURES", "BOUNDSCHECK", "OPT")]
        parts = (sys.version, numba.__version__, np.__version__, llvm.get_host_cpu_name(), *settings)
        return repr((parts, sorted(llvm.get_host_cpu_features().items())))

    def _key(kernel: Kernel) -> str:
        """Name all that the machine code of a kernel depends on."""
        digest = hashlib.sha256(f"{_machine()} {kernel.symbol} {kernel.signature}".encode())
        for hint in _types_of(kernel.function)[0]:
            if isinstance(hint, type) and issubclass(hint, Handle):
                digest.update(repr(hint.fields).encode())
        _add_code(digest, kernel.function)
        for name, value in _reads(kernel.function):
            plain = getattr(value, "py_func", value)
            if isinstance(value, Kernel | Numbered):
                digest.update(f"{name} {value.symbol} {value.signature}".encode())
            elif isinstance(plain, FunctionType):
                digest.update(f"{plain.__module__}.{plain.__qualname__}".encode())
                _add_code(digest, plain)
            elif not isinstance(value, ModuleType | type):
                digest.update(f"{name} {value!r}".encode())
        return digest.hexdigest()[:24]

    def _add_code(digest: Any, function: Any) -> None:
        codes = [function.__code__]
        while codes:
            code = codes.pop()
            parts = [part for part in code.co_consts if not isinstance(part, CodeType) and part != function.__doc__]
            digest.update(repr((code.co_code, code.co_names, parts)).encode())
            codes += [part for part in code.co_consts if isinstance(part, CodeType)]

    @cache
    def cache_folder() -> Path | None:
        """Give the folder of the machine code, without what older versions have left there; None = it cannot be written."""
        folder = Path(os.environ.get("NUMBA_CACHE_DIR") or platformdirs.user_cache_dir("gpusched_env"))
        try:
            (folder / "kernels").mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=folder / "kernels"):
                pass
        except OSError:
            return None
        for old in folder.glob("kernels-*"):
            shutil.rmtree(old, ignore_errors=True)
        return folder / "kernels"

    class _Compiler(_FunctionCompiler):  # type: ignore[misc]
        """Numba's compiler, without the entries that Numba makes for Python."""

        def _customize_flags(self, flags: Any) -> Any:
            flags.no_cpython_wrapper = flags.no_cfunc_wrapper = flags.no_compile = True
            flags.enable_pyobject = False
            return flags

    def _machine_code(kernel: Kernel) -> Any:
        """Read a kernel's machine code from disk, or compile it and keep it there; one process compiles, others wait."""
        if kernel.path is None:
            return _compiled(kernel)
        found = _kept(kernel.path)
        if found is None:
            with FileLock(kernel.path.with_name(f".{kernel.path.name}.lock")):
                found = _kept(kernel.path)
                if found is None:
                    found = _compiled(kernel)
                    _keep(kernel.path, found)
        return found

    def _compiled(kernel: Kernel) -> Any:
        compiler = _Compiler(kernel.function, cpu_target, _OPTIONS | {"forceinline": True}, {}, Compiler)
        made = compiler.compile(kernel.signature.args, kernel.signature.return_type)
        inside = made.fndesc.llvm_func_name
        _add_entry(made)
        made.library._final_module.get_function(inside).linkage = "internal"  # it is copied into the entry
        made.library.finalize()
        return made

    def _add_entry(made: Any) -> None:
        """Add the function by which others call a compiled one: as in C, without Numba's own conventions."""
        context, inside = made.target_context, made.fndesc
        module = context.create_module("entry")
        kind = context.call_conv.get_function_type(inside.restype, inside.argtypes)
        callee = ir.Function(module, kind, inside.llvm_func_name)
        entry = ir.Function(module, _function_type(context, made.signature), inside.llvm_cfunc_wrapper_name)
        builder = ir.IRBuilder(entry.append_basic_block())
        status, result = context.call_conv.call_function(builder, callee, inside.restype, inside.argtypes, entry.args)
        with builder.if_then(status.is_error, likely=False):  # an index out of bounds, where Numba checks them
            python = context.get_python_api(builder)
            state = python.gil_ensure()
            context.call_conv.raise_error(builder, python, status)
            name = python.string_from_string(context.insert_const_string(module, inside.qualname))
            python.err_write_unraisable(name)
            python.decref(name)
            python.gil_release(state)
        builder.ret(result)
        made.library.add_ir_module(module)

    def _kept(path: Path) -> Any:
        """Read compiled code; None where there is none, or not all of it."""
        try:
            return CompileResult._rebuild(cpu_target.target_context, *pickle.loads(path.read_bytes()))
        except (OSError, EOFError, pickle.UnpicklingError):
            return None

    def _keep(path: Path, made: Any) -> None:
        """Write compiled code for later processes, all or nothing; a full disk does no harm.

        What the same kernel was long ago goes: no version that is in use leaves its files unread for so long.
        """
        with contextlib.suppress(OSError):
            with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
                file.write(pickle.dumps(made._reduce()))
            os.replace(file.name, path)
            for old in path.parent.glob(f"*{path.name.rpartition('-')[0]}-*"):
                if time.time() - old.stat().st_atime > _LONG_S:
                    old.unlink()

    @ctypes.CFUNCTYPE(None, ctypes.c_int64)
    def _load_now(number: int) -> None:
        """Load a kernel that a stub has been called for; the kernels that called it cannot be left: Ctrl-C waits."""
        interrupts: list[Any] = []
        is_main = threading.current_thread() is threading.main_thread()
        before = signal.signal(signal.SIGINT, lambda *_: interrupts.append(1)) if is_main else None
        try:
            kernels[number].load()
        except BaseException:  # nothing could go on from here
            traceback.print_exc()
            os._exit(1)
        if is_main:
            signal.signal(signal.SIGINT, before)
        if interrupts:
            threading.Timer(0.0, _thread.interrupt_main).start()

    @global_compiler_lock
    def _make_stub(kernel: Kernel) -> Any:
        """Make the function that stands for a kernel until it is loaded: it has it loaded, and calls it."""
        context, word = cpu_target.target_context, ir.IntType(64)
        kind, name = _function_type(context, kernel.signature), f"{kernel.symbol}.stub"
        module = ir.Module(name=name)
        function = ir.Function(module, kind, name=name)
        builder = ir.IRBuilder(function.append_basic_block())
        cell = builder.inttoptr(word(int(_addresses[kernel.number :].ctypes.data)), word.as_pointer())
        with builder.if_then(builder.icmp_signed("==", builder.load(cell), word(0)), likely=False):
            load = ir.FunctionType(ir.VoidType(), [word]).as_pointer()
            address = ctypes.cast(_load_now, ctypes.c_void_p).value
            builder.call(builder.inttoptr(word(address), load), [word(kernel.number)])
        target = builder.inttoptr(builder.load(cell), kind.as_pointer())
        builder.ret(builder.call(target, function.args, tail=True))
        library = context.codegen().create_library(name)
        library.add_ir_module(module)
        library.finalize()
        return library

    def kernel(function: Any = None, *, lazy: bool = False) -> Any:
        """Make a kernel of a function; see the top of this file."""
        return (lambda f: Kernel(f, lazy)) if function is None else Kernel(function, lazy)

    def handle_at(cls: type[Handle]) -> Any:
        """Make the function by which kernels look a handle up by its address, an int64."""

        @intrinsic
        def look_up(_: Any, address: Any) -> Any:
            def lower(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
                return arguments[0]

            return HandleType(cls)(types.int64), lower

        return look_up

    def plain(function: Function) -> Function:
        """Let kernels call a function by its name; Python calls it as it is."""
        return register_jitable(**_OPTIONS)(function)  # type: ignore[no-any-return]

    def helper(function: Function) -> Function:
        """Compile a function that only kernels call: it becomes part of each of them."""
        return numba.njit(forceinline=True, **_OPTIONS)(function)
