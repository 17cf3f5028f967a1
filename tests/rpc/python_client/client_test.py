"""The wire is not C++'s alone: client.py, at most 60 lines generated from proto/, calls a real agent.

usage: client_test.py AGENT_PROCESS PROTOC SOURCE
"""
import os
import subprocess
import sys
import tempfile
import unittest

AGENT, PROTOC, SOURCE = sys.argv[1:4]
CLIENT = os.path.join(SOURCE, "tests/rpc/python_client/client.py")


class Agent:
  """A process that is an agent; ends with the block."""

  def __init__(self, *flags):
    self.process = subprocess.Popen([AGENT, "--name=server", "--listen=127.0.0.1:0", *flags], stdin=subprocess.PIPE,
                                    stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    words = self.process.stdout.readline().split()
    assert words[0] == "ready", words
    self.address = words[2]

  def __enter__(self):
    return self

  def __exit__(self, *_):
    self.process.communicate(timeout=30)  # the end of its input
    assert self.process.returncode == 0, self.process.returncode


class ClientTest(unittest.TestCase):

  @classmethod
  def setUpClass(cls):
    cls.folder = tempfile.TemporaryDirectory(prefix="python_client.")
    proto = os.path.join(SOURCE, "proto")
    subprocess.run([PROTOC, f"--proto_path={proto}", f"--python_out={cls.folder.name}", "gradwire/v1/session.proto"],
                   check=True)

  @classmethod
  def tearDownClass(cls):
    cls.folder.cleanup()

  def call(self, *arguments):
    environment = dict(os.environ, PYTHONPATH=self.folder.name)
    return subprocess.run([sys.executable, CLIENT, *arguments], env=environment, capture_output=True, text=True, timeout=60)

  def token(self, name, value):
    path = os.path.join(self.folder.name, name)
    with open(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600), "w") as file:
      file.write(value + "\n")
    return path

  def test_is_a_page(self):
    with open(CLIENT) as file:
      self.assertLessEqual(len(file.readlines()), 60)

  def test_calls(self):
    with Agent() as agent:
      for word in ["hello", "", "grüße " * 1000]:
        result = self.call(agent.address, "test.echo", word)
        self.assertEqual(result.stderr, "")
        self.assertEqual(result.stdout, word + "\n")

  def test_unknown_function_is_named(self):
    with Agent() as agent:
      result = self.call(agent.address, "test.nothing", "x")
    self.assertEqual(result.returncode, 1)
    self.assertRegex(result.stderr, "test.nothing on server: status 5: no function test.nothing is bound here")

  def test_other_types_are_named(self):
    with Agent() as agent:
      result = self.call(agent.address, "test.held_count", "x")
    self.assertRegex(result.stderr, r"int64\(\).*string\(string\)")

  def test_token(self):
    right, wrong = self.token("right", "r" * 32), self.token("wrong", "w" * 32)
    with Agent(f"--token-file={right}") as agent:
      self.assertEqual(self.call(agent.address, "test.echo", "x", right).stdout, "x\n")
      self.assertIn("server has another job token", self.call(agent.address, "test.echo", "x", wrong).stderr)
      self.assertIn("the job token is missing", self.call(agent.address, "test.echo", "x").stderr)


if __name__ == "__main__":
  unittest.main(argv=sys.argv[:1])
