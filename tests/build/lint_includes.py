#!/usr/bin/env python3
"""Checks what files include: the house's arrows, libtorch and gRPC behind their gateways, clocks behind the seam.

usage: lint_includes.py ROOT; prints file:line for every offence, exit 1 if there is one.
"""
import os
import re
import subprocess
import sys

root = sys.argv[1]
files = subprocess.run(["git", "-C", root, "ls-files", "--cached", "--others", "--exclude-standard", "*.h", "*.cc"],
                       capture_output=True, text=True, check=True).stdout.split()
table = {}
for line in open(os.path.join(root, "scripts/include_table.tsv")):
    if line.strip() and not line.startswith("#"):
        folder, _, allowed = line.rstrip("\n").partition("\t")
        table[folder] = allowed.split()

# torch/torch.h costs 20 s a file: only these may.
TORCH_H = set()
# Files that are the gateway to libtorch in a torch-free folder.
TORCH_GATEWAY = re.compile(r"^rpc/tensor/torch[^/]*$")
# The implementations of the seams, and what waits in real time by its nature.
SEAM_FILES = {
    "rpc/base/clock.cc", "rpc/base/future.h", "rpc/base/future.cc", "rpc/base/executor.cc", "rpc/base/rng.cc",
    "rpc/base/fs_real.cc", "rpc/base/log.cc", "rpc/transport/grpc/poller.cc", "rpc/transport/grpc/grpc_transport.cc",
    "rpc/agent/node.cc",  # Node::Join blocks a real thread
}
SEAMS = re.compile(r"absl::Now\(|\b(steady_clock|system_clock)::now|\brand\(\)|random_device|::open\(|sleep_for|absl::SleepFor|\busleep\(")

offences = []
for name in files:
    parts = name.split("/")
    folder = None
    for n in range(len(parts) - 1, 0, -1):
        if "/".join(parts[:n]) in table:
            folder = "/".join(parts[:n])
            break
    product = parts[0] not in ("tests", "bench")
    for number, line in enumerate(open(os.path.join(root, name), encoding="utf-8"), 1):
        where = f"{name}:{number}"
        include = re.match(r'\s*#\s*include\s+["<]([^">]+)[">]', line)
        if include:
            path = include.group(1)
            if path == "torch/torch.h" and name not in TORCH_H:
                offences.append(f"{where}: includes torch/torch.h; use a narrower header, or add the file to the list")
            if re.match(r"(ATen|torch|c10)/", path):
                if not ("torch" in table.get(folder, []) or TORCH_GATEWAY.match(name)):
                    offences.append(f"{where}: {path} is libtorch's; only rpc/tensor/torch.* may include it here")
            if path.startswith(("grpcpp/", "grpc/")) and product and not name.startswith("rpc/transport/grpc/"):
                offences.append(f"{where}: {path} is gRPC's; only rpc/transport/grpc may include it")
            if re.match(r"(rpc|proto|optim|server|worker|autograd|tests|bench)/", path):
                own = os.path.dirname(name)
                ok = os.path.dirname(path) == own or (folder and path.startswith(folder + "/"))
                for allowed in table.get(folder, []):
                    ok = ok or path == allowed or path.startswith(allowed + "/")
                if folder is None:
                    offences.append(f"{where}: folder {own} has no row in scripts/include_table.tsv")
                elif not ok:
                    offences.append(f"{where}: {folder} may not include {path} (scripts/include_table.tsv)")
        elif product and name not in SEAM_FILES and not line.lstrip().startswith("//"):
            seam = SEAMS.search(line)
            if seam:
                offences.append(f"{where}: {seam.group(0)} goes around the seams (Clock, Rng, FileSystem)")
for offence in offences:
    print(offence)
print(f"{len(files)} files, {len(offences)} offences")
sys.exit(1 if offences or not files else 0)
