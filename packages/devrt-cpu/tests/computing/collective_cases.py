"""Collectives, with what jax 0.10.2 makes of them and of their gradients: ``collective_cases.npz``.

``peer/record_collectives.py`` writes those anew.
"""

import numpy as np

X = np.random.default_rng(0).standard_normal((8, 4)).astype(np.float32)
SIZES, NAMES = (4, 2), ("x", "y")
PAIRS, RING = [[0, 3], [1, 2]], [(i, (i + 1) % 4) for i in range(4)]

ROWS, BOTH, WHOLE = ("x",), (("x", "y"),), ()

# By name: a function of one device's part, how the argument is divided, and the result.
CASES = {
    "psum": ("lax.psum(s, 'x')", ROWS, WHOLE),
    "psum, used": ("a * lax.psum(s, 'x')", ROWS, ROWS),
    "psum of a part": ("lax.psum(s, 'x')", ("x", "y"), (None, "y")),
    "psum over two axes": ("lax.psum(s, ('x', 'y'))", BOTH, WHOLE),
    "psum of what is the same": ("lax.psum(s, 'x')", WHOLE, WHOLE),
    "psum in groups": ("lax.psum(s, 'x', axis_index_groups=PAIRS)", ROWS, ROWS),
    "psum of a tree": ("lax.psum((s, {'b': a}), 'x')[1]['b'] + s", ROWS, ROWS),
    "psum of a number": ("s * lax.psum(1, ('x', 'y'))", ROWS, ROWS),
    "pmean": ("lax.pmean(s, 'x')", ROWS, WHOLE),
    "all_gather": ("lax.all_gather(s, 'x') * i", ROWS, ROWS),
    "all_gather, tiled": ("lax.all_gather(s, 'x', axis=1, tiled=True) * i", ROWS, ROWS),
    "all_gather in groups": (
        "lax.all_gather(s, 'x', axis_index_groups=PAIRS) * i",
        ROWS,
        ROWS,
    ),
    "all_gather over two axes": ("lax.all_gather(s, ('y', 'x')) * i", BOTH, BOTH),
    "psum_scatter": ("lax.psum_scatter(s, 'x', scatter_dimension=1) * i", ROWS, ROWS),
    "psum_scatter, tiled": (
        "lax.psum_scatter(s, 'x', scatter_dimension=1, tiled=True) * i",
        ROWS,
        ROWS,
    ),
    "psum_scatter in groups": (
        "lax.psum_scatter(s, 'x', scatter_dimension=1, tiled=True, axis_index_groups=PAIRS)",
        ROWS,
        ROWS,
    ),
    "all_to_all": ("lax.all_to_all(s, 'x', 1, 1) * i", ROWS, ROWS),
    "all_to_all, tiled": ("lax.all_to_all(s, 'x', 1, 0, tiled=True) * i", ROWS, ROWS),
    "all_to_all in groups": (
        "lax.all_to_all(s, 'x', 1, 0, tiled=True, axis_index_groups=PAIRS)",
        ROWS,
        ROWS,
    ),
    "ppermute": ("lax.ppermute(s, 'x', [(0, 1), (1, 3)]) * i", ROWS, ROWS),
    "ppermute over two axes": ("lax.ppermute(s, ('x', 'y'), [(0, 7), (7, 2)])", BOTH, BOTH),
    "pshuffle": ("lax.pshuffle(s, 'x', [3, 1, 0, 2])", ROWS, ROWS),
    "pcast": ("lax.pcast(s, 'x', to='varying') * i", WHOLE, ROWS),
    "a loop": (
        "lax.psum(lax.scan(lambda c, _: (c * s + lax.ppermute(c, 'x', RING), None), a, None, 3)"
        "[0], 'x')",
        ROWS,
        WHOLE,
    ),
    "a branch": ("lax.cond(lax.axis_index('x') > 1, lambda: a * a, lambda: s)", ROWS, ROWS),
    "a gradient inside": (
        "grad(lambda a: lax.psum((numpy.sin(a) ** 2).sum(), 'x'))(a)",
        ROWS,
        ROWS,
    ),
}

UNCHECKED = {"psum in groups"}
"""What jax refuses where it checks what is the same on all devices."""


def functions(library, numpy, is_checked):
    """Return, by name, functions of the whole argument for value and gradient of each case.

    Parameters
    ----------
    library, numpy
        `devrt` or jax, and its ``numpy``.
    is_checked
        Whether it is checked what is the same on all devices.
    """
    lax, spec = library.lax, library.sharding.PartitionSpec
    options = {"axis_types": (library.sharding.AxisType.Auto,) * len(NAMES)}
    mesh = library.make_mesh(SIZES, NAMES, **options)

    def made(text, divided, result):
        def part(a):
            i = (1 + lax.axis_index("x")).astype(a.dtype)
            known = {"a": a, "s": numpy.sin(a), "i": i, "lax": lax, "numpy": numpy}
            return eval(text, {**globals(), **known, "grad": library.grad})

        options = {"in_specs": spec(*divided), "out_specs": spec(*result), "mesh": mesh}
        mapped = library.shard_map(part, **options, check_vma=is_checked)

        def loss(x):
            made = mapped(x)
            weights = np.cos(np.arange(made.size, dtype=np.float32)).reshape(made.shape)
            return (made * weights).sum(), made

        return lambda x: (loss(x)[1], library.grad(lambda x: loss(x)[0])(x))

    skipped = UNCHECKED if is_checked else ()
    return {name: made(*case) for name, case in CASES.items() if name not in skipped}
