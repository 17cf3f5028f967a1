"""Calls a function string(string) of an agent: client.py ADDRESS FUNCTION TEXT [TOKEN_FILE]

The wire in one page: proto/README.md says why. session_pb2 is generated from proto/gradwire/v1/session.proto.
"""
import hashlib, hmac, os, queue, random, struct, sys, time
import grpc
from gradwire.v1 import session_pb2 as wire

def u64(n): return struct.pack("<Q", n)
def text(t): return u64(len(t)) + t
def side(m): return (u64(m.version_major) + u64(m.version_minor) + text(m.job.encode()) + text(m.name.encode()) +
                     u64(m.incarnation) + text(m.nonce))

def check(ok, why):
  if not ok: sys.exit(why)

def main(address, function, argument, token_file=None):
  token = open(token_file, "rb").read().rstrip(b"\r\n") if token_file else b""
  out = queue.Queue()  # frames to send; None ends the stream
  channel = grpc.insecure_channel(address)
  control = channel.stream_stream("/gradwire.v1.Session/Control", wire.Frame.SerializeToString, wire.Frame.FromString)
  frames = control(iter(out.get, None), timeout=20)

  # The hello: who we are, who they are, and proofs both ways where there is a job token.
  hello = wire.Hello(version_major=1, job="default", name="python", incarnation=time.time_ns(), nonce=os.urandom(32),
                     session=random.getrandbits(64) | 1)
  out.put(wire.Frame(hello=hello))
  reply = next(frames).hello_reply
  check(reply.status_code == 0, f"refused by {reply.name}: {reply.status_message}")
  transcript = side(hello) + side(reply) + u64(hello.session)
  def proof(role): return hmac.new(token, text(b"gradwire hello " + role) + transcript, hashlib.sha256).digest()
  check(not token or hmac.compare_digest(reply.proof, proof(b"acceptor")), f"{reply.name} has another job token")
  out.put(wire.Frame(hello_done=wire.HelloDone(proof=proof(b"dialler") if token else b"")))

  # One call: item 1 of ours, call 1, function number 1, which is introduced by name and type.
  data = argument.encode()
  head = struct.pack("<I", len(data)) + data
  request = wire.Item(kind=wire.ITEM_KIND_REQUEST, call=1, function=1, function_name=function,
                      declaration="string(string)", timeout_us=5_000_000, head_bytes=len(head))
  out.put(wire.Frame(first_item=1, finished_below=1, items=[request], body=head))
  for frame in frames:
    refused = frame.hello_reply  # of our proof
    check(refused.status_code == 0, f"refused by {reply.name}: {refused.status_message}")
    check(not frame.HasField("goodbye"), f"{reply.name} ended the session: {frame.goodbye.status_message}")
    at = 0  # where the item's bytes begin in the body
    for number, item in enumerate(frame.items, frame.first_item):
      if item.kind == wire.ITEM_KIND_REPLY and item.call == 1:
        out.put(wire.Frame(seen=number, finished_below=2, goodbye=wire.Goodbye(status_message="done")))
        out.put(None)
        check(item.status_code == 0, f"{function} on {reply.name}: status {item.status_code}: {item.status_message}")
        (size,) = struct.unpack_from("<I", frame.body, at)
        print(frame.body[at + 4:at + 4 + size].decode())
        return
      at += item.head_bytes + sum(a.size_bytes for a in item.attachments if a.transfer == 0)
  sys.exit(f"{reply.name} closed the connection")

if __name__ == "__main__":
  main(*sys.argv[1:])
