"""Builds the compiled modules; everything else about the package is in pyproject.toml.

Every ``.pyx`` below ``mta/`` becomes an extension module, so a new one needs no entry here. So do
the modules of Python that every push runs through (``PUSHED``), as they are.
The generated C goes to ``build/cython``, never beside the sources, and so into no distribution.

Environment:
    MTA_NATIVE=1   compile for the processor of this machine only (``-march=native``)
"""

from __future__ import annotations

import os
from pathlib import Path

import Cython
from Cython.Build import cythonize
from Cython.Compiler.Errors import CompileError
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

# Compiled with two processes: the modules are few, and small machines have two cores.
JOBS = 2

BUILD_DIR = Path("build/cython")

# What Cython puts beside the code of a module (memoryviews above all) is compiled once, here, and
# not in each of the modules.
SHARED = "mta._cyutility"

DIRECTIVES = {
    "language_level": 3,
    "boundscheck": False,
    "wraparound": False,
    "cdivision": True,
    "initializedcheck": False,
    "freethreading_compatible": True,
    "embedsignature": True,
}

# Compiled as they are, these take half the time (docs/adr/0014). They stay Python: without a
# compiled module beside it, the source is what is imported.
PUSHED = (
    "_frames_numpy", "block_pool", "bucket_stream", "buckets", "budget", "coded_values",
    "cold_keys", "cold_records", "engine", "frames", "groups", "key_state", "keyed", "kernels",
    "open_panes", "open_rows", "open_windows", "paged", "paged_rows", "pane_answers", "pane_rows",
    "periodic_stream", "plan", "pool", "pool_room", "progress", "push", "reorder", "repository",
    "row_blocks", "rows", "slider", "stored_codes", "stored_stream", "stores/_checksum",
    "stores/_segments", "stores/background", "stores/base", "stores/cache", "stores/files",
    "stream", "track",
)  # fmt: skip
# What Python says is what is compiled: annotations are no C types, indices count from the end too.
PUSHED_DIRECTIVES = {
    "language_level": 3,
    "annotation_typing": False,
    "freethreading_compatible": True,
}

# -g0: Python's own flags ask for debug information, which costs a quarter of the time to compile
# and makes the objects seven times as large.
# -ffp-contract=off: the error terms of TwoSum and TwoProd are exact only if every operation is
# rounded by itself. A compiler that fuses a*b+c (gcc does by default where the target has FMA)
# would give other doubles on other machines.
# -fno-math-errno, -fno-trapping-math: nobody reads errno or the exception flags, and without them
# loops with sqrt and with selects are vectorised. No result changes.
# -fno-tree-slp-vectorize: gcc 12 packs the high and low parts of one dependent chain into a vector
# register, which makes the variance 1.6 times slower. Loops are vectorised all the same.
UNIX_FLAGS = [
    "-O3",
    "-g0",
    "-Wall",
    "-ffp-contract=off",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-fno-tree-slp-vectorize",
]
MSVC_FLAGS = ["/O2", "/fp:precise"]
NATIVE_FLAGS = ["-march=native"]
# gcc warns where Cython asks a constant, such as None, whether it is a number.
PUSHED_FLAGS = ["-Wno-array-bounds"]


def _native() -> bool:
    return os.environ.get("MTA_NATIVE", "0") not in ("", "0")


def _settings() -> str:
    """What no file date shows: when this differs from the last build, all is built again."""
    directives = DIRECTIVES, PUSHED_DIRECTIVES
    return repr((Cython.__version__, directives, UNIX_FLAGS, _native()))


def _extensions() -> list[Extension]:
    paths = sorted(Path("mta").rglob("*.pyx"))
    modules = [Extension(".".join(p.with_suffix("").parts), [p.as_posix()]) for p in paths]
    return [*modules, Extension(SHARED, [SHARED.replace(".", "/") + ".c"])]


def _pushed() -> list[Extension]:
    return [Extension(f"mta.{n.replace('/', '.')}", [f"mta/{n}.py"]) for n in PUSHED]


def _cythonized(force: bool) -> list[Extension]:
    made: list[Extension] = []
    try:
        made += cythonize(
            _extensions(),
            build_dir=str(BUILD_DIR),
            compiler_directives=DIRECTIVES,
            shared_utility_qualified_name=SHARED,
            nthreads=JOBS,
            force=force,
        )
        made += cythonize(
            _pushed(),
            build_dir=str(BUILD_DIR),
            compiler_directives=PUSHED_DIRECTIVES,
            shared_utility_qualified_name=SHARED,
            nthreads=JOBS,
            force=force,
        )
        return made
    except CompileError as error:  # Cython has printed what is wrong; spare the traceback
        raise SystemExit(f"Cython could not compile {error}") from None


class BuildExt(build_ext):
    """Runs Cython only when something is really built (not for ``egg_info`` or ``sdist``)."""

    def initialize_options(self) -> None:
        super().initialize_options()
        self.parallel = JOBS

    def run(self) -> None:
        stamp = BUILD_DIR / "settings"
        self.force = bool(self.force) or not stamp.exists() or stamp.read_text() != _settings()
        by_name = {made.name: made for made in _cythonized(self.force)}
        for ext in self.extensions:
            made = by_name[ext.name]
            ext.sources, ext.depends = made.sources, made.depends
        super().run()
        stamp.parent.mkdir(parents=True, exist_ok=True)
        stamp.write_text(_settings())  # last, so that a failed build is forced again

    def build_extensions(self) -> None:
        msvc = self.compiler.compiler_type == "msvc"
        flags = MSVC_FLAGS if msvc else UNIX_FLAGS + (NATIVE_FLAGS if _native() else [])
        pushed = {ext.name for ext in _pushed()}
        for ext in self.extensions:
            quiet = PUSHED_FLAGS if ext.name in pushed and not msvc else []
            ext.extra_compile_args = [*flags, *quiet, *ext.extra_compile_args]
        super().build_extensions()


if __name__ == "__main__":
    setup(ext_modules=[*_extensions(), *_pushed()], cmdclass={"build_ext": BuildExt})
