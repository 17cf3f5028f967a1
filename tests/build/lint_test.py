#!/usr/bin/env python3
"""That lint.py finds what it is there for: each case is a small checkout with one offence, or with none."""
import os
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import lint  # noqa: E402

TABLE = "# folder\nrpc/base\t\nrpc/tensor\trpc/base\nrpc/transport\trpc/base rpc/tensor\nautograd\trpc torch\ntests\trpc torch\n"


class LintTest(unittest.TestCase):

  def offences(self, files, seam_files=""):
    with tempfile.TemporaryDirectory() as root:
      everything = {"scripts/include_table.tsv": TABLE, "scripts/seam_files.tsv": seam_files, **files}
      for name, text in everything.items():
        path = os.path.join(root, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as file:
          file.write(text)
      subprocess.run(["git", "init", "-q", root], check=True)
      checked = lint.Lint(root)
      checked.run()
      return checked.offences

  def assert_finds(self, name, line, text="", before="", **kwargs):
    """The offence is named with file and line; `before` is a line above it."""
    found = self.offences({name: before + line + "\n"}, **kwargs)
    number = 1 + before.count("\n")
    self.assertTrue([one for one in found if one.startswith(f"{name}:{number}: ") and text in one], (line, found))

  def assert_clean(self, name, line, **kwargs):
    self.assertEqual(self.offences({name: line + "\n"}, **kwargs), [], line)

  def test_arrows(self):
    self.assert_finds("rpc/base/a.cc", '#include "rpc/tensor/x.h"', "rpc/base may not include rpc/tensor/x.h", before="\n")
    self.assert_finds("rpc/tensor/a.cc", '#include "rpc/transport/x.h"')
    self.assert_finds("rpc/transport/grpc/a.cc", '# include  "tests/support/x.h"')
    self.assert_finds("rpc/nowhere/a.cc", '#include "rpc/base/x.h"', "no row")
    self.assert_clean("rpc/base/a.cc", '#include "rpc/base/x.h"')
    self.assert_clean("rpc/transport/grpc/a.cc", '#include "rpc/tensor/x.h"')
    self.assert_clean("rpc/transport/grpc/a.cc", '#include "rpc/transport/x.h"')
    self.assert_clean("tests/rpc/base/a.cc", '#include "rpc/transport/x.h"')

  def test_libtorch(self):
    self.assert_finds("autograd/a.cc", "#include <torch/torch.h>", "narrower header")
    self.assert_finds("rpc/tensor/a.cc", "#include <ATen/core/Tensor.h>", "libtorch's")
    self.assert_finds("rpc/base/a.cc", '#include "c10/core/Scalar.h"')
    self.assert_clean("rpc/tensor/torch_fence.cc", "#include <c10/util/Exception.h>")
    self.assert_clean("autograd/a.cc", "#include <ATen/core/Tensor.h>")

  def test_grpc(self):
    self.assert_finds("rpc/base/a.cc", "#include <grpcpp/grpcpp.h>", "gRPC's")
    self.assert_finds("rpc/transport/sim/a.cc", "#include <grpc/grpc.h>")
    self.assert_clean("rpc/transport/grpc/a.cc", "#include <grpcpp/grpcpp.h>")
    self.assert_clean("tests/a_test.cc", "#include <grpcpp/grpcpp.h>")

  def test_seams(self):
    for line in ("auto t = absl::Now();", "auto t = std::chrono::steady_clock::now();", "x = time(nullptr);",
                 "std::this_thread::sleep_for(x);", "absl::SleepFor(x);", "  sleep(1);", "int r = rand();",
                 "std::random_device d;", "std::mt19937_64 g(1);", "int fd = ::open(path, 0);", "fd = open(path, 0);",
                 'FILE* f = fopen(path, "r");', "std::ifstream in(path);", "std::mutex m;", "absl::Mutex m;"):
      self.assert_finds("rpc/base/a.cc", line, "goes around")
      self.assert_clean("rpc/base/a.cc", line, seam_files="rpc/base/a.cc\ta reason\n")
    for line in ("bool open() const;", "clock.Now();", "fs->open(path);", "Reopen(path);", "int brand(3);", "// std::mutex would do",
                 "node.sleep(1);", "runtime(0);"):
      self.assert_clean("rpc/base/a.cc", line)
    self.assertIn("gone", self.offences({}, seam_files="rpc/base/a.cc\ta reason\n")[0])

  def test_tests_do_not_sleep(self):
    self.assert_finds("tests/a_test.cc", "std::this_thread::sleep_for(x);", "tests don't sleep")
    self.assert_clean("tests/a_test.cc", "const auto t = absl::Now();")

  def test_headers(self):
    lists = {"rpc/base/CMakeLists.txt": "gw_library(NAME base HDRS a.h sub/c.h)\n"}
    good = "#pragma once\n"
    self.assertEqual(self.offences({"rpc/base/a.h": good, "rpc/base/sub/c.h": good, **lists}), [])
    self.assertIn("rpc/base/a.h:1: has no #pragma once", self.offences({"rpc/base/a.h": "\n", **lists}))
    for name in ("rpc/base/b.h", "rpc/base/sub/a.h", "rpc/base/aa.h"):
      found = self.offences({name: good, **lists})
      self.assertEqual(len(found), 1)
      self.assertIn(f"{name}:1: is in no CMakeLists.txt", found[0])


if __name__ == "__main__":
  unittest.main()
