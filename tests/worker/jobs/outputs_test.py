#!/usr/bin/env python3
"""What a job leaves behind, read by the programs that it is for: the saved model by numpy, which judges it anew on the
real digits; the events by TensorBoard. And the job without files, synthetic_ctr.

usage: outputs_test.py FOLDER_WITH_THE_BINARIES DATA_FOLDER      beside DATA_FOLDER: tools, the modules of scripts/setup
"""
import glob
import gzip
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

BIN, DATA = sys.argv[1:3]
TOOLS = os.path.join(os.path.dirname(os.path.abspath(DATA)), "tools")
del sys.argv[1:3]
sys.path.insert(0, TOOLS)
try:
  import numpy
  import safetensors.numpy
  from tensorboard.backend.event_processing import event_accumulator
except ImportError as error:
  sys.exit(f"outputs_test: {error}: the tests' tools are not in {TOOLS}; run scripts/setup")


class Outputs(unittest.TestCase):

  def setUp(self):
    self.folder = tempfile.mkdtemp(prefix="outputs_test.")
    self.addCleanup(shutil.rmtree, self.folder)
    self.model = os.path.join(self.folder, "model.safetensors")

  def run_job(self, job, *arguments, servers=1, workers=2):
    return subprocess.run([f"{BIN}/gradwire", "run", f"--servers={servers}", f"--workers={workers}", "--",
                           f"{BIN}/worker", f"--job={job}", f"--data-dir={DATA}", *arguments],
                          capture_output=True, text=True, timeout=200)

  def local(self, job, *arguments, **options):
    return subprocess.run([f"{BIN}/worker", "--local", f"--job={job}", f"--data-dir={DATA}", *arguments],
                          capture_output=True, text=True, timeout=200, **options)

  def quality(self, done):
    self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
    return float(re.search(r"^quality +\w+ ([0-9.]+)$", done.stdout, re.MULTILINE).group(1))

  def test_digits_model_and_events(self):
    events = os.path.join(self.folder, "events")
    said = self.quality(self.run_job("mnist", "--epochs=2", f"--save={self.model}", f"--tensorboard={events}"))
    model = safetensors.numpy.load_file(self.model)
    self.assertEqual({name: value.shape for name, value in model.items()},
                     {"0.weight": (1024, 784), "0.bias": (1024,), "2.weight": (10, 1024), "2.bias": (10,)})
    with gzip.open(glob.glob(f"{DATA}/**/mnist_5k.csv.gz", recursive=True)[0], "rt") as file:
      table = numpy.loadtxt(file, delimiter=",", dtype=numpy.float32)
    hidden = numpy.maximum(table[:, :-1] / 255 @ model["0.weight"].T + model["0.bias"], 0)
    right = (hidden @ model["2.weight"].T + model["2.bias"]).argmax(1) == table[:, -1]
    # All 5 000 digits against the 1 000 that the job judged.
    self.assertAlmostEqual(right.mean(), said, delta=0.04)
    self.assertEqual(sorted(os.listdir(events)), ["worker0", "worker1"])
    run = event_accumulator.EventAccumulator(os.path.join(events, "worker0"))
    run.Reload()
    losses = [event.value for event in run.Scalars("loss/train")]
    self.assertLess(losses[-1], losses[0])
    self.assertEqual([round(event.value, 4) for event in run.Scalars("quality/accuracy")], [said])
    # Batches of 32 out of 2 000 rows a worker, two epochs.
    self.assertEqual(run.Scalars("quality/accuracy")[0].step, 2 * 63)

  def test_movielens_model(self):
    said = self.quality(self.run_job("movielens", "--epochs=2", f"--save={self.model}", servers=2))
    model = safetensors.numpy.load_file(self.model)
    ratings = numpy.loadtxt(glob.glob(f"{DATA}/**/ml-100k.inter", recursive=True)[0], skiprows=1)
    user, item = ratings[:, 0].astype(int), ratings[:, 1].astype(int)
    predicted = ((model["user"][user] * model["item"][item]).sum(1) + model["user_bias"][user, 0] +
                 model["item_bias"][item, 0] + model["mean"][0]).clip(1, 5)
    # All ratings, four fifths of which it was trained on.
    rmse = numpy.sqrt(((predicted - ratings[:, 2])**2).mean())
    self.assertLess(rmse, said)
    self.assertGreater(rmse, said - 0.15)

  def test_clicks_are_learned(self):
    done = self.run_job("synthetic_ctr", "--set=rows=40000,ids=1000,fields=4", "--epochs=5")
    loss = self.quality(done)
    planted = float(re.search(r"planted model's own log loss is ([0-9.]+)", done.stdout).group(1))
    self.assertGreater(loss, planted - 0.01)
    self.assertLess(loss, planted + 0.04)

  def test_settings_are_checked(self):
    unknown = self.local("synthetic_ctr", "--set=row=10")
    self.assertEqual(unknown.returncode, 1)
    self.assertIn("--set=row=10: this job has no such setting; it has dim, fields, ids, rows, skew", unknown.stderr)
    wrong = self.local("synthetic_ctr", "--set=rows=-1")
    self.assertEqual(wrong.returncode, 1)
    self.assertIn("--set=rows=-1: rows is a number from 1", wrong.stderr)

  def test_folders_that_cannot_be_written(self):
    missing = self.local("mnist", "--epochs=1", f"--save={self.folder}/none/m.safetensors")
    self.assertEqual(missing.returncode, 1)
    self.assertIn(f"--save={self.folder}/none/m.safetensors", missing.stderr)
    with open(f"{self.folder}/file", "w"):
      pass
    events = self.local("mnist", "--epochs=1", f"--tensorboard={self.folder}/file")
    self.assertEqual(events.returncode, 1)
    self.assertIn(f"--tensorboard={self.folder}/file", events.stderr)

  def test_a_disk_that_fills(self):
    """Stands in for a full disk: no file of the process may grow beyond 2 KB."""

    def limit():
      signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
      resource.setrlimit(resource.RLIMIT_FSIZE, (2048, 2048))

    events = self.local("movielens", "--epochs=3", "--report-every=1ms", f"--tensorboard={self.folder}/events",
                        preexec_fn=limit)
    self.assertEqual(events.returncode, 0, events.stderr)
    self.assertIn("the training goes on without it", events.stderr)
    model = self.local("movielens", "--epochs=1", f"--save={self.model}", preexec_fn=limit)
    self.assertEqual(model.returncode, 1)
    self.assertIn(self.model, model.stderr)
    self.assertEqual([name for name in os.listdir(self.folder) if "safetensors" in name], [])


if __name__ == "__main__":
  unittest.main(argv=[sys.argv[0]])
