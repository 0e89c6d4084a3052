"""A plugin of the type checker: no number of the library depends on the caller's decimal context.

The operators of a Decimal, and its functions that round, work in whatever context is current. In `src/dpledger` they
are therefore allowed in three places only:

* in the body of `with localcontext(context)`, for a context made by `decimals.own_context`;
* in a function marked `decimals.in_own_context`, which in its turn may be called in these places only;
* with the context handed over: `x.sqrt(context)`, `context.divide(x, y)`.

A float may not meet a Decimal in a comparison or in `Decimal(...)` (a context may trap that: `Decimal.from_float`), and
nothing reads or changes the current context. Types decide, so that no operator is missed because its operands look like
something else. Where the checker tries one signature after another (`1 - x`, `sum`), it then says that none fits. What
only a run can show is in tests/test_hostile_surroundings.py.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Callable
from pathlib import Path

from mypy.nodes import Expression
from mypy.plugin import FunctionContext, MethodContext, Plugin
from mypy.types import Instance, Type, UnionType, get_proper_type

RULED = "src/dpledger/"
MAKER = "src/dpledger/decimals.py"
OPERATORS = frozenset(
    f"__{name}__"
    for operator in ("add", "sub", "mul", "truediv", "floordiv", "mod", "divmod", "pow")
    for name in (operator, f"r{operator}")
) | {"__neg__", "__pos__", "__abs__"}
COMPARISONS = frozenset({"__lt__", "__le__", "__gt__", "__ge__", "__eq__", "__ne__"})
ROUNDING = frozenset(
    {"exp", "fma", "ln", "log10", "next_minus", "next_plus", "normalize", "quantize", "scaleb", "sqrt"}
    | {"to_integral", "to_integral_exact", "to_integral_value"}
)
OPERANDS = {"quantize": 1, "scaleb": 1, "fma": 2}
"""Arguments of a function that are numbers; after them a context, or what stands for it, may follow."""
CONTEXTS = frozenset({"Context", "getcontext", "setcontext"})


@functools.cache
def _own_lines(path: str) -> tuple[range, ...]:
    """The lines in which a module has set a context of its own."""
    found = []
    for node in ast.walk(ast.parse(Path(path).read_text())):
        match node:
            case ast.With() if any(_sets_a_context(item.context_expr) for item in node.items):
                found.append(range(node.body[0].lineno, (node.end_lineno or 0) + 1))
            case ast.FunctionDef() if _is_marked(node):
                found.append(range(node.lineno, (node.end_lineno or 0) + 1))
            case _:
                pass
    return tuple(found)


def _sets_a_context(expression: ast.expr) -> bool:
    match expression:
        case ast.Call(func=ast.Name(id="localcontext"), args=[_], keywords=[]):
            return True
        case _:
            return False


def _is_marked(function: ast.FunctionDef) -> bool:
    return any(ast.unparse(mark).split(".")[-1] == "in_own_context" for mark in function.decorator_list)


@functools.cache
def _marked() -> frozenset[str]:
    """The full names of the functions that compute in the context of their caller."""
    root = Path(RULED)
    names = set()
    for path in root.rglob("*.py"):
        text = path.read_text()
        if "in_own_context" in text:
            module = ".".join(("dpledger", *path.relative_to(root).with_suffix("").parts))
            functions = (node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef))
            names |= {f"{module}.{node.name}" for node in functions if _is_marked(node)}
    return frozenset(names)


def _is(type_: Type, name: str) -> bool:
    proper = get_proper_type(type_)
    members = proper.items if isinstance(proper, UnionType) else [proper]
    instances = (get_proper_type(member) for member in members)
    return any(isinstance(one, Instance) and one.type.fullname == name for one in instances)


def _allowed(ctx: FunctionContext | MethodContext) -> bool:
    path = ctx.api.path.replace("\\", "/")
    return RULED not in path or any(ctx.context.line in lines for lines in _own_lines(ctx.api.path))


def _refuse(ctx: FunctionContext | MethodContext, what: str) -> None:
    ctx.api.fail(f"{what} depends on the caller's decimal context", ctx.context)


class DecimalContexts(Plugin):
    """Hooks on every operator and function that may ask the current context."""

    def get_method_hook(self, fullname: str) -> Callable[[MethodContext], Type] | None:
        """What the checker calls for `x + y`, `-x` and `x.sqrt()`."""
        owner, _, name = fullname.rpartition(".")
        if owner not in ("decimal.Decimal", "_decimal.Decimal"):
            return None
        if name in OPERATORS:
            return _operator
        if name in ROUNDING:
            return functools.partial(_rounding, given=OPERANDS.get(name, 0))
        return _comparison if name in COMPARISONS else None

    def get_function_hook(self, fullname: str) -> Callable[[FunctionContext], Type] | None:
        """What the checker calls for `Decimal(x)`, `abs(x)`, `localcontext()` and calls of marked functions."""
        owner, _, name = fullname.rpartition(".")
        if fullname in ("builtins.sum", "builtins.abs"):
            return _built_in
        if owner in ("decimal", "_decimal") and name == "Decimal":
            return _made
        if owner in ("decimal", "_decimal") and name in CONTEXTS:
            return _context
        if owner in ("decimal", "_decimal") and name == "localcontext":
            return _local
        return _marked_call if fullname in _marked() else None


def _operator(ctx: MethodContext) -> Type:
    if not _allowed(ctx):
        _refuse(ctx, "an operator on decimals")
    return ctx.default_return_type


def _rounding(ctx: MethodContext, given: int) -> Type:
    if not any(ctx.args[given:]) and not _allowed(ctx):
        _refuse(ctx, "a function that rounds decimals")
    return ctx.default_return_type


def _comparison(ctx: MethodContext) -> Type:
    if RULED in ctx.api.path and any(_is(one, "builtins.float") for types in ctx.arg_types for one in types):
        _refuse(ctx, "a comparison of a decimal with a float")
    return ctx.default_return_type


def _made(ctx: FunctionContext) -> Type:
    if RULED in ctx.api.path and any(_is(one, "builtins.float") for one in ctx.arg_types[0]):
        _refuse(ctx, "a decimal from a float that is not made by from_float")
    return ctx.default_return_type


def _built_in(ctx: FunctionContext) -> Type:
    if _is(ctx.default_return_type, "decimal.Decimal") and not _allowed(ctx):
        _refuse(ctx, "a sum or absolute value of decimals")
    return ctx.default_return_type


def _context(ctx: FunctionContext) -> Type:
    if RULED in ctx.api.path and MAKER not in ctx.api.path:
        _refuse(ctx, "a context that is not made by own_context")
    return ctx.default_return_type


def _local(ctx: FunctionContext) -> Type:
    given: list[Expression] = [one for arguments in ctx.args for one in arguments]
    if RULED in ctx.api.path and (len(given) != 1 or ctx.arg_names[0] != [None]):
        _refuse(ctx, "a local context that begins as a copy of the current one")
    return ctx.default_return_type


def _marked_call(ctx: FunctionContext) -> Type:
    if not _allowed(ctx):
        _refuse(ctx, "a call of what computes in its caller's context")
    return ctx.default_return_type


def plugin(_version: str) -> type[Plugin]:
    """What the type checker asks a plugin for."""
    return DecimalContexts
