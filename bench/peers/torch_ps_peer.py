"""A parameter server written with torch.distributed.rpc over TCP, as the peer of whole jobs: one server, two trainers.

The best of the ways that people write it: one call a step brings the gradients, the server applies its rule
HogWild-style in its pool of threads, and the answer is the newest weights. No copy is made that torch doesn't need.

  digits      MLP 784-1024-10, ReLU, SGD; each tensor of the model as it is
  movielens   global mean, biases and factors of 32, Adagrad from 0.1 without epsilon,
              ½ Σ err² + ½ · 0.1 · Σ (‖u‖² + ‖i‖² + b²). All rows are in one table (users first; a row is its factors
              and its bias), so that a batch needs one look-up: the call brings the gradients of a batch's distinct rows
              and the ids of the next batch's, the answer is the rows of those.

Prints one line of JSON: samples_per_s (both trainers, the first 20 steps of each left out, over the time of the slower
one), first_step_s (from the launch of the three interpreters to the end of the slowest trainer's first step) and
first_step_of_first_s (of the fastest one's), quality (accuracy, RMSE on what was held out).

Run by bench/worker/jobs_peer_bench.py with the environment that scripts/bench --peers made.
"""
import argparse
import ctypes
import gzip
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time

TRAINERS = 2
LEFT_OUT = 20
USERS, ITEMS, DIM = 943, 1682, 32
PENALTY = 0.1
# CLOCK_MONOTONIC: the same for all processes of the machine.
now = time.monotonic


def parse(arguments):
  parser = argparse.ArgumentParser(description="torch.distributed.rpc as a parameter server; see the top of this file")
  parser.add_argument("--job", choices=["digits", "movielens"], required=True)
  parser.add_argument("--data-dir", default=".deps/data")
  parser.add_argument("--lr", type=float, default=0.1)
  parser.add_argument("--batch", type=int, help="default: 32 digits, 256 ratings")
  parser.add_argument("--epochs", type=int, default=10)
  parser.add_argument("--timeout", type=float, default=300, help="seconds after which a run has failed")
  parser.add_argument("--rank", type=int, help=argparse.SUPPRESS)
  parser.add_argument("--port", type=int, help=argparse.SUPPRESS)
  options = parser.parse_args(arguments)
  options.batch = options.batch or {"digits": 32, "movielens": 256}[options.job]
  return options


# ---- the driver: without torch, so that it costs the run nothing ----


def die_with_parent():
  ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


def drive(options, arguments):
  with socket.socket() as probe:
    probe.bind(("127.0.0.1", 0))
    port = probe.getsockname()[1]
  environment = dict(os.environ, OMP_NUM_THREADS="1", MKL_NUM_THREADS="1")
  launched = now()
  processes = [
      # torch warns of its own use of what it calls deprecated.
      subprocess.Popen([sys.executable, "-Wignore::UserWarning", os.path.abspath(__file__), *arguments,
                        f"--rank={rank}", f"--port={port}"],
                       stdin=subprocess.DEVNULL, stdout=subprocess.PIPE if rank == 0 else sys.stderr, env=environment,
                       preexec_fn=die_with_parent, text=True) for rank in range(1 + TRAINERS)
  ]
  try:
    watchdog = threading.Timer(options.timeout, lambda: [process.kill() for process in processes])
    watchdog.start()
    line = processes[0].stdout.readline()  # the server says what came out, then everyone leaves
    if not line.startswith("{"):
      sys.exit(f"torch_ps_peer: no result of {options.job} after {now() - launched:.0f} s; see the lines above")
    result = json.loads(line)
    for name in ("first_step_s", "first_step_of_first_s"):
      result[name] -= launched
    print(json.dumps(result), flush=True)
    for process in processes:
      try:
        # Its graceful shutdown fails once in a while, after all is said: nothing of the result is lost.
        process.wait(timeout=20)
      except subprocess.TimeoutExpired:
        print("torch_ps_peer: shutdown hangs; killed", file=sys.stderr)
  finally:
    watchdog.cancel()
    for process in processes:
      if process.poll() is None:
        process.kill()
      process.wait()


if __name__ == "__main__":
  OPTIONS = parse(sys.argv[1:])
  if OPTIONS.rank is None:
    drive(OPTIONS, sys.argv[1:])
    sys.exit(0)

import numpy
import torch
import torch.distributed.rpc as rpc
import torch.nn.functional as F

# ---- data: the same files as the product's, split by a shuffle of this file's own ----


def split(count, test, seed):
  order = torch.randperm(count, generator=torch.Generator().manual_seed(seed))
  return order[test:], order[:test]


def load_digits(folder):
  with gzip.open(os.path.join(folder, "mnist_5k.csv.gz"), "rt") as file:
    table = numpy.fromstring(file.read().replace("\n", ","), dtype=numpy.float32, sep=",").reshape(-1, 785)
  table = torch.from_numpy(table)
  x, y = table[:, :784].div(255), table[:, 784].long()
  train, test = split(len(y), 1000, 1)
  return (x[train], y[train]), (x[test], y[test])


def load_ratings(folder):
  with open(os.path.join(folder, "ml-100k", "ml-100k.inter")) as file:
    file.readline()
    table = torch.from_numpy(numpy.fromstring(file.read(), dtype=numpy.float64, sep=" ").reshape(-1, 4))
  # The ids of a rating as rows of the one table.
  ids = torch.stack([table[:, 0].long() - 1, table[:, 1].long() - 1 + USERS], 1)
  ratings = table[:, 2].float()
  train, test = split(len(ratings), len(ratings) // 5, 12)
  return (ids[train], ratings[train]), (ids[test], ratings[test])


def batches(count, rank, options):
  """This trainer's share of the rows, in another order every epoch: index tensors."""
  for epoch in range(options.epochs):
    order = torch.randperm(count, generator=torch.Generator().manual_seed(1000 + epoch))
    yield from order[rank::TRAINERS].split(options.batch)


# ---- the models ----


def digits_loss(weights, x, y):
  return F.cross_entropy(digits_forward(weights, x), y)


def digits_forward(weights, x):
  w1, b1, w2, b2 = weights
  return F.linear(F.linear(x, w1, b1).relu(), w2, b2)


def predict(rows, mean):
  """rows: [n, 2, DIM + 1], of users and items."""
  user, item = rows.unbind(1)
  return (user[:, :DIM] * item[:, :DIM]).sum(1) + user[:, DIM] + item[:, DIM] + mean


# ---- the server; its functions run in the threads of its agent ----


class Server:

  def __init__(self, options):
    torch.manual_seed(1)
    self.options = options
    if options.job == "digits":
      layers = torch.nn.Linear(784, 1024), torch.nn.Linear(1024, 10)
      self.weights = [parameter.detach() for layer in layers for parameter in layer.parameters()]
    else:
      self.rows = torch.empty(USERS + ITEMS, DIM + 1).normal_(0, 0.1)
      self.rows[:, DIM] = 0
      self.squares = torch.full_like(self.rows, 0.1)
    self.reports = []
    self.mutex = threading.Lock()
    self.all_done = threading.Event()

  def quality(self):
    torch.set_grad_enabled(False)
    if self.options.job == "digits":
      _, (x, y) = load_digits(self.options.data_dir)
      return digits_forward(self.weights, x).argmax(1).eq(y).float().mean().item()
    (_, seen), (ids, ratings) = load_ratings(self.options.data_dir)
    guess = predict(self.rows[ids], seen.mean()).clamp(1, 5)
    return (guess - ratings).square().mean().sqrt().item()

  def result(self):
    if not self.all_done.wait(self.options.timeout):
      sys.exit("torch_ps_peer: not all trainers are done")
    first, rows, seconds = zip(*self.reports)
    return {
        "samples_per_s": sum(rows) / max(seconds),
        "first_step_s": max(first),
        "first_step_of_first_s": min(first),
        "quality": self.quality()
    }


SERVER = None


def pull():
  return SERVER.weights


@torch.no_grad()
def push_pull(gradients):
  torch._foreach_add_(SERVER.weights, gradients, alpha=-SERVER.options.lr)
  return SERVER.weights


def look_up(ids):
  return SERVER.rows.index_select(0, ids)


@torch.no_grad()
def push_look_up(ids, gradients, next_ids):
  SERVER.squares.index_add_(0, ids, gradients.square())
  scaled = gradients.mul_(SERVER.squares.index_select(0, ids).rsqrt_())
  SERVER.rows.index_add_(0, ids, scaled, alpha=-SERVER.options.lr)
  return SERVER.rows.index_select(0, next_ids)


def report(*facts):
  with SERVER.mutex:
    SERVER.reports.append(facts)
    if len(SERVER.reports) == TRAINERS:
      SERVER.all_done.set()


# ---- the trainers ----


class Meter:
  """When the first step ended; the rows and the time after the first LEFT_OUT steps."""

  def __init__(self):
    self.steps = self.rows = 0
    self.first = self.begin = self.end = now()

  def step(self, rows):
    self.steps += 1
    self.end = now()
    if self.steps == 1:
      self.first = self.end
    if self.steps <= LEFT_OUT:
      self.begin = self.end
    else:
      self.rows += rows

  def send(self):
    rpc.rpc_sync("server", report, args=(self.first, self.rows, max(self.end - self.begin, 1e-9)))


def train_digits(rank, options, meter):
  (x, y), _ = load_digits(options.data_dir)
  weights = rpc.rpc_sync("server", pull)
  for index in batches(len(y), rank, options):
    for weight in weights:
      weight.requires_grad_()
    digits_loss(weights, x[index], y[index]).backward()
    # The answer's tensors are the next step's weights: nothing is copied into a module.
    weights = rpc.rpc_sync("server", push_pull, args=([weight.grad for weight in weights],))
    meter.step(len(index))


def train_movielens(rank, options, meter):
  (ids, ratings), _ = load_ratings(options.data_dir)
  mean = ratings.mean()
  todo = batches(len(ratings), rank, options)
  index = next(todo)
  distinct, places = ids[index].unique(return_inverse=True)
  rows = rpc.rpc_sync("server", look_up, args=(distinct,))
  while index is not None:
    rows.requires_grad_()
    mine = F.embedding(places, rows)
    error = predict(mine, mean) - ratings[index]
    (0.5 * error.square().sum() + 0.5 * PENALTY * mine.square().sum()).backward()
    count, before, gradients = len(index), distinct, rows.grad
    index = next(todo, None)
    if index is not None:
      distinct, places = ids[index].unique(return_inverse=True)
    # After the last batch the answer is the rows of that batch once more.
    rows = rpc.rpc_sync("server", push_look_up, args=(before, gradients, distinct))
    meter.step(count)


def main(options):
  global SERVER
  torch.set_num_threads(1)
  die_with_parent()
  if options.rank == 0:
    SERVER = Server(options)
  # Without these TensorPipe polls shared memory, and burns a core while idle.
  backend = rpc.TensorPipeRpcBackendOptions(init_method=f"tcp://127.0.0.1:{options.port}", num_worker_threads=4,
                                            rpc_timeout=60, _transports=["uv"], _channels=["basic"])
  name = "server" if options.rank == 0 else f"trainer{options.rank - 1}"
  rpc.init_rpc(name, rank=options.rank, world_size=1 + TRAINERS, rpc_backend_options=backend)
  if options.rank == 0:
    print(json.dumps(SERVER.result()), flush=True)
  else:
    meter = Meter()
    {"digits": train_digits, "movielens": train_movielens}[options.job](options.rank - 1, options, meter)
    meter.send()
  rpc.shutdown()


if __name__ == "__main__":
  main(OPTIONS)
