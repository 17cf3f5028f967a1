#!/usr/bin/env python3
"""Checks the house's rules that a compiler doesn't see; prints file:line for every offence, exit 1 if there is one.

- Includes follow the arrows of scripts/include_table.tsv.
- libtorch, torch/torch.h and gRPC are included behind their gateways only.
- Time, waiting, randomness, files and locks of the product go through the seams; scripts/seam_files.tsv names the
  files that implement them. Tests don't sleep.
- Headers have #pragma once, and those of the product are named in a CMakeLists.txt, so that they are compiled alone
  and installed.

usage: lint.py ROOT
"""
import os
import re
import subprocess
import sys

# torch/torch.h costs 20 s a file: only these may include it.
TORCH_H = set()
# The gateway to libtorch in a folder that otherwise has none.
TORCH_GATEWAY = re.compile(r"^rpc/tensor/torch[^/]*$")
GRPC_GATEWAY = re.compile(r"^rpc/transport/grpc/")

SLEEP = re.compile(r"\b(sleep_for|sleep_until|SleepFor|usleep|nanosleep)\(|(?<![\w.>])sleep\(")
SEAMS = [
    ("Clock", re.compile(r"absl::Now\(|_clock::now\(|\bclock_gettime\(|\bgettimeofday\(|\btime\((nullptr|NULL|0)\)")),
    ("Clock", SLEEP),
    ("Rng", re.compile(r"\bs?rand\(|\brandom_device\b|\bgetrandom\(|\bRAND_bytes\(|\bmt19937|absl::(Insecure)?BitGen\b")),
    ("FileSystem", re.compile(r"(?<![\w.>:])(?:::)?open(?:at)?\((?!\))|\bfopen\(|\b[io]?fstream\b|std::filesystem")),
    ("gradwire::Mutex", re.compile(r"\bstd::(recursive_|shared_|timed_)?mutex\b|absl::Mutex|std::condition_variable")),
]
OURS = re.compile(r"(rpc|proto|optim|server|worker|autograd|tests|bench)/")
INCLUDE = re.compile(r'\s*#\s*include\s+["<]([^">]+)[">]')


def read_table(path):
  """First column -> the rest, as words."""
  table = {}
  with open(path, encoding="utf-8") as file:
    for line in file:
      if line.strip() and not line.startswith("#"):
        key, _, rest = line.rstrip("\n").partition("\t")
        table[key] = rest.split()
  return table


class Lint:

  def __init__(self, root):
    self.root = root
    self.table = read_table(os.path.join(root, "scripts/include_table.tsv"))
    self.seam_files = read_table(os.path.join(root, "scripts/seam_files.tsv"))
    listed = subprocess.run(["git", "-C", root, "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
                            capture_output=True, text=True, check=True).stdout.split("\0")
    self.all_files = {name for name in listed if name and os.path.isfile(os.path.join(root, name))}
    self.files = sorted(name for name in self.all_files if name.endswith((".h", ".cc")))
    self.offences = []

  def offend(self, name, number, text):
    self.offences.append(f"{name}:{number}: {text}")

  def read(self, name):
    with open(os.path.join(self.root, name), encoding="utf-8") as file:
      return file.read()

  def row(self, name):
    """The folder of the table that a file belongs to: the longest that matches."""
    parts = name.split("/")
    for n in range(len(parts) - 1, 0, -1):
      if "/".join(parts[:n]) in self.table:
        return "/".join(parts[:n])
    return None

  def run(self):
    for name in self.seam_files:
      if name not in self.all_files:
        self.offend("scripts/seam_files.tsv", 1, f"{name} is gone: remove its line")
    for name in self.files:
      product = not name.startswith(("tests/", "bench/"))
      text = self.read(name)
      row = self.row(name)
      if row is None:
        self.offend(name, 1, f"folder {os.path.dirname(name)} has no row in scripts/include_table.tsv")
      for number, line in enumerate(text.splitlines(), 1):
        include = INCLUDE.match(line)
        if include:
          self.check_include(name, number, include.group(1), row, product)
        else:
          self.check_code(name, number, line.split("//")[0], product)
      if name.endswith(".h"):
        self.check_header(name, text, product)

  def check_include(self, name, number, path, row, product):
    allowed = self.table.get(row, [])
    if path == "torch/torch.h" and name not in TORCH_H:
      self.offend(name, number, "includes torch/torch.h; use a narrower header, or add the file to TORCH_H in "
                  "tests/build/lint.py")
    if re.match(r"(ATen|torch|c10)/", path) and "torch" not in allowed and not TORCH_GATEWAY.match(name):
      self.offend(name, number, f"{path} is libtorch's; here only rpc/tensor/torch*.h and .cc may include it")
    if path.startswith(("grpcpp/", "grpc/")) and product and not GRPC_GATEWAY.match(name):
      self.offend(name, number, f"{path} is gRPC's; only rpc/transport/grpc may include it")
    if OURS.match(path) and row is not None:
      fine = os.path.dirname(path) == os.path.dirname(name) or path.startswith(row + "/")
      fine = fine or any(path == one or path.startswith(one + "/") for one in allowed)
      if not fine:
        self.offend(name, number, f"{row} may not include {path} (scripts/include_table.tsv)")

  def check_code(self, name, number, code, product):
    if not product:
      sleep = SLEEP.search(code)
      if sleep and name.startswith("tests/"):
        self.offend(name, number, f"{sleep.group(0)} …): tests don't sleep; tests/support/wait.h waits for a condition")
    elif name not in self.seam_files:
      for seam, pattern in SEAMS:
        found = pattern.search(code)
        if found:
          self.offend(name, number, f"{found.group(0)} goes around {seam} (scripts/seam_files.tsv)")

  def check_header(self, name, text, product):
    if not re.search(r"^#pragma once$", text, re.MULTILINE):
      self.offend(name, 1, "has no #pragma once")
    if not product:
      return
    # The library is described in the header's folder or in one above it.
    parts = name.split("/")
    for n in range(len(parts) - 1, 0, -1):
      lists = "/".join(parts[:n]) + "/CMakeLists.txt"
      if lists in self.all_files:
        if re.search(r"(?<![\w./])" + re.escape("/".join(parts[n:])) + r"(?![\w./])", self.read(lists)):
          return
        break
    self.offend(name, 1, "is in no CMakeLists.txt: name it in HDRS (installed) or SRCS (internal) of gw_library")


def main():
  lint = Lint(sys.argv[1])
  lint.run()
  for offence in lint.offences:
    print(offence)
  print(f"{len(lint.files)} files, {len(lint.offences)} offences")
  return 1 if lint.offences or not lint.files else 0


if __name__ == "__main__":
  sys.exit(main())
