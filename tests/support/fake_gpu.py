"""Programs on simulated devices, by a fake plugin that has streams of its own."""

import contextlib
import os
import re
import subprocess
from pathlib import Path

import devrt_cuda._ext
import numpy as np

import devrt
from devrt.native import include_dir
from gpu_library import Gated, simulated_platform

COUNT = 1 << 20
FAKE = Path(__file__).parents[2] / "packages/devrt-cuda/tests/fake"
TYPE = f"tensor<{COUNT}xf32>"
BINARY = (
    "module @{name} {{ func.func @main(%a: {type}, %b: {type}) -> {type} {{\n"
    "%0 = stablehlo.add %a, %b : {type}\nreturn %0 : {type} }} }}"
)
DONATING = (
    "module @{name} {{ func.func @main(%a: {type} {{tf.aliasing_output = 0 : i32}}) -> {type} {{\n"
    "%0 = stablehlo.negate %a : {type}\nreturn %0 : {type} }} }}"
)
TWO = BINARY.replace("-> {type}", "-> ({type}, {type})").replace(
    "return %0 : {type}", "return %0, %a : {type}, {type}"
)
BESIDE = (
    BINARY.replace("-> {type}", "-> ({type}, {type})")
    .replace("%a: {type}", "%a: {type} {{tf.aliasing_output = 0 : i32}}")
    .replace("return %0 : {type}", "return %0, %b : {type}, {type}")
)
CALLING = BINARY.replace(
    "stablehlo.add %a, %b : {type}",
    "stablehlo.custom_call @devrt_kernel(%a, %b) {{api_version = 4 : i32, "
    "backend_config = {config}, "
    "operand_layouts = [dense<0> : tensor<1xindex>, dense<0> : tensor<1xindex>], "
    "result_layouts = [dense<0> : tensor<1xindex>]}} : ({type}, {type}) -> {type}",
)
PROGRAMS = {"add": BINARY, "add_all": BINARY, "two": TWO, "same": DONATING, "same_must": DONATING,
            "same_two_must": BESIDE, "axpy": CALLING, "axpy_all": CALLING}  # fmt: skip
# An entry of HloInputOutputAliasProto, of the only result or of the first; its kind, may or must.
MAY = re.compile(rb"(\x0a\x02|\x0a\x05\x0a\x01\x00)\x20\x01")
MUST = b"\\1\x20\x02"


def text(name, config="{}"):
    return PROGRAMS[name].format(name=name, type=TYPE, config=config)


def build(folder):
    """Build the plugin and its kernels; return their paths."""
    sources = Path(include_dir()).parent / "src"
    plugin, kernels = folder / "fake_gpu.so", folder / "kernels.so"
    shared = ["-shared", "-fPIC", "-O1"]
    compiler = os.environ.get("CXX", "g++")
    run = [compiler, "-std=c++20", *shared, f"-I{include_dir()}", str(FAKE / "plugin.cpp")]
    subprocess.run([*run, "-o", str(plugin)], check=True)
    run = [os.environ.get("CC", "gcc"), *shared, f"-I{sources}", str(FAKE / "kernels.c")]
    subprocess.run([*run, "-o", str(kernels)], check=True)
    return plugin, kernels


def write_modules(folder):
    """Have XLA's compiler for the CPU say what the programs take and give."""
    client = devrt.devices("cpu")[0].client
    client.register_custom_call("devrt_kernel", lambda a, b: a)  # never called there
    for name in PROGRAMS:
        code = client.compile_and_load(text(name)).optimized_program()[1]
        if name.endswith("_must"):
            code, count = MAY.subn(MUST, code)
            assert count == 1
        (folder / f"{name}.hlo").write_bytes(code)
    for name in ("add", "axpy"):
        (folder / f"jit_{name}.hlo").write_bytes((folder / f"{name}.hlo").read_bytes())


@contextlib.contextmanager
def simulated_devices(plugin, modules):
    """Yield two devices whose programs a built plugin runs."""
    folder = os.path.dirname(devrt_cuda._ext.__file__)
    environ = {
        "DEVRT_CUDA_ENGINE": plugin[0],
        "FAKE_GPU_DRIVER": os.path.join(folder, "libdevrt_cuda_simulator.so"),
        "FAKE_GPU_KERNELS": plugin[1],
        "FAKE_GPU_MODULES": modules,
    }
    with simulated_platform(**environ) as found:
        write_modules(modules)
        yield found


UNIT = np.uint32(0x01010101).view(np.float32)  # what a gated stream writes


def pending(driver, device):
    """Return an array of units of devrt's own that waits for a gate, and the gate."""
    units = Gated(driver, COUNT, "<f4")
    shared = devrt.device_put(units, may_alias=True)
    copied = shared.copy() if device is shared.device else devrt.device_put(shared, device)
    return copied, units.gate


def put(value, device):
    return devrt.device_put(np.full(COUNT, value, np.float32), device).block_until_ready()
