"""Stands for a training program: says how it was started and writes a file where it is told to."""

import os
import sys

print("arguments:", sys.argv[1:])
print("rank", os.environ.get("RANK", "0"), "of", os.environ.get("WORLD_SIZE", "1"))
for word in ("--data", "--table"):
    path = sys.argv[sys.argv.index(word) + 1] if word in sys.argv else ""
    if os.path.isdir(path):
        print("data:", *sorted(os.listdir(path)))
    elif os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            print("data:", len(file.readlines()), "lines")
if "--output" in sys.argv:
    folder = sys.argv[sys.argv.index("--output") + 1]
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "model.txt"), "w", encoding="utf-8") as model:
        model.write("trained\n")
