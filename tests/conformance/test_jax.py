# SPDX-License-Identifier: Apache-2.0
"""JAX: jit, grad, vmap, donation. Runs where JAX is (`make test-hosts`)."""

from __future__ import annotations

import concurrent.futures
import dataclasses
import json
import pathlib
import subprocess
import sys
from typing import Any

import pytest

jax = pytest.importorskip("jax", reason="JAX is not in this environment: "
                          "make test-hosts runs it in one that has it")

import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "docs"))
import docstrings  # noqa: E402

import build  # noqa: E402
import opgraft.jax  # noqa: E402

jax.config.update("jax_enable_x64", True)


@pytest.fixture(scope="module")
def scale(modules: pathlib.Path) -> Any:
    return opgraft.jax.load(modules / "scale.so")


@pytest.fixture(scope="module")
def kinds(modules: pathlib.Path) -> Any:
    return opgraft.jax.load(modules / "kinds.so")


@pytest.fixture(scope="module")
def basics(modules: pathlib.Path) -> Any:
    return opgraft.jax.load(modules / "basics.so")


def drawn(*shape: int, seed: int = 0) -> Any:
    return jnp.asarray(
        np.random.default_rng(seed).standard_normal(shape), jnp.float32)


@pytest.mark.parametrize("name", ["Module", "load"])
def test_jax_docstring(name: str, tmp_path: pathlib.Path,
                       monkeypatch: pytest.MonkeyPatch) -> None:
    docstrings.folder_fill(tmp_path, build.program(), "jax")
    monkeypatch.chdir(tmp_path)
    texts = {n: text for n, text, _ in docstrings.examples("jax")}
    assert docstrings.run("jax", name, texts[name], {
        "jax": jax, "jnp": jnp, "opgraft": opgraft}) == ""


def test_jit(scale: Any) -> None:
    x, w = drawn(3, 4), drawn(4)
    assert jnp.array_equal(jax.jit(scale.scale)(x, w), x * w)


def test_gradient(scale: Any) -> None:
    x, w = drawn(3, 4), drawn(4)
    ours = jax.grad(lambda x, w: jnp.sin(scale.scale(x, w)).sum(), (0, 1))(x, w)
    theirs = jax.grad(lambda x, w: jnp.sin(x * w).sum(), (0, 1))(x, w)
    for a, b in zip(ours, theirs):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


def test_gradient_by_finite_differences(basics: Any) -> None:
    x, y = (drawn(5, seed=s).astype(jnp.float64) for s in (1, 2))
    f = lambda x, y: (basics.scale_add(x, y, 0.25) ** 3).sum()  # noqa: E731
    gradient = jax.grad(f, (0, 1))(x, y)
    step = 1e-6
    for side in (0, 1):
        for i in range(5):
            delta = jnp.zeros(5).at[i].set(step)
            near = [f(*(v + s * delta if k == side else v
                        for k, v in enumerate((x, y)))) for s in (1, -1)]
            difference = (near[0] - near[1]) / (2 * step)
            assert abs(difference - gradient[side][i]) < 1e-6


def test_a_gradient_that_is_missing_is_an_error(basics: Any) -> None:
    with pytest.raises(TypeError, match="no_gradient: has no gradient"):
        jax.grad(lambda x: basics.no_gradient(x).sum())(drawn(3))
    zero = jax.grad(lambda x: basics.zero_gradient(x).sum())(drawn(3))
    assert not zero.any()


def test_vmap_of_a_pack_is_one_call(scale: Any) -> None:
    x, w = drawn(6, 3, 4), drawn(4)
    batched = jax.vmap(scale.scale, (0, None))
    assert jnp.array_equal(batched(x, w), x * w)
    text = jax.jit(batched).lower(x, w).as_text()
    assert text.count("custom_call @scale.scale") == 1 and "while" not in text
    moved = jax.vmap(scale.scale, (1, None), 1)(x, w)
    assert jnp.array_equal(moved, x * w)


def test_vmap_of_what_no_pack_takes_is_a_loop(scale: Any) -> None:
    x, w = drawn(6, 3, 4), drawn(6, 4)
    assert jnp.array_equal(jax.vmap(scale.scale)(x, w), x * w[:, None])
    assert jnp.array_equal(jax.vmap(scale.scale, (None, 0))(x[0], w),
                           x[0] * w[:, None])


def test_vmap_in_vmap(scale: Any) -> None:
    x, w = drawn(2, 5, 3, 4), drawn(5, 4)
    twice = jax.vmap(jax.vmap(scale.scale), (0, None))
    assert jnp.array_equal(twice(x, w), x * w[:, None])


def test_vmap_of_grad_and_grad_of_vmap(scale: Any) -> None:
    x, w = drawn(6, 3, 4), drawn(4)
    ours = jax.vmap(jax.grad(lambda x: (scale.scale(x, w) ** 2).sum()))(x)
    np.testing.assert_allclose(ours, 2 * x * w * w, rtol=1e-5)
    total = jax.grad(lambda w: (jax.vmap(scale.scale, (0, None))(x, w)).sum())(w)
    np.testing.assert_allclose(total, x.sum((0, 1)), rtol=1e-5)


def test_an_argument_that_is_written_is_donated(kinds: Any) -> None:
    cache, rows = drawn(8, 7), drawn(2, 7, seed=1)
    before = np.asarray(cache)
    wanted = before.copy()
    wanted[3:5] = np.asarray(rows)
    assert np.array_equal(kinds.put_rows_(cache, rows, 3), wanted)
    assert np.array_equal(cache, before)
    step = jax.jit(lambda c, r: kinds.put_rows_(c, r, 3), donate_argnums=0)
    given = cache + 0
    address = given.unsafe_buffer_pointer()
    out = step(given, rows)
    assert out.unsafe_buffer_pointer() == address
    assert np.array_equal(out, wanted)
    text = step.lower(cache, rows).compile().as_text()
    assert text.count("copy(") == 0


def test_a_written_argument_given_twice(basics: Any) -> None:
    a = drawn(4)
    total, first, second = basics.two_writes(a, a)
    assert jnp.array_equal(first, a + 1) and jnp.array_equal(second, a * 2)
    assert jnp.array_equal(total, first + second)


def any_call(kinds: Any, rng: np.random.Generator) -> None:
    """A call of a few kinds, each beside NumPy."""
    x, y = (rng.standard_normal((int(rng.integers(0, 3)), 3)).astype("f")
            for _ in range(2))
    y = x if x.shape != y.shape else y
    kind = rng.integers(4)
    if kind == 0:
        a = float(rng.choice((0.5, 2.0)))
        found, wanted = kinds.affine(x, y, a), x + np.float32(a) * y
    elif kind == 1:
        bias, scale = (rng.standard_normal(3).astype("f") if rng.integers(2)
                       else None for _ in range(2))
        x = np.ones((2, 3), "f")
        found = kinds.maybe(x, bias, scale)
        wanted = x * (1 if scale is None else scale) + (
            0 if bias is None else bias)
    elif kind == 2:
        cache, rows = np.zeros((4, 3), "f"), np.full((2, 3), x.size + 1, "f")
        at = int(rng.integers(3))
        found, wanted = kinds.put_rows_(cache, rows, at), cache.copy()
        wanted[at:at + 2] = rows
    else:
        sizes, text = [1, int(rng.integers(1, 3))], str(rng.choice(["a", "b"]))
        half = float(rng.choice((0.25, 0.75)))
        found = kinds.digest(x[:1].ravel(), sizes, [0.5, half], False, text)
        wanted = np.full(
            sizes, 3 * (sum(sizes) + 0.5 + half) + ord(text) + 16, "f")
    np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-6)


def test_calls_that_follow_each_other(kinds: Any) -> None:
    """What is kept from one call never shows in the next."""
    rng = np.random.default_rng(0)
    for _ in range(600):
        any_call(kinds, rng)


def test_calls_from_threads(kinds: Any) -> None:
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        for done in [pool.submit(lambda seed: [
                any_call(kinds, np.random.default_rng((seed, i)))
                for i in range(100)], seed) for seed in range(4)]:
            done.result()


def test_scan_carries_a_cache(kinds: Any) -> None:
    def step(cache: Any, rows: Any) -> Any:
        return kinds.put_rows_(cache, rows, 1), None

    cache, _ = jax.lax.scan(step, jnp.zeros((4, 3), jnp.float32),
                            drawn(5, 2, 3))
    assert jnp.array_equal(cache[1:3], drawn(5, 2, 3)[-1])


def test_zeros_of_either_sign_are_two_calls(kinds: Any) -> None:
    x = jnp.zeros(2, jnp.float32)
    for b in (0.0, -0.0):
        out = kinds.tilt(x, -0.0, b)
        assert np.signbit(out).all() == np.signbit(np.float32(-0.0 + b)).all()


def test_export_with_a_symbolic_batch(scale: Any, kinds: Any) -> None:
    from jax import export

    batch, = export.symbolic_shape("b")

    def model(x: Any, w: Any) -> Any:
        least, most = kinds.spread(scale.scale(x, w))
        return jnp.stack([least, most])

    checks = [export.DisabledSafetyCheck.custom_call(name)
              for name in ("scale.scale", "kinds.spread")]
    exported = export.export(jax.jit(model), disabled_checks=checks)(
        jax.ShapeDtypeStruct((batch, 4), jnp.float32),
        jax.ShapeDtypeStruct((4,), jnp.float32))
    assert exported.out_avals[0].shape == (2, batch)
    again = export.deserialize(exported.serialize())
    for n in (1, 5):
        x, w = drawn(n, 4), drawn(4)
        wanted = np.stack([(x * w).min(1), (x * w).max(1)])
        assert np.array_equal(again.call(x, w), wanted)
    with pytest.raises(Exception, match="scale: weight"):
        export.export(jax.jit(scale.scale), disabled_checks=checks)(
            jax.ShapeDtypeStruct((batch, 4), jnp.float32),
            jax.ShapeDtypeStruct((5,), jnp.float32))


def test_wrong_arguments(scale: Any, kinds: Any) -> None:
    x = drawn(3, 4)
    with pytest.raises(ValueError, match="scale: weight"):
        scale.scale(x, drawn(5))
    with pytest.raises(TypeError, match="weight is missing"):
        scale.scale(x)
    with pytest.raises(TypeError, match="has no argument 'bias'"):
        scale.scale(x, drawn(4), bias=1)
    with pytest.raises(TypeError, match="known when the call is traced"):
        jax.jit(kinds.tilt)(x, 0.5)
    with pytest.raises(AttributeError, match="has no operator 'scal'"):
        _ = scale.scal
    with pytest.raises(Exception, match="refuse: level is above 3"):
        jax.block_until_ready(kinds.refuse(x, 4))


def test_files_that_do_not_serve_jax(tmp_path: pathlib.Path) -> None:
    (tmp_path / "scale.c").write_text(build.scale_source())
    plain = build.module(tmp_path / "scale.c", tmp_path / "plain.so", "torch")
    with pytest.raises(ImportError, match="does not serve JAX; build it with"):
        opgraft.jax.load(plain)
    with pytest.raises(ImportError, match="missing.so: could not read"):
        opgraft.jax.load(tmp_path / "missing.so")


def test_wide_results_are_asked_for(modules: pathlib.Path) -> None:
    corners = opgraft.jax.load(modules / "corners.so")
    with jax.enable_x64(False):
        with pytest.raises(TypeError, match="tick: a result is int64.*jax_enable_x64"):
            corners.tick(jnp.ones(2))


def test_two_files_of_one_name(tmp_path: pathlib.Path, scale: Any) -> None:
    text = build.scale_source().replace(
        "x[i] * weight[i % call->dim[D]];", "x[i] - weight[i % call->dim[D]];")
    (tmp_path / "scale.c").write_text(text)
    other = opgraft.jax.load(
        build.module(tmp_path / "scale.c", tmp_path / "scale.so"))
    x, w = drawn(3, 4), drawn(4)
    assert jnp.array_equal(other.scale(x, w), x - w)
    assert jnp.array_equal(scale.scale(x, w), x * w)
    again = opgraft.jax.load(tmp_path / "scale.so")
    assert again is other


def test_a_path_whose_file_changed(tmp_path: pathlib.Path) -> None:
    """The dynamic loader gives the old object for a path that it knows."""
    text = build.scale_source()
    x, w = drawn(3, 4), drawn(4)
    for sign in "+-":
        (tmp_path / "own.c").write_text(text.replace(
            "x[i] * weight[i", f"x[i] {sign} weight[i"))
        path = build.module(tmp_path / "own.c", tmp_path / "own.so")
        y = opgraft.jax.load(path).scale(x, w)
        assert jnp.array_equal(y, x + w if sign == "+" else x - w)


def test_versions_of_jax(monkeypatch: pytest.MonkeyPatch,
                         modules: pathlib.Path) -> None:
    monkeypatch.setattr(jax, "__version_info__", (0, 7, 2))
    with pytest.raises(ImportError, match="needs JAX 0.8.1 or newer"):
        opgraft.jax.load(modules / "scale.so")


def test_structs_are_those_of_the_wheel(tmp_path: pathlib.Path) -> None:
    import jaxlib

    include = pathlib.Path(jaxlib.__file__).parent / "include"
    done = subprocess.run(
        ["g++", "-std=c++17", "-fsyntax-only", f"-I{include}",
         f"-I{build.ROOT / 'include'}", f"-I{build.ROOT / 'hosts'}",
         str(pathlib.Path(__file__).with_name("abi_jax.cpp"))],
        capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def limits(modules: pathlib.Path) -> Any:
    return opgraft.jax.load(modules / "limits.so")


def complex_drawn(seed: int) -> Any:
    return drawn(5, seed=seed) + 1j * drawn(5, seed=seed + 9)


def test_gradient_of_complex_numbers(limits: Any) -> None:
    """JAX's cotangents are the conjugates of PyTorch's gradients."""
    x, y = complex_drawn(1), complex_drawn(2)
    weight = complex_drawn(3)

    def loss(product: Any, x: Any, y: Any) -> Any:
        z = product(product(x, y), x) * weight
        return z.real.sum() + 3 * z.imag.sum()

    ours = jax.grad(lambda x, y: loss(limits.product, x, y), (0, 1))(x, y)
    theirs = jax.grad(lambda x, y: loss(jnp.multiply, x, y), (0, 1))(x, y)
    for a, b in zip(ours, theirs):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


def test_writes_that_are_not_offered(limits: Any) -> None:
    with pytest.raises(AttributeError, match="bump_ is not offered in JAX: a "
                       "tensor list is written"):
        _ = limits.bump_
    with pytest.raises(AttributeError, match="an optional argument is written"):
        _ = limits.touch


def test_random_calls_are_not_merged(modules: pathlib.Path) -> None:
    corners = opgraft.jax.load(modules / "corners.so")
    text = jax.jit(lambda x: corners.noise(x) + corners.noise(x)).lower(
        drawn(4)).compile().as_text()
    calls = [line for line in text.splitlines()
             if "custom-call(" in line and "corners.noise" in line]
    assert len(calls) == 2


def test_direct_calls_that_are_wrong(kinds: Any, modules: pathlib.Path) -> None:
    x = drawn(3)

    def call(name: str, *buffers: Any, **attributes: Any) -> Any:
        return jax.block_until_ready(jax.ffi.ffi_call(
            f"kinds.{name}", jax.ShapeDtypeStruct((3,), jnp.float32))(
                *buffers, **attributes))

    assert jnp.array_equal(call("affine", x, x, a=np.float64(1)), 2 * x)
    with pytest.raises(Exception, match="affine: has no attribute scale"):
        call("affine", x, x, scale=np.float64(1))
    with pytest.raises(Exception, match="affine: found 1 buffers, expected 2"):
        call("affine", x)
    given = {"opgraft.given": np.array([3, 1, 1, 1])}
    assert jnp.array_equal(call("total", x, x, x, **given), 3 * x)
    with pytest.raises(Exception, match="total: found 2 buffers, expected 3"):
        call("total", x, x, **given)
    with pytest.raises(Exception, match="maybe: found 2 entries of "
                       "opgraft.given, expected 3"):
        call("maybe", x, x, **{"opgraft.given": np.array([1, 1])})


def test_texts_of_a_list(limits: Any) -> None:
    x = drawn(4)
    assert limits.lengths(x, ["a", "bcd", ""]).tolist() == [1, 3, 0, -1]
    assert limits.lengths(x, []).tolist() == [-1] * 4
    with pytest.raises(TypeError, match="a text of a list has a newline"):
        limits.lengths(x, ["a\nb"])
    with pytest.raises(Exception, match="lengths: attribute texts is not a "
                       r"str\[\]"):
        jax.block_until_ready(jax.ffi.ffi_call(
            "limits.lengths", jax.ShapeDtypeStruct((4,), jnp.float32))(
                x, texts="a\nb"))


def test_types_by_name(kinds: Any) -> None:
    x = drawn(2)

    def call(kind: Any) -> Any:
        return kinds.digest(x, [1], [], False, kind=kind)

    for given in ("f32", "float32", np.float32, jnp.float32,
                  np.dtype("float32")):
        assert jnp.array_equal(call(given), call("f32"))
    for wrong in (jnp.float8_e4m3fnuz, "f33"):
        with pytest.raises(TypeError, match="digest: kind is .*"):
            call(wrong)
    with pytest.raises(TypeError, match="float8_e4m3fnuz is a type that no "
                       "declaration has"):
        call(jnp.float8_e4m3fnuz)


def test_lists_that_are_too_long(kinds: Any) -> None:
    x = drawn(2)
    with pytest.raises(Exception, match="attribute factors: the lists and "
                       "texts of a call have more than 4096 bytes"):
        jax.block_until_ready(kinds.digest(x, [1], [0.5] * 600, False))


def test_an_operator_that_is_missing(scale: Any) -> None:
    with pytest.raises(ValueError, match="scale: there is no operator 9"):
        scale._file.infer(9, [])


# --- opgraft gen --target stablehlo ---

F32 = np.float32
# Of each operator the arguments in Python and on the command line.
LOWERED: list[tuple[str, str, list[Any], dict[str, Any], list[str]]] = [
    ("scale", "scale", [drawn(3, 4), drawn(4)], {}, ["x=3,4", "weight=4"]),
    ("scale", "scale_backward", [drawn(2, 3), drawn(2, 3, seed=1), drawn(3)], {},
     ["grad=2,3", "x=2,3", "weight=3"]),
    ("kinds", "affine", [drawn(), drawn(seed=1)], {}, ["x=", "y="]),
    ("kinds", "affine", [drawn(5).astype(jnp.bfloat16)] * 2, {"a": 1e-7},
     ["x:bf16[5]", "y:bf16[5]", "a=1e-7"]),
    ("kinds", "affine", [drawn(2), drawn(2)], {"a": -np.inf},
     ["x=2", "y=2", "a=-inf"]),
    ("kinds", "twice", [jnp.arange(3, dtype=jnp.uint8)], {}, ["x:u8[3]"]),
    ("kinds", "twice", [jnp.arange(3, dtype=jnp.int64)], {}, ["x:i64[3]"]),
    ("kinds", "flip", [jnp.array([True, False])], {}, ["x:bool[2]"]),
    ("kinds", "spread", [drawn(3)], {}, ["x=3"]),
    ("kinds", "put_rows_", [drawn(6, 2), drawn(3, 2, seed=1), 2], {},
     ["cache=6,2", "rows=3,2", "at=2"]),
    ("kinds", "maybe", [drawn(3), None, drawn(3, seed=1)], {},
     ["x=3", "bias=none", "scale=3"]),
    ("kinds", "total", [[drawn(2), drawn(2, seed=1)]], {}, ["xs=2;2"]),
    ("kinds", "digest", [drawn(2), [3], [0.25, 1e300], True],
     {"text": 'a"b\\\n', "kind": "f64", "s": 2.5},
     ["x=2", "sizes=3", "factors=0.25,1e300", "flag=true", 'text=a"b\\\n',
      "kind=f64", "s=2.5"]),
    ("kinds", "digest", [drawn(2), [], [], False], {"more": 7},
     ["x=2", "sizes=", "factors=", "flag=false", "more=7"]),
    ("kinds", "pairs", [drawn(2), [True, False], [], [1, 2], [], [0.1], []], {},
     ["x=2", "a=true,false", "b=", "c=1,2", "d=", "e=0.1", "f="]),
]


def custom_call(text: str) -> tuple[Any, ...]:
    """The attributes and types of the only one in a module that is right."""
    from jax._src.interpreters import mlir
    from jaxlib.mlir import ir

    found: list[Any] = []

    def visit(op: Any) -> Any:
        if op.operation.name == "stablehlo.custom_call":
            named = op.operation.attributes
            found.append((
                {named[i].name: str(named[i].attr) for i in range(len(named))},
                [str(v.type) for v in op.operation.operands],
                [str(v.type) for v in op.operation.results]))
        return ir.WalkResult.ADVANCE

    with mlir.make_ir_context():
        module = ir.Module.parse(text)
        assert module.operation.verify()
        module.operation.walk(visit)
    assert len(found) == 1, text
    return tuple(found[0])


def portable(text: str) -> bytes:
    from jax._src.interpreters import mlir
    from jaxlib.mlir import ir
    from jaxlib.mlir.dialects import stablehlo

    with mlir.make_ir_context():
        return bytes(stablehlo.serialize_portable_artifact(
            ir.Module.parse(text), stablehlo.get_current_version()))


@pytest.mark.parametrize("module,op,args,kwargs,bindings", LOWERED, ids=[
    f"{op}-{i}" for i, (_, op, *_) in enumerate(LOWERED)])
def test_text_of_a_call(module: str, op: str, args: list[Any],
                        kwargs: dict[str, Any], bindings: list[str],
                        modules: pathlib.Path, request: Any) -> None:
    """It is the call that opgraft.jax makes, and XLA runs it."""
    path = modules / f"{module}.so"
    done = subprocess.run([build.program(), "gen", "--target", "stablehlo",
                           str(path), "--op", op, *bindings],
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    operator = getattr(request.getfixturevalue(module), op)
    arrays, tree = jax.tree.flatten(
        [a if isinstance(a, jax.Array) or (
            isinstance(a, list) and a and isinstance(a[0], jax.Array))
         else None for a in args])

    def call(*given: Any) -> Any:
        whole = jax.tree.unflatten(tree, given)
        return operator(*[w if w is not None else a
                          for w, a in zip(whole, args)], **kwargs)

    exported = jax.export.export(
        jax.jit(call), disabled_checks=[
            jax.export.DisabledSafetyCheck.custom_call(f"{module}.{op}")])(*arrays)
    theirs = custom_call(jax.jit(call).lower(*arrays).as_text())
    ours = custom_call(done.stdout)
    # A second file of one name has another; and JAX writes for older readers.
    theirs[0]["call_target_name"] = ours[0]["call_target_name"]
    theirs[0]["backend_config"] = theirs[0].pop("mhlo.backend_config")
    assert ours[0].pop("api_version") == "4 : i32"
    assert theirs[0].pop("api_version", "4 : i32") == "4 : i32"
    assert ours == theirs
    text = done.stdout.replace(f'@"{module}.{op}"', f'@"{operator.node}"')
    run = dataclasses.replace(exported, mlir_module_serialized=portable(text))
    for got, want in zip(jax.tree.leaves(run.call(*arrays)),
                         jax.tree.leaves(call(*arrays)), strict=True):
        assert np.asarray(got).tobytes() == np.asarray(want).tobytes()


def test_text_of_a_call_that_cannot_be(modules: pathlib.Path) -> None:
    def error(*words: str) -> str:
        done = subprocess.run([build.program(), "gen", "--target", "stablehlo",
                               *words], capture_output=True, text=True)
        assert done.returncode == 2 and not done.stdout
        return done.stderr

    scale = str(modules / "scale.so")
    assert "x is not given; add x=SIZES" in error(scale)
    assert "weight" in error(scale, "x=3,4", "weight=5")
    assert "has no argument 'y'" in error(scale, "x=3,4", "y=5")
    assert "which scale does not declare" in error(scale, "--op", "scales", "x=3")


# Of each call in devices_jax.py: how results are sharded, and what is sent.
# Nothing is gathered but a softmax's row that is cut, and what comes in uneven
# parts; a sum, its gradient's and a maximum are joined once.
SUM = {"all-reduce": 1}
ON_DEVICES: dict[str, tuple[list[list[Any]], dict[str, int]]] = {
    "rows": ([["data"]], {}),
    "rows by both": ([[["data", "model"]]], {}),
    "columns": ([[None, "model"]], {}),
    "rows and columns": ([["data", "model"]], {}),
    "contraction": ([[]], SUM),
    "rows and contraction": ([["data"]], SUM),
    "no bias": ([["data", "model"]], {}),
    "softmax of rows": ([["data"]], {}),
    "softmax of a cut row": ([["data"]], {"all-gather": 1}),
    "three dims": ([["data", "model"]], {}),
    "a batch": ([[None, "data"]], {}),
    "largest, rows cut": ([[]], SUM),
    "largest, columns cut": ([["data"]], {}),
    "largest, both cut": ([["model"]], SUM),
    "written": ([["data", "model"]], {}),
    "heads in groups": ([[None, "model"]], {}),
    "as many heads": ([[None, "model"]], {}),
    "one group": ([[None, "model"]], {}),
    "one behind the other": ([["data"]], {}),
    "inside shard_map": ([["data"]], {}),
    "uneven parts": ([[]], {"all-gather": 2}),
    "gradient": ([["data"], []], SUM),
}


ON_DEVICES |= {f"{name}, typed": wanted for name, wanted in ON_DEVICES.items()
               if name not in ("inside shard_map", "uneven parts")}


@pytest.fixture(scope="module")
def on_devices(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    here = pathlib.Path(__file__).parent
    module = build.module(here / "divided.c",
                          tmp_path_factory.mktemp("devices") / "divided.so")
    done = subprocess.run(
        [sys.executable, str(here / "devices_jax.py"), str(module)],
        capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


@pytest.mark.parametrize("name", ON_DEVICES)
def test_devices_share_a_call_as_its_rule_says(
        on_devices: dict[str, Any], name: str) -> None:
    specs, collectives = ON_DEVICES[name]
    found = on_devices[name]
    assert found["distance"] < 1e-5
    assert found["collectives"] == collectives
    assert [_shown(s) for s in found["specs"]] == [_shown(s) for s in specs]


def _shown(spec: list[Any]) -> list[Any]:
    """Dims at the end that are not sharded need no word."""
    while spec and spec[-1] is None:
        spec = spec[:-1]
    return spec


def test_each_call_on_devices_is_expected(on_devices: dict[str, Any]) -> None:
    assert set(on_devices) == set(ON_DEVICES)
