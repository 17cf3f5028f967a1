#!/usr/bin/env python3
"""Installs the build into an empty folder, builds tests/examples/* against it alone, and runs them.

usage: install_test.py SOURCE BUILD CXX
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile

# What each example must print.
EXPECTED = {
    "remote_add": ["CPUFloatType{2,3}", "demo.add on server0", "size of tensor a (3) must match"],
    "remote_call": ["dot = 32", "trainer0 sent 3 numbers, label 7", "demo.dot on server0: lengths differ"],
}


def run(*command):
  result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=280)
  if result.returncode != 0:
    sys.exit(f"{' '.join(command)}\n{result.stdout}exit {result.returncode}")
  return result.stdout


def run_pair(program):
  """The README's two terminals."""
  with subprocess.Popen([program, "serve", "127.0.0.1:0"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                        text=True) as server:
    address = server.stdout.readline().rstrip().rpartition(" ")[2]
    printed = run(program, "call", address)
    server.communicate("\n", timeout=60)
    if server.returncode != 0:
      sys.exit(f"the server ended with {server.returncode}")
  return printed


def main():
  source, build, compiler = sys.argv[1:]
  folder = tempfile.mkdtemp(prefix="install_test.")
  try:
    prefix = os.path.join(folder, "prefix")
    run("cmake", "--install", build, "--prefix", prefix)
    check_tree(prefix, source, build)
    if not run(os.path.join(prefix, "bin/gradwire"), "version").startswith("gradwire "):
      sys.exit("bin/gradwire doesn't say its version")
    for name, texts in EXPECTED.items():
      if name == "remote_add" and not os.path.exists(os.path.join(prefix, "include/gradwire/rpc/tensor/torch.h")):
        print("remote_add: left out, built without libtorch")
        continue
      # A copy, so that nothing of the checkout is found by accident.
      example = shutil.copytree(os.path.join(source, "tests/examples", name), os.path.join(folder, name))
      out = os.path.join(folder, name + ".build")
      run("cmake", "-G", "Ninja", "-S", example, "-B", out, f"-DCMAKE_PREFIX_PATH={prefix}",
          f"-DCMAKE_CXX_COMPILER={compiler}", "-DCMAKE_CXX_FLAGS=-O1 -Wall -Wextra -Werror")
      run("cmake", "--build", out)
      program = os.path.join(out, name)
      printed = run_pair(program) if name == "remote_add" else run(program)
      print(printed, end="")
      for text in texts:
        if text not in printed:
          sys.exit(f"{name} did not print '{text}'")
  finally:
    shutil.rmtree(folder)


def check_tree(prefix, source, build):
  """Nothing of tests or benches, and no path into the checkout but that of libtorch."""
  for folder, _, files in os.walk(prefix):
    for file in files:
      path = os.path.join(folder, file)
      if re.search(r"gtest|/(tests|bench)/|test_support|oracle", path[len(prefix):]):
        sys.exit(f"{path} is no part of the product")
      if file.endswith(".cmake"):
        with open(path) as text:
          for line in text:
            if (source in line or build in line) and "GW_DEPS_DIR" not in line and "Gradwire_BUILD_DEPS_DIR" not in line:
              sys.exit(f"{path} names the checkout: {line}")


main()
