"""Stands for a training program: says how it was started and writes a file where it is told to."""

import os
import sys

print("arguments:", sys.argv[1:])
print("rank", os.environ.get("RANK", "0"), "of", os.environ.get("WORLD_SIZE", "1"))
if "--output" in sys.argv:
    folder = sys.argv[sys.argv.index("--output") + 1]
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "model.txt"), "w", encoding="utf-8") as model:
        model.write("trained\n")
