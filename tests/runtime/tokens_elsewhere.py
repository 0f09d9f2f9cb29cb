#!/usr/bin/env python3
"""Reads files of version 1 as llm.c's tools do, and finds their tokens with a second tokenizer.

    tokens_elsewhere.py MUSTER_TRAIN

The second tokenizer knows nothing but tokenizer.json and the definition of GPT-2's pattern.
"""
import json
import os
import subprocess
import sys
import tempfile
import unicodedata

try:
    import numpy as np
except ImportError:
    sys.exit(77)

TEXT = """It's the year 2024; we'll see what they've done.  Two  spaces,\ttabs\n\n\nand lines.
\u00dcber die Br\u00fccke \u2014 \u4e2d\u6587\u5b57\u7b26\uff0c
\u0440\u0443\u0441\u0441\u043a\u0438\u0439 \u00bd \u2163 \u0663\u0664 caf\u00e9\u00a0nbsp\u3000wide
\U0001f600\U0001f680!! I'M don't'st x=y+1;  \n  """


def kind(character):
    if character in "\t\n\v\f\r \u0085\u00a0\u1680\u2028\u2029\u202f\u205f\u3000" or (
            "\u2000" <= character <= "\u200a"):
        return "space"
    return {"L": "letter", "N": "number"}.get(unicodedata.category(character)[0], "other")


def words(text):
    at = 0
    while at < len(text):
        ending = next((e for e in ("'s", "'t", "'re", "'ve", "'m", "'ll", "'d")
                       if text.startswith(e, at)), None)
        if ending:
            yield ending
            at += len(ending)
            continue
        begin = at
        first = at + (text[at] == " " and at + 1 < len(text))
        if kind(text[first]) != "space":
            at = first
            while at < len(text) and kind(text[at]) == kind(text[first]):
                at += 1
        else:
            while at < len(text) and kind(text[at]) == "space":
                at += 1
            if at < len(text) and at - begin > 1:
                at -= 1
        yield text[begin:at]


def characters_of_bytes():
    table, extra = {}, 256
    for byte in range(256):
        if 33 <= byte <= 126 or 161 <= byte <= 172 or 174 <= byte:
            table[byte] = chr(byte)
        else:
            table[byte], extra = chr(extra), extra + 1
    return table


def encode(tokenizer, text):
    vocabulary = tokenizer["model"]["vocab"]
    ranks = {tuple(merge.split(" ")): rank
             for rank, merge in enumerate(tokenizer["model"]["merges"])}
    table = characters_of_bytes()
    for word in words(text):
        parts = [table[byte] for byte in word.encode()]
        while len(parts) > 1:
            pairs = [ranks.get(pair, len(ranks)) for pair in zip(parts, parts[1:])]
            best = min(pairs)
            if best == len(ranks):
                break
            at = pairs.index(best)
            parts[at:at + 2] = [parts[at] + parts[at + 1]]
        yield from (vocabulary[part] for part in parts)


def read_as_llm_c(path):
    header = np.fromfile(path, dtype=np.int32, count=256)
    assert header[0] == 20240520, "magic number"
    assert header[1] == 1, "version"
    tokens = np.fromfile(path, dtype=np.uint16, offset=1024)
    assert len(tokens) == header[2], "number of tokens"
    return tokens


def main():
    muster_train = sys.argv[1]
    with tempfile.TemporaryDirectory() as folder:
        text = os.path.join(folder, "a.txt")
        with open(text, "w", encoding="utf-8", newline="") as file:
            file.write(TEXT * 3)
        source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "data", "data_test.cpp")
        out = os.path.join(folder, "out")
        subprocess.run([muster_train, "tokenize", "--train", "--vocabulary", "600", "--out", out,
                        "--shard-version", "1", "--shard-tokens", "500", text, source],
                       check=True)
        shards = sorted(name for name in os.listdir(out) if name.endswith(".bin"))
        found = np.concatenate([read_as_llm_c(os.path.join(out, name)) for name in shards])
        with open(os.path.join(out, "tokenizer.json"), encoding="utf-8") as file:
            tokenizer = json.load(file)
        end = next(token["id"] for token in tokenizer["added_tokens"])
        expected = []
        for path in (text, source):
            with open(path, encoding="utf-8", newline="") as file:
                expected += [*encode(tokenizer, file.read()), end]
        assert len(shards) > 2, shards
        assert found.tolist() == expected, "the tokens differ"
    print(f"{len(expected)} tokens in {len(shards)} files agree")


main()
