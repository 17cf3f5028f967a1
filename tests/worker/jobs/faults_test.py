#!/usr/bin/env python3
"""Bad input and faults through the real binaries: each ends in time, says what is wrong, leaves no process.

usage: faults_test.py FOLDER_WITH_THE_BINARIES DATA_FOLDER
"""
import gzip
import os
import re
import shutil
import signal
import struct
import sys
import tempfile
import time
import unittest

from processes import Nursery, PATIENCE, free_port, run_command

BIN, DATA = sys.argv[1], sys.argv[2]
FOREVER = "--epochs=1000000"
# A connection is lost after 1 s and a session after 1 s more, so that the tests needn't wait long.
SHORT = ("--liveness-timeout=1s", "--resume-window=1s", "--connect-timeout=1s")


class Case(unittest.TestCase):

  def setUp(self):
    self.nursery = Nursery()
    self.addCleanup(self.nursery.kill_all)
    folder = tempfile.TemporaryDirectory(prefix="faults.")
    self.addCleanup(folder.cleanup)
    self.folder = folder.name

  def start(self, *command, report=False):
    return self.nursery.start(list(command), report)

  def start_run(self, workers=2, *arguments, run_flags=()):
    return self.nursery.start(run_command(BIN, DATA, "movielens", 1, workers, *arguments,
                                          run_flags=("--progress-interval=50ms", *run_flags)))

  def start_server(self, *flags):
    self.rendezvous = f"tcp://127.0.0.1:{free_port()}"
    server = self.start(f"{BIN}/ps", f"--listen={self.rendezvous[6:]}", f"--rendezvous={self.rendezvous}",
                        "--owners=1", *flags)
    server.output.wait_for("ps0 serves on")
    return server

  def start_worker(self, *flags, job="movielens", data=DATA):
    return self.start(f"{BIN}/worker", f"--job={job}", f"--rendezvous={self.rendezvous}", f"--data-dir={data}",
                      "--report-every=1ms", *flags, report=True)

  def expect_end(self, process, status, within=PATIENCE, *texts):
    began = time.monotonic()
    got = process.wait(PATIENCE)
    took = time.monotonic() - began
    statuses = (status,) if isinstance(status, int) else status
    self.assertIn(got, statuses, process.text()[-3000:])
    self.assertLess(took, within, process.text()[-3000:])
    for text in texts:
      self.assertRegex(process.text(), text)

  def expect_nobody(self):
    self.assertEqual(self.nursery.wait_for_nobody(2), {})

  def expect_serving(self, server):
    """Another worker trains to its end; then the server ends as told."""
    self.expect_end(self.start_worker("--epochs=1"), 0, PATIENCE, "rmse 0.9")
    server.send(signal.SIGTERM)
    self.expect_end(server, 0, 5)
    self.expect_nobody()


class Signals(Case):

  def test_run_in_mid_training(self):
    for number in (signal.SIGINT, signal.SIGTERM):
      with self.subTest(number.name):
        job = self.start_run(2, FOREVER)
        job.output.wait_for(r"\[run\].* epoch")
        job.send(number)
        self.expect_end(job, 128 + number, 5, f"{number.name}: ending the job")
        self.expect_nobody()

  def test_a_killed_run_leaves_nothing(self):
    job = self.start_run(2, FOREVER)
    job.output.wait_for(r"\[run\].* epoch")
    self.assertEqual(len(self.nursery.find("name=(ps0|worker0|worker1) ")), 3)
    job.send(signal.SIGKILL)
    self.assertEqual(self.nursery.wait_for_nobody(5), {})

  def test_an_idle_server(self):
    for number in (signal.SIGINT, signal.SIGTERM):
      with self.subTest(number.name):
        server = self.start_server()
        server.send(number)
        self.expect_end(server, 0, 5)
        self.expect_nobody()

  def test_a_worker_in_mid_training(self):
    server = self.start_server()
    for number in (signal.SIGINT, signal.SIGTERM):
      with self.subTest(number.name):
        worker = self.start_worker(FOREVER)
        worker.reports.wait_for(" rows=[1-9]")
        worker.send(number)
        self.expect_end(worker, 1, 5, "interrupted by a signal")
    self.expect_serving(server)

  def test_a_server_in_mid_training(self):
    for number in (signal.SIGINT, signal.SIGTERM):
      with self.subTest(number.name):
        server = self.start_server()
        worker = self.start_worker(FOREVER)
        worker.reports.wait_for(" rows=[1-9]")
        server.send(number)
        self.expect_end(server, 0, 5)
        self.expect_end(worker, 1, 10, "ps0")
        self.expect_nobody()

  def test_a_worker_that_waits_for_its_server(self):
    self.start_server()
    for number in (signal.SIGINT, signal.SIGTERM):
      with self.subTest(number.name):
        worker = self.start_worker("--servers=2")  # ps1 never comes
        worker.output.wait_for("no job token")
        worker.send(number)
        self.expect_end(worker, (1, -number), 5)

  def test_those_that_wait_for_the_rendezvous(self):
    self.rendezvous = f"tcp://127.0.0.1:{free_port()}"
    for number in (signal.SIGINT, signal.SIGTERM):
      with self.subTest(number.name):
        worker = self.start_worker()
        server = self.start(f"{BIN}/ps", f"--rendezvous={self.rendezvous}")
        for process in (worker, server):
          process.output.wait_for("no job token")
          process.send(number)
          self.expect_end(process, (1, -number), 5)
    self.expect_nobody()


class Kills(Case):

  def test_a_killed_worker_is_the_jobs_error(self):
    job = self.start_run(2, "--epochs=15")
    job.output.wait_for(r"\[run\].* epoch")
    [victim] = self.nursery.find("name=worker1 ")
    os.kill(victim, signal.SIGKILL)
    self.expect_end(job, 128 + signal.SIGKILL, PATIENCE, "gradwire run: worker1 was killed by signal 9",
                    r"\[worker0\] worker0: \d+ rows .*rmse")
    self.assertIn("worker1 was killed by signal 9", job.text().splitlines()[-1])
    self.expect_nobody()

  def test_the_server_goes_on_without_a_killed_worker(self):
    server = self.start_server("--workers=2")
    workers = [self.start_worker("--workers=2", f"--rank={rank}", "--epochs=10") for rank in range(2)]
    for worker in workers:
      worker.reports.wait_for(" rows=[1-9]")
    workers[1].send(signal.SIGKILL)
    self.expect_end(workers[1], -signal.SIGKILL, 5)
    # 80 000 ratings, half of them each, 10 times: exactly that many, whatever became of the other.
    self.expect_end(workers[0], 0, PATIENCE, "worker0: 400000 rows .*rmse 0.9", "worker=worker1")
    self.expect_serving(server)

  def test_the_others_finish_without_worker_0(self):
    server = self.start_server("--workers=2")
    workers = [self.start_worker("--workers=2", f"--rank={rank}", "--epochs=10") for rank in range(2)]
    for worker in workers:
      worker.reports.wait_for(" rows=[1-9]")
    workers[0].send(signal.SIGKILL)
    self.expect_end(workers[1], 0, PATIENCE, "worker1: 400000 rows", "worker0 was not told")
    self.expect_serving(server)


class Pauses(Case):

  def test_a_server_that_comes_back(self):
    server = self.start_server()
    worker = self.start_worker("--epochs=6", "--call-timeout=60s")
    worker.reports.wait_for(" rows=[1-9]")
    server.send(signal.SIGSTOP)
    worker.reports.wait_for_silence()
    server.send(signal.SIGCONT)
    self.expect_end(worker, 0, PATIENCE, "worker0: 480000 rows .*rmse 0.9")
    self.expect_serving(server)

  def test_a_server_that_does_not(self):
    server = self.start_server()
    worker = self.start_worker(FOREVER, *SHORT)
    worker.reports.wait_for(" rows=[1-9]")
    server.send(signal.SIGSTOP)
    self.expect_end(worker, 1, 10, "ps0")
    server.send(signal.SIGCONT)
    self.expect_serving(server)

  def test_a_worker(self):
    server = self.start_server()
    worker = self.start_worker("--epochs=6")
    worker.reports.wait_for(" rows=[1-9]")
    worker.send(signal.SIGSTOP)
    worker.reports.wait_for_silence()
    worker.send(signal.SIGCONT)
    self.expect_end(worker, 0, PATIENCE, "worker0: 480000 rows .*rmse 0.9")
    self.expect_serving(server)


class Missing(Case):

  def test_a_server_that_cannot_be_reached(self):
    port = free_port()
    self.rendezvous = f"static:ps0=127.0.0.1:{port}"
    worker = self.start_worker("--join-timeout=1s", "--connect-timeout=500ms")
    self.expect_end(worker, 1, PATIENCE, f"ps0.*127.0.0.1:{port}", "is it started")

  def test_a_server_that_was_not_started(self):
    self.start_server("--servers=2")
    worker = self.start_worker("--servers=2", "--join-timeout=1s")
    self.expect_end(worker, 1, PATIENCE, "waiting for parameter server ps1", "is it started")

  def test_a_world_that_is_not_complete(self):
    self.rendezvous = f"tcp://127.0.0.1:{free_port()}"
    server = self.start(f"{BIN}/ps", f"--listen={self.rendezvous[6:]}", f"--rendezvous={self.rendezvous}",
                        "--world-size=3", "--join-timeout=1s")
    self.expect_end(server, 1, PATIENCE, "ps0", "3")

  def test_no_rendezvous_there(self):
    self.rendezvous = f"tcp://127.0.0.1:{free_port()}"
    worker = self.start_worker("--join-timeout=1s", "--connect-timeout=500ms")
    self.expect_end(worker, 1, PATIENCE, self.rendezvous[6:])

  def test_a_name_twice(self):
    server = self.start_server("--workers=2")
    first = self.start_worker(FOREVER, "--workers=2", "--rank=0")
    first.reports.wait_for(" rows=[1-9]")
    second = self.start_worker("--workers=2", "--rank=0", "--join-timeout=1s")
    self.expect_end(second, 1, PATIENCE, "worker0")
    other = self.start(f"{BIN}/ps", f"--rendezvous={self.rendezvous}", "--join-timeout=1s")
    self.expect_end(other, 1, PATIENCE, "ps0")
    self.assertTrue(first.reports.wait_for_more(1), first.text())  # it didn't notice
    first.send(signal.SIGTERM)
    self.expect_end(first, 1, 5)
    self.expect_serving(server)

  def test_a_port_twice(self):
    self.start_server()
    other = self.start(f"{BIN}/ps", f"--listen={self.rendezvous[6:]}", f"--rendezvous={self.rendezvous}")
    self.expect_end(other, 1, PATIENCE, re.escape(self.rendezvous[6:]))


class Memory(Case):

  def test_a_dense_table_over_the_limit(self):
    server = self.start_server("--memory-limit=2MiB")
    self.expect_end(self.start_worker(job="mnist"), 1, PATIENCE, "mlp", "raise --memory-limit")
    self.expect_serving(server)

  def test_rows_over_the_limit(self):
    server = self.start_server("--memory-limit=128KiB")
    self.expect_end(self.start_worker(), 1, PATIENCE, "table|user|item", "raise --memory-limit")
    server.send(signal.SIGTERM)
    self.expect_end(server, 0, 5)
    self.expect_nobody()


class Files(Case):

  def refused(self, job, *texts):
    worker = self.start(f"{BIN}/worker", "--local", f"--job={job}", "--epochs=1", f"--data-dir={self.folder}")
    self.expect_end(worker, 1, PATIENCE, *texts)

  def write(self, name, data):
    path = os.path.join(self.folder, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
      file.write(data)

  @staticmethod
  def read(name):
    with open(os.path.join(DATA, name), "rb") as file:
      return file.read()

  def test_missing(self):
    self.refused("mnist", "there is no data file .*mnist_5k.csv.gz", "scripts/setup", "--data-dir")
    self.refused("movielens", "there is no data file .*ml-100k", "scripts/setup", "--data-dir")

  def test_packed_digits(self):
    packed = self.read("mnist_5k.csv.gz")
    flipped = bytearray(packed)
    for at in range(500_000, 500_064):
      flipped[at] ^= 0xff
    for name, data in {"flipped": bytes(flipped), "checksum": packed[:-8] + bytes(8), "cut": packed[:500_000],
                       "head": packed[:10], "more": packed + b"more"}.items():
      with self.subTest(name):
        self.write("mnist_5k.csv.gz", data)
        self.refused("mnist", r"mnist_5k.csv.gz, byte \d+: ", "the file is damaged")
    self.write("mnist_5k.csv.gz", b"")
    self.refused("mnist", "mnist_5k.csv.gz has no lines")

  def test_lines_of_digits(self):
    lines = gzip.decompress(self.read("mnist_5k.csv.gz")).splitlines()
    def alter(line, column, value):
      altered = lines[:200]
      fields = altered[line - 1].split(b",")
      fields[column - 1:column] = value
      altered[line - 1] = b",".join(fields)
      self.write("mnist_5k.csv.gz", gzip.compress(b"\n".join(altered) + b"\n", 1))
    alter(123, 45, [b"grey"])
    self.refused("mnist", 'line 123, column 45: "grey" is no whole number from 0 to 255')
    alter(7, 785, [b"10"])
    self.refused("mnist", 'line 7, column 785: "10" is no whole number from 0 to 9')
    alter(9, 3, [])
    self.refused("mnist", "line 9: it has 784 of 785 columns")
    alter(9, 3, [b"0", b"0"])
    self.refused("mnist", "line 9: it has more than 785 columns")

  def test_lines_of_ratings(self):
    name = "ml-100k/ml-100k.inter"
    lines = self.read(name).splitlines()[:1000]
    for line, column, value, text in [
        (17, 1, b"x", 'line 17, column 1: "x" is no whole number'),
        (1000, 2, b"-5", 'line 1000, column 2: "-5" is no whole number'),
        (2, 3, b"nan", 'line 2, column 3: "nan" is no number from 0.5 to 5'),
        (99, 2, b"99999999999999999999", "line 99, column 2"),
        (50, 4, b"1\t2", "line 50: it has more than 4 columns")]:
      with self.subTest(text):
        altered = list(lines)
        fields = altered[line - 1].split(b"\t")
        fields[column - 1] = value
        altered[line - 1] = b"\t".join(fields)
        self.write(name, b"\n".join(altered))
        self.refused("movielens", re.escape(name), text)
    self.write(name, b"\n".join(lines)[:-12])
    self.refused("movielens", "line 1000")
    for name_of, data in {"empty": b"", "header": lines[0] + b"\n"}.items():
      with self.subTest(name_of):
        self.write(name, data)
        self.refused("movielens", "ml-100k.inter has no ratings")

  def test_idx(self):
    images = struct.pack(">4I", 0x803, 20, 28, 28) + bytes(20 * 784)
    labels = struct.pack(">2I", 0x801, 20) + bytes(20)
    for file, data, text in [
        ("images-idx3", b"\0\0\x08\x04" + images[4:], "it doesn't begin with 0x00000803"),
        ("images-idx3", images[:-1], "it says 20 images and has 15679 bytes"),
        ("images-idx3", images[:9], "it doesn't begin with"),
        ("images-idx3", images[:8] + struct.pack(">2I", 27, 28) + images[16:], "27 by 28"),
        ("images-idx3", struct.pack(">4I", 0x803, 0xffffffff, 28, 28) + images[16:], "it says 4294967295 images"),
        ("labels-idx1", b"\0\0\x08\x03" + labels[4:], "it doesn't begin with 0x00000801"),
        ("labels-idx1", labels[:-3], "it says 20 labels and has 17; there are 20 images"),
        ("labels-idx1", labels[:-1] + b"\x0a", "label 19 is 10")]:
      with self.subTest(text):
        files = {"images-idx3": images, "labels-idx1": labels, file: data}
        for part in ("train", "t10k"):
          for kind, content in files.items():
            self.write(f"{part}-{kind}-ubyte", content)
        self.refused("mnist", f"train-{file}-ubyte", text, "it is no IDX file of MNIST")
    os.remove(os.path.join(self.folder, "train-labels-idx1-ubyte"))
    self.refused("mnist", "there is no data file .*train-labels-idx1-ubyte")

  def test_a_job_says_it_too(self):
    """What a worker says of its data is the job's error."""
    self.write("ml-100k/ml-100k.inter", b"1\t2\tbad\t4\n")
    job = self.nursery.start(run_command(BIN, self.folder, "movielens", 1, 2))
    self.expect_end(job, 1, PATIENCE, r"worker\d ended with status 1: .*line 1, column 3")
    self.expect_nobody()

  def test_more_workers_than_batches(self):
    os.makedirs(os.path.join(self.folder, "ml-100k"))
    shutil.copy(os.path.join(DATA, "ml-100k/ml-100k.inter"), os.path.join(self.folder, "ml-100k"))
    job = self.nursery.start(run_command(BIN, self.folder, "movielens", 1, 3, "--epochs=1", "--batch-rows=16777216"))
    self.expect_end(job, 0, PATIENCE, "quality +rmse", "80000 rows")
    self.expect_nobody()


class Flags(Case):

  def test_absurd_ones_are_refused(self):
    for binary, flag, allowed in [
        ("worker", "--epochs=-1", "from 0"), ("worker", "--batch-rows=-1", "from 0"),
        ("worker", "--batch-rows=99999999999", "to 16777216"), ("worker", "--servers=0", "from 1"),
        ("worker", "--workers=0", "from 1"), ("worker", "--lr=nan", "from -1"), ("worker", "--lr=inf", "from -1"),
        ("worker", "--lr=-0.5", "-1"), ("worker", "--threads=0", "from 1"), ("worker", "--rank=5", "ranks count from 0"),
        ("worker", "--epoch=3", "epochs"), ("ps", "--servers=0", "from 1"), ("ps", "--memory-limit=-1", "allowed"),
        ("ps", "--owners=1000", "at most 256")]:
      with self.subTest(f"{binary} {flag}"):
        more = ("--job=movielens", "--local", "--epochs=1", f"--data-dir={DATA}") if binary == "worker" else ()
        process = self.start(f"{BIN}/{binary}", *more, flag)
        name = flag[2:].partition("=")[0]
        self.expect_end(process, 1, 30, name, allowed)

  def test_no_batch_rows_means_the_jobs_own(self):
    worker = self.start(f"{BIN}/worker", "--job=movielens", "--local", "--epochs=1", "--batch-rows=0",
                        f"--data-dir={DATA}")
    self.expect_end(worker, 0, PATIENCE, "80000 rows .*rmse 0.9")

  def test_a_run_without_servers(self):
    job = self.nursery.start(run_command(BIN, DATA, "movielens", 0, 1))
    self.expect_end(job, 1, PATIENCE, "worker0 ended with status 1: .*option servers")
    self.expect_nobody()


if __name__ == "__main__":
  unittest.main(argv=[sys.argv[0], *sys.argv[3:]], verbosity=2)
