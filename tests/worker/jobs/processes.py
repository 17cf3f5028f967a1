"""Starts the real binaries, waits for what they say, and finds what they leave behind."""
import os
import re
import signal
import socket
import subprocess
import threading
import time
import uuid

# Generous: a start may take seconds on a busy machine or under a sanitizer. Promised times are asserted by themselves.
PATIENCE = 60


def free_port():
  with socket.socket() as probe:
    probe.bind(("127.0.0.1", 0))
    return probe.getsockname()[1]


def run_command(bin_folder, data_folder, job, servers, workers, *arguments, run_flags=()):
  return [f"{bin_folder}/gradwire", "run", f"--servers={servers}", f"--workers={workers}", *run_flags, "--",
          f"{bin_folder}/worker", f"--job={job}", f"--data-dir={data_folder}", *arguments]


class Lines:
  """What comes out of a pipe, line by line."""

  def __init__(self, file):
    self.lines = []
    self.ended = False
    self.changed = threading.Condition()
    self.thread = threading.Thread(target=self._read, args=(file,), daemon=True)
    self.thread.start()

  def _read(self, file):
    with file:
      for line in file:
        with self.changed:
          self.lines.append(line)
          self.changed.notify_all()
    with self.changed:
      self.ended = True
      self.changed.notify_all()

  def text(self):
    with self.changed:
      return "".join(self.lines)

  def wait_for(self, pattern, timeout=PATIENCE):
    """The first match; fails with what was said instead."""
    def look():
      return re.search(pattern, "".join(self.lines))
    with self.changed:
      self.changed.wait_for(lambda: look() or self.ended, timeout)
      found = look()
      if not found:
        raise AssertionError(f"no {pattern!r} in:\n" + "".join(self.lines)[-3000:])
      return found

  def wait_for_more(self, count, timeout=PATIENCE):
    """Until `count` lines have come after now; False: not within the time."""
    with self.changed:
      until = len(self.lines) + count
      return self.changed.wait_for(lambda: len(self.lines) >= until, timeout)

  def wait_for_silence(self, quiet=0.5, timeout=PATIENCE):
    deadline = time.monotonic() + timeout
    while self.wait_for_more(1, quiet):
      if time.monotonic() > deadline:
        raise AssertionError("it goes on talking")


class Process:
  """A program of ours. stdout and stderr are one text; `reports` are a worker's lines of progress."""

  def __init__(self, command, token, report=False):
    environment = dict(os.environ, GW_TEST_TOKEN=token)
    self.reports = None
    pass_fds = ()
    if report:
      reader, writer = os.pipe()
      pass_fds = (writer,)
      environment["GRADWIRE_PROGRESS_FD"] = str(writer)
    self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                    stderr=subprocess.STDOUT, text=True, env=environment, pass_fds=pass_fds,
                                    start_new_session=True)
    if report:
      os.close(writer)
      self.reports = Lines(os.fdopen(reader))
    self.output = Lines(self.process.stdout)
    self.pid = self.process.pid

  def send(self, number):
    os.kill(self.pid, number)

  def wait(self, timeout=PATIENCE):
    """The exit status as a shell has it not: -N for signal N. The output is complete then."""
    status = self.process.wait(timeout)
    self.output.thread.join(timeout)
    if self.reports:
      self.reports.thread.join(timeout)
    return status

  def text(self):
    return self.output.text()


class Nursery:
  """Processes that carry a token in their environment, which their children inherit."""

  def __init__(self):
    self.token = uuid.uuid4().hex
    self.started = []

  def start(self, command, report=False):
    self.started.append(Process(command, self.token, report))
    return self.started[-1]

  def left(self):
    """Command lines of what still runs; zombies have no environment."""
    found = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
      try:
        with open(f"/proc/{pid}/environ", "rb") as file:
          if self.token.encode() not in file.read():
            continue
        with open(f"/proc/{pid}/cmdline", "rb") as file:
          found[int(pid)] = file.read().replace(b"\0", b" ").decode()
      except OSError:
        continue  # it has ended, or is another user's
    return found

  def find(self, pattern):
    return [pid for pid, command in self.left().items() if re.search(pattern, command)]

  def wait_for_nobody(self, timeout):
    """What is left after `timeout`: {} in the good case."""
    deadline = time.monotonic() + timeout
    while self.left() and time.monotonic() < deadline:
      threading.Event().wait(0.02)
    return self.left()

  def kill_all(self):
    while self.left():
      for pid in self.left():
        try:
          os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
          pass
    for process in self.started:
      process.wait()
