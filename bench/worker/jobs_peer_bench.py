#!/usr/bin/env python3
"""Whole jobs, one server and two workers over TCP, against the same written with torch.distributed.rpc in Python.

usage: jobs_peer_bench [--quick] [--rounds=N] [--only=PART OF A ROW'S NAME] [--data-dir=FOLDER]

Prints the rows of bench/harness.h. GW_PEER_PYTHON: the peer's interpreter; scripts/bench --peers sets it.
A rate is rows of all workers over the time of the slowest; the peer leaves its first 20 steps out, ours does not.
jobs.first_step compares the worker that was first on both sides, which is what `gradwire run` says.
"""
import argparse
import json
import os
import platform
import re
import statistics
import subprocess
import sys
import tempfile

# Filled in by CMake.
BINARIES = "@GW_BINARY_DIR@"
PEER = "@PROJECT_SOURCE_DIR@/bench/peers/torch_ps_peer.py"
TIMEOUT_S = 300


class Result:
  """What a run came to; `quality` shows that both sides have trained the same."""

  def __init__(self, rate, first_step, quality):
    self.rate = rate
    self.first_step = first_step
    self.quality = quality


def output_of(command):
  """Its stdout; ends the bench with what it said if it fails."""
  environment = dict(os.environ, OMP_NUM_THREADS="1")
  try:
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, env=environment,
                          timeout=TIMEOUT_S, check=False)
  except subprocess.TimeoutExpired:
    sys.exit(f"jobs_peer_bench: not done after {TIMEOUT_S} s: {' '.join(command)}")
  if done.returncode != 0:
    sys.exit(f"jobs_peer_bench: status {done.returncode} of {' '.join(command)}\n{done.stdout}{done.stderr}")
  return done.stdout


class Job:
  """One job with its settings, in each of the ways that are compared."""

  def __init__(self, job, settings, options):
    self.worker = [f"{BINARIES}/worker", f"--job={job}", f"--data-dir={options.data_dir}"]
    self.worker += [f"--{name}={value}" for name, value in settings.items()]
    short = {"batch-rows": "batch", "epochs": "epochs", "lr": "lr"}
    self.peer_command = [options.python, PEER, f"--job={'digits' if job == 'mnist' else job}"]
    self.peer_command += [f"--data-dir={options.data_dir}"]
    self.peer_command += [f"--{short[name]}={value}" for name, value in settings.items()]

  def ours(self, workers=2):
    with tempfile.NamedTemporaryFile("r", suffix=".summary") as summary:
      output_of([f"{BINARIES}/gradwire", "run", "--servers=1", f"--workers={workers}", "--progress-interval=inf",
                 f"--summary={summary.name}", "--", *self.worker])
      with open(summary.name, encoding="utf-8") as lines:  # it may have been replaced
        facts = dict(line.rstrip("\n").split(" = ", 1) for line in lines)
    return Result(float(facts["samples_per_second"]), float(facts["first_step_seconds"]), float(facts["quality"]))

  def local(self):
    text = output_of([*self.worker, "--local"])
    rate = re.search(r" rows in [0-9.]+ s, ([0-9]+) rows/s", text)
    quality = re.search(r"(?:accuracy|rmse) ([0-9.]+)", text)
    if not rate or not quality:
      sys.exit(f"jobs_peer_bench: no rate or no quality in: {text}")
    return Result(float(rate[1]), 0, float(quality[1]))

  def peer(self):
    facts = json.loads(output_of(self.peer_command).splitlines()[-1])
    return Result(facts["samples_per_s"], facts["first_step_of_first_s"], facts["quality"])


def compare(options, name, unit, product, peer, number=lambda result: result.rate):
  if options.only not in name:
    return
  ours, peers = [], []
  for turn in range(options.rounds):
    # The order changes every round, so that a drift within it favours nobody.
    if turn % 2 == 0:
      ours.append(product())
      peers.append(peer())
    else:
      peers.append(peer())
      ours.append(product())
  ratios = [number(p) / number(q) for p, q in zip(ours, peers)]

  def side(results):
    quality = statistics.median(result.quality for result in results)
    return f"{statistics.median(map(number, results)):.4g} {unit} (quality {quality:.3f})"

  print(f"ROW\t{name}\t{statistics.median(ratios):.3f}\t{min(ratios):.3f}..{max(ratios):.3f}\t"
        f"ours {side(ours)}, peer {side(peers)}", flush=True)


def print_machine():
  with open("/proc/cpuinfo", encoding="utf-8") as info:
    model = next((line.split(": ", 1)[1].strip() for line in info if line.startswith("model name")), "unknown")
  print(f"machine: {os.cpu_count()} x {model}, {platform.system()} {platform.release()}; load {load()}", flush=True)


def load():
  with open("/proc/loadavg", encoding="utf-8") as file:
    return file.read().strip()


def parse():
  parser = argparse.ArgumentParser(prog="jobs_peer_bench", description=__doc__,
                                   formatter_class=argparse.RawDescriptionHelpFormatter)
  parser.add_argument("--quick", action="store_true", help="a moment: that it runs, not what it says")
  parser.add_argument("--rounds", type=int, default=5)
  parser.add_argument("--only", default="", metavar="PART", help="rows whose names contain this")
  parser.add_argument("--data-dir", default=os.path.join(os.environ.get("GW_DEPS_DIR", ".deps"), "data"))
  options = parser.parse_args()
  options.rounds = 1 if options.quick else max(1, options.rounds)
  options.python = os.environ.get("GW_PEER_PYTHON")
  if not options.python:
    sys.exit("jobs_peer_bench: no GW_PEER_PYTHON; run scripts/bench --peers")
  return options


def main():
  options = parse()

  def job(name, epochs, **settings):
    # More than the 20 steps that the peer leaves out, even if quick.
    settings["epochs"] = min(epochs, 2) if options.quick else epochs
    return Job(name, {key.replace("_", "-"): value for key, value in settings.items()}, options)

  digits100 = job("mnist", 5, batch_rows=100, lr=0.01)
  digits32 = job("mnist", 5, batch_rows=32, lr=0.1)
  movielens = job("movielens", 10, batch_rows=256, lr=0.1)
  start = job("mnist", 1, batch_rows=100, lr=0.01)

  print_machine()
  rate = "samples/s"
  compare(options, "jobs.mnist.b100", rate, digits100.ours, digits100.peer)
  compare(options, "jobs.mnist.b32", rate, digits32.ours, digits32.peer)
  compare(options, "jobs.movielens", rate, movielens.ours, movielens.peer)
  compare(options, "jobs.first_step", "s", start.ours, start.peer, lambda result: result.first_step)
  # Against ourselves: "peer" is the job in one process without a server; one worker on the server.
  compare(options, "jobs.mnist.of_one_process", rate, digits32.ours, digits32.local)
  compare(options, "jobs.movielens.of_one_process", rate, movielens.ours, movielens.local)
  compare(options, "jobs.movielens.two_workers", rate, movielens.ours, lambda: movielens.ours(workers=1))
  print(f"load at the end: {load()}")


if __name__ == "__main__":
  main()
