"""torch.distributed.rpc over TCP as the peer of a bench: two processes on this machine, one-element torch.add.

Prints "ready" and then answers each line of stdin with a number:
  roundtrip N      median time of N calls, one after the other, in us
  rate WINDOW N    calls/s of N calls with WINDOW in flight
Ends at the end of stdin.

Run by C++ benches (bench/peer_process.h) with the environment that scripts/bench --peers made.
"""
import collections
import os
import socket
import statistics
import subprocess
import sys
import time

import torch
import torch.distributed.rpc as rpc

# Without these TensorPipe polls shared memory, and burns a core while idle.
OPTIONS = dict(num_worker_threads=4, rpc_timeout=60, _transports=["uv"], _channels=["basic"])


def join(name, rank, port):
  rpc.init_rpc(name, rank=rank, world_size=2, rpc_backend_options=rpc.TensorPipeRpcBackendOptions(
      init_method=f"tcp://127.0.0.1:{port}", **OPTIONS))


def roundtrip(x, count):
  times = []
  for _ in range(count):
    start = time.perf_counter_ns()
    rpc.rpc_sync("server", torch.add, args=(x, x))
    times.append(time.perf_counter_ns() - start)
  return statistics.median(times) / 1e3


def rate(x, window, count):
  calls = collections.deque()
  start = time.perf_counter_ns()
  for _ in range(count):
    if len(calls) == window:
      calls.popleft().wait()
    calls.append(rpc.rpc_async("server", torch.add, args=(x, x)))
  for call in calls:
    call.wait()
  return count / (time.perf_counter_ns() - start) * 1e9


def main():
  torch.set_num_threads(1)
  if len(sys.argv) == 3 and sys.argv[1] == "server":
    join("server", 1, int(sys.argv[2]))
    rpc.shutdown()
    return
  with socket.socket() as probe:
    probe.bind(("127.0.0.1", 0))
    port = probe.getsockname()[1]
  server = subprocess.Popen([sys.executable, os.path.abspath(__file__), "server", str(port)], stdin=subprocess.DEVNULL)
  try:
    join("client", 0, port)
    x = torch.ones(1)
    roundtrip(x, 200)  # connections and threads are made by the first calls
    print("ready", flush=True)
    for line in sys.stdin:
      words = line.split()
      numbers = [int(word) for word in words[1:]]
      print({"roundtrip": roundtrip, "rate": rate}[words[0]](x, *numbers), flush=True)
    rpc.shutdown()
    server.wait(timeout=30)
  finally:
    if server.poll() is None:
      server.kill()


main()
