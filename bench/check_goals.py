#!/usr/bin/env python3
"""Compares the rows that benches printed with the goals; exit 1 if a bench that ran misses one or doesn't measure it.

usage: check_goals.py OUTPUT GOALS
"""
import sys


def main():
  ran, rows = set(), {}
  with open(sys.argv[1]) as output:
    for line in output:
      parts = line.rstrip("\n").split("\t")
      if parts[0] == "BENCH":
        ran.add(parts[1])
      elif parts[0] == "ROW":
        rows[parts[1]] = float(parts[2])
  bad = 0
  with open(sys.argv[2]) as goals:
    for line in goals:
      if line.startswith("#") or not line.strip():
        continue
      bench, name, op, goal, note = line.rstrip("\n").split("\t")
      if bench not in ran:
        print(f"{name:32} {bench} did not run")
        continue
      if name not in rows:
        bad += 1
        print(f"{name:32} NOT MEASURED by {bench}")
        continue
      ok = {"<=": rows[name] <= float(goal), ">=": rows[name] >= float(goal)}[op]
      bad += not ok
      print(f"{name:32} {rows[name]:10.3f} {op} {goal:>6}  {'ok    ' if ok else 'MISSED'}  {note}")
  if not ran:
    sys.exit("no bench ran")
  return 1 if bad else 0


if __name__ == "__main__":
  sys.exit(main())
