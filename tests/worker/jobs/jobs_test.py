#!/usr/bin/env python3
"""The built-in jobs as users run them: gradwire run, real data, short runs.

usage: jobs_test.py FOLDER_WITH_THE_BINARIES DATA_FOLDER
"""
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest

from processes import run_command

BIN, DATA = sys.argv[1], sys.argv[2]


def run(job, servers, workers, *arguments, summary=None):
  command = run_command(BIN, DATA, job, servers, workers, *arguments,
                        run_flags=[f"--summary={summary}"] if summary else [])
  return subprocess.run(command, capture_output=True, text=True, timeout=120)


def quality(done):
  found = re.search(r"^quality +\w+ ([0-9.]+)$", done.stdout, re.MULTILINE)
  return float(found.group(1)) if found else None


class Jobs(unittest.TestCase):

  def test_movielens_learns_with_two_workers(self):
    done = run("movielens", 1, 2)
    self.assertEqual(done.returncode, 0, done.stderr)
    self.assertLessEqual(quality(done), 0.915, done.stdout)

  def test_movielens_learns_with_three_servers_and_four_workers(self):
    done = run("movielens", 3, 4)
    self.assertEqual(done.returncode, 0, done.stderr)
    self.assertLessEqual(quality(done), 0.915, done.stdout)

  def test_digits_learn_with_two_workers(self):
    done = run("mnist", 2, 2, "--epochs=2")
    self.assertEqual(done.returncode, 0, done.stderr)
    self.assertGreater(quality(done), 0.84, done.stdout)

  def test_one_worker_and_one_server_are_one_process(self):
    """The same result to the last digit that is printed; the bits are compared in client_test.cc."""
    together = run("movielens", 1, 1, "--epochs=2")
    alone = subprocess.run([f"{BIN}/worker", "--local", "--job=movielens", "--epochs=2", f"--data-dir={DATA}"],
                           capture_output=True, text=True, timeout=120)
    pattern = r"rmse ([0-9.]+)"
    self.assertEqual(re.search(pattern, together.stdout).groups(), re.search(pattern, alone.stdout).groups())

  def test_more_workers_than_batches(self):
    done = run("movielens", 1, 3, "--epochs=1", "--batch-rows=100000")
    self.assertEqual(done.returncode, 0, done.stderr)

  def test_errors_say_what_to_do(self):
    missing = run("movielens", 1, 1, "--data-dir=/nowhere")
    self.assertNotEqual(missing.returncode, 0)
    self.assertIn("scripts/setup", missing.stdout + missing.stderr)
    unknown = run("nope", 1, 1)
    self.assertNotEqual(unknown.returncode, 0)
    self.assertIn("there are: mnist, movielens", unknown.stdout + unknown.stderr)
    alone = subprocess.run([f"{BIN}/worker", "--job=movielens", "--join-timeout=1s",
                            "--rendezvous=static:ps0=127.0.0.1:1", f"--data-dir={DATA}", "--connect-timeout=500ms"],
                           capture_output=True, text=True, timeout=60)
    self.assertNotEqual(alone.returncode, 0)
    self.assertIn("ps0", alone.stderr)

  def test_a_killed_server_is_named_within_ten_seconds(self):
    with tempfile.TemporaryDirectory() as folder, open(os.path.join(folder, "out"), "w+") as log:
      job = subprocess.Popen(run_command(BIN, DATA, "movielens", 1, 2, "--epochs=100000"), stdout=log, stderr=log, text=True)
      self.addCleanup(job.wait)
      self.addCleanup(job.kill)
      server = None
      deadline = time.monotonic() + 60
      while server is None and time.monotonic() < deadline:
        children = subprocess.run(["pgrep", "-P", str(job.pid), "-f", "name=ps0"], capture_output=True, text=True)
        log.seek(0)
        if children.stdout.strip() and "epoch" in log.read():
          server = int(children.stdout.split()[0])
      self.assertIsNotNone(server)
      os.kill(server, signal.SIGKILL)
      killed = time.monotonic()
      self.assertNotEqual(job.wait(timeout=60), 0)
      took = time.monotonic() - killed
      log.seek(0)
      text = log.read()
      self.assertIn("ps0", text.splitlines()[-1] if text else "", text[-2000:])
      self.assertLess(took, 10, text[-2000:])


if __name__ == "__main__":
  unittest.main(argv=[sys.argv[0]])
