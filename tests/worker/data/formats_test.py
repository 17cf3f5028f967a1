#!/usr/bin/env python3
"""The programs that our files are for: TensorBoard reads our events; Python's safetensors reads what we wrote, and we
read what it wrote and refuse what it refuses.

usage: formats_test.py PEER TOOLS      PEER: the program formats_peer; TOOLS: the folder of modules of scripts/setup
"""
import math
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest

TOOLS = sys.argv.pop(2)
PEER = sys.argv.pop(1)
sys.path.insert(0, TOOLS)
try:
  import numpy
  import safetensors
  import safetensors.numpy
  from tensorboard.backend.event_processing import event_accumulator
except ImportError as error:
  sys.exit(f"formats_test: {error}: the tests' tools are not in {TOOLS}, or not for Python "
           f"{sys.version_info.major}.{sys.version_info.minor}; run scripts/setup")
if not numpy.__file__.startswith(os.path.join(TOOLS, "")):
  sys.exit(f"formats_test: numpy comes from {numpy.__file__}, not from {TOOLS}")


class FormatsTest(unittest.TestCase):

  def setUp(self):
    self.folder = tempfile.mkdtemp(prefix="formats_test.")
    self.addCleanup(shutil.rmtree, self.folder)
    self.file = os.path.join(self.folder, "m.safetensors")

  def peer(self, command, path, code=0):
    result = subprocess.run([PEER, command, path], capture_output=True, text=True, timeout=60)
    self.assertEqual(result.returncode, code, result.stderr)
    return result.stdout if code == 0 else result.stderr


class TensorBoardTest(FormatsTest):

  def read(self, path):
    accumulator = event_accumulator.EventAccumulator(path, size_guidance={event_accumulator.SCALARS: 0})
    accumulator.Reload()
    return accumulator

  def test_values(self):
    self.peer("events", self.folder)
    files = sorted(os.listdir(self.folder))
    self.assertEqual(len(files), 2, files)
    run = self.read(os.path.join(self.folder, files[0]))
    self.assertEqual(run.file_version, 2.0)
    self.assertEqual(sorted(run.Tags()["scalars"]), ["eval/genauigkeit ü", "loss", "odd"])
    self.assertEqual([(event.step, event.value) for event in run.Scalars("loss")],
                     [(step, numpy.float32(1) / numpy.float32(step + 1)) for step in range(3000)])
    self.assertEqual([(event.step, event.value) for event in run.Scalars("eval/genauigkeit ü")],
                     [(step, 0.5) for step in range(0, 3000, 100)])
    nan, infinity = run.Scalars("odd")
    self.assertEqual((nan.step, infinity.step), (-5, 2**40))
    self.assertTrue(math.isnan(nan.value))
    self.assertEqual(infinity.value, math.inf)
    times = [event.wall_time for event in run.Scalars("loss")]
    self.assertEqual(times, sorted(times))
    self.assertLess(abs(os.path.getmtime(os.path.join(self.folder, files[0])) - times[-1]), 60)

  def test_a_restart_hides_what_came_after_the_checkpoint(self):
    self.peer("events", self.folder)
    self.assertEqual([(event.step, event.value) for event in self.read(self.folder).Scalars("loss")],
                     [(step, numpy.float32(1) / numpy.float32(step + 1)) for step in range(2000)] +
                     [(step, 7.0) for step in range(2000, 2010)])

  def test_the_readers_notice_damage(self):
    """What the other tests would see if a checksum were wrong."""
    self.peer("events", self.folder)
    path = os.path.join(self.folder, sorted(os.listdir(self.folder))[0])
    with open(path, "r+b") as file:
      file.seek(-2, os.SEEK_END)
      file.write(b"\xff")
    self.assertEqual(len(self.read(path).Scalars("odd")), 1)


class SafetensorsTest(FormatsTest):

  def test_python_reads_ours(self):
    self.peer("write", self.file)
    with safetensors.safe_open(self.file, "np") as file:
      self.assertEqual(file.metadata(), {"step": "7", "text": "a\t\"b\" é😀"})
      self.assertEqual(set(file.keys()), {
          "float32", "float64", "float16", "bfloat16", "int8", "int16", "int32", "int64", "uint8", "bool", "complex64",
          "empty", 'scalar "é\\\n'})
      numbers = {"float32": 1, "float64": 2, "float16": 3, "int8": 5, "int16": 6, "int32": 7, "int64": 8, "uint8": 9,
                 "complex64": 11}
      for name, number in numbers.items():
        array = file.get_tensor(name)
        self.assertEqual((array.dtype, array.shape), (numpy.dtype(name), (2, 3)))
        self.assertEqual(array.tobytes(), bytes(range(number, number + 6 * array.itemsize)), name)
      self.assertEqual(file.get_tensor("bool").tolist(), [[False, True, False], [True, False, True]])
      bfloat16 = file.get_slice("bfloat16")  # numpy has no such type
      self.assertEqual((bfloat16.get_dtype(), bfloat16.get_shape()), ("BF16", [2, 3]))
      self.assertEqual(file.get_tensor("empty").shape, (0, 4))
      scalar = file.get_tensor('scalar "é\\\n')
      self.assertEqual((scalar.shape, scalar.item()), ((), 1.0))

  def test_we_read_pythons(self):
    random = numpy.random.default_rng(7)
    arrays = {"": numpy.array(True), "é\"\\\n\t\0😀": random.random((3, 0, 2))}
    for dtype in ("float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "complex64"):
      arrays[f"layer.{dtype}"] = (100 * random.random((5, 3))).astype(dtype)
    metadata = {"é": "\"\\\x01", "format": "np"}
    safetensors.numpy.save_file(arrays, self.file, metadata)
    tensors, entries = {}, {}
    for line in self.peer("read", self.file).splitlines():
      kind, *fields = line.split("\t")
      name = bytes.fromhex(fields[0]).decode()
      if kind == "metadata":
        entries[name] = bytes.fromhex(fields[1]).decode()
      else:
        shape = tuple(int(size) for size in fields[2].split(",") if size)
        tensors[name] = numpy.frombuffer(bytes.fromhex(fields[3]), fields[1]).reshape(shape)
    self.assertEqual(entries, metadata)
    self.assertEqual(tensors.keys(), arrays.keys())
    for name, array in arrays.items():
      self.assertEqual(tensors[name].dtype, array.dtype)
      numpy.testing.assert_array_equal(tensors[name], array)

  def test_both_refuse(self):
    whole = b'{"w":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}}'
    for header, data in ((whole, b"x"), (whole, b"xxx"), (whole[:-1], b"xx"), (whole.replace(b"[2]", b"[3]"), b"xx"),
                         (whole.replace(b"[0,2]", b"[1,3]"), b"xxx"), (whole.replace(b"U8", b"U7"), b"xx"),
                         (whole.replace(b"2]}", b"2.0]}"), b"xx"), (b"", b""), (b"[]", b"")):
      with open(self.file, "wb") as file:
        file.write(struct.pack("<Q", len(header)) + header + data)
      with self.assertRaises(safetensors.SafetensorError, msg=(header, data)):
        safetensors.numpy.load_file(self.file)
      self.assertIn(self.file, self.peer("read", self.file, code=1))


if __name__ == "__main__":
  unittest.main()
